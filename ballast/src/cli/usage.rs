//! What is told when the command line cannot be read, or asks for help.

use std::process::ExitCode;

use clap::error::ErrorKind;

use super::failure::Failure;

/// Shows clap's word on the command line: help on stdout, errors on stderr,
/// as a problem document when `--json` is among the arguments.
pub(crate) fn told(error: &clap::Error) -> ExitCode {
    let help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let json = std::env::args_os()
        .take_while(|arg| arg != "--")
        .any(|arg| arg == "--json");
    if help || !json {
        // Whoever read it may have gone.
        let _ = error.print();
        return ExitCode::from(if help { 0 } else { 2 });
    }
    let failure = document(error);
    let _ = std::io::Write::write_all(
        &mut std::io::stderr().lock(),
        format!("{}\n", failure.document()).as_bytes(),
    );
    ExitCode::from(failure.exit())
}

/// clap's word as a problem document.
fn document(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let detail = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a subcommand is missing",
        _ => first.trim().trim_start_matches("error: "),
    };
    let lines: Vec<&str> = detail.lines().map(str::trim).collect();
    Failure::usage(
        lines.join(" "),
        "--help after the command shows how it is used.",
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[test]
    fn a_bad_command_line_is_a_problem_document() {
        let error = crate::Cli::try_parse_from(["ballast", "tenant", "crate"]).unwrap_err();
        let document: serde_json::Value =
            serde_json::from_str(&super::document(&error).document()).unwrap();
        assert_eq!(document["code"], "usage");
        assert!(document["detail"].as_str().unwrap().contains("'crate'"));
    }
}
