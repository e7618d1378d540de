//! Workflow definitions, for people.

use ballast_state_machines::definitions::BuiltIn;
use ballast_state_machines::language::{Definition, Problem};

use crate::cli::output::Screen;
use crate::cli::table::Table;

/// The workflows there are.
pub(crate) fn list(screen: &Screen, known: &[(BuiltIn, Definition)]) -> String {
    let mut table = Table::new(screen, &["workflow", "what it does"]);
    for (known, definition) in known {
        let comment = definition.comment().unwrap_or_default();
        table.row([known.name.to_owned(), comment.to_owned()]);
    }
    table.text()
}

/// What is wrong with a definition.
pub(crate) fn problems(screen: &Screen, file: &str, valid: bool, problems: &[Problem]) -> String {
    let mut lines = Vec::new();
    for problem in problems {
        let kind = if problem.is_error() {
            screen.red("error:")
        } else {
            screen.bold("warning:")
        };
        lines.push(format!("{kind} {problem} [{}]", problem.code.as_str()));
    }
    let verdict = if valid {
        screen.green("valid")
    } else {
        screen.red("not valid")
    };
    lines.push(format!("{file}: {verdict}"));
    lines.join("\n")
}
