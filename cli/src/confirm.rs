//! Asks for confirmation before destructive commands, on a terminal only.

use std::io::{self, BufRead, IsTerminal};

use super::failure::CliError;
use super::output::Screen;

/// Returns on `--yes` or a confirmation at the terminal. Without a terminal, `--yes` is required.
pub(crate) fn confirm(screen: &Screen, yes: bool, what: &str) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(CliError::usage(
            format!("this would {what}, and there is no terminal to confirm it"),
            "add --yes to confirm",
        ));
    }
    screen.note(&format!("This will {what}. Continue? [y/N]"));
    let mut answer = String::new();
    // An unreadable answer counts as no.
    let _ = io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(CliError::rejected_locally(
            "not-confirmed",
            "Nothing was changed",
            "not confirmed".to_owned(),
            "",
        ))
    }
}
