//! Prints help and command line errors.

use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::failure::CliError;

/// Prints clap's output: help to stdout, errors to stderr, as a problem document if `--json` is
/// among the arguments.
pub fn report_usage_error(mut error: clap::Error, command: Command) -> ExitCode {
    let words = std::env::args().skip(1);
    restore_usage(&mut error, command, words);
    let error = &error;
    let help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let json = std::env::args_os()
        .take_while(|arg| arg != "--")
        .any(|arg| arg == "--json");
    if help || !json {
        // Stdout may be closed.
        let _ = error.print();
        return ExitCode::from(if help { 0 } else { 2 });
    }
    let failure = to_cli_error(error);
    let _ = std::io::Write::write_all(
        &mut std::io::stderr().lock(),
        format!("{}\n", failure.document()).as_bytes(),
    );
    ExitCode::from(failure.exit())
}

/// Replaces the usage line with the one from the command's help. clap lists the given arguments,
/// including those from the environment, so a command would seem to need `--url` because a variable
/// is set.
fn restore_usage(
    error: &mut clap::Error,
    mut command: Command,
    words: impl Iterator<Item = String>,
) {
    if error.get(ContextKind::Usage).is_none() {
        return;
    }
    command.build();
    for word in words {
        if let Some(below) = command.find_subcommand(&word) {
            command = below.clone();
        }
    }
    let usage = ContextValue::StyledStr(command.render_usage());
    error.insert(ContextKind::Usage, usage);
}

/// Converts a clap error to a problem document.
fn to_cli_error(error: &clap::Error) -> CliError {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let detail = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a subcommand is missing",
        _ => first.trim().trim_start_matches("error: "),
    };
    let lines: Vec<&str> = detail.lines().map(str::trim).collect();
    CliError::usage(lines.join(" "), "Add --help to see the usage of a command.")
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    #[test]
    fn usage_lists_nothing_that_only_the_environment_gives() {
        // A flag counts as given, like a value from the environment.
        let words = ["workflow", "check", "--url", "http://x"];
        let typed = std::iter::once("ballast").chain(words);
        let mut error = crate::TestCli::try_parse_from(typed).unwrap_err();
        assert!(
            error
                .render()
                .to_string()
                .contains("--url <URL> <NAME|FILE>")
        );
        super::restore_usage(
            &mut error,
            crate::TestCli::command(),
            words.into_iter().map(str::to_owned),
        );
        let rendered_text = error.render().to_string();
        let usage = "Usage: ballast workflow check [OPTIONS] <NAME|FILE>\n";
        assert!(rendered_text.contains(usage), "{rendered_text}");
    }

    #[test]
    fn a_bad_command_line_is_a_problem_document() {
        let error = crate::TestCli::try_parse_from(["ballast", "tenant", "crate"]).unwrap_err();
        let document: serde_json::Value =
            serde_json::from_str(&super::to_cli_error(&error).document()).unwrap();
        assert_eq!(document["code"], "usage");
        assert!(document["detail"].as_str().unwrap().contains("'crate'"));
    }
}
