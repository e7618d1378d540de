//! Asking before what cannot be undone — on a terminal only.

use std::io::{self, BufRead, IsTerminal};

use super::failure::Failure;
use super::output::Screen;

/// Goes on with `--yes`, or when a person at the terminal says so; where
/// nobody can be asked, `--yes` is needed.
pub(crate) fn confirm(screen: &Screen, yes: bool, what: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            format!("this would {what}, and there is no terminal to ask at"),
            "add --yes if that is what you want",
        ));
    }
    screen.note(&format!("This will {what}. Go on? [y/N]"));
    let mut answer = String::new();
    // An answer that cannot be read is no yes.
    let _ = io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(Failure::refused_here(
            "not-confirmed",
            "Nothing was changed",
            "you did not say yes".to_owned(),
            "",
        ))
    }
}
