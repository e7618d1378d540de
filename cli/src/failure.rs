//! The outcomes and errors of commands, with their exit codes.
//!
//! ```text
//!   0 done    1 refused, or a negative verdict    2 usage    3 unreachable
//! ```

use std::process::ExitCode;

use ballast_domain::error::{FieldProblem, ProblemDocument};

use super::output::Screen;

/// The outcome of a command without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Done, or a positive result.
    Done,
    /// A negative result.
    Negative,
    /// The input is invalid; the output says why.
    Unusable,
    /// Interrupted before there was a result.
    Interrupted,
}

impl CommandOutcome {
    /// The process exit code that tells scripts.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Negative => 1,
            Self::Unusable => 2,
            // The code of shells for Ctrl-C.
            Self::Interrupted => 130,
        })
    }
}

/// Why a command failed.
#[derive(Debug)]
pub struct CliError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    exit: u8,
    problem: ProblemDocument,
    /// The server's own document, byte for byte.
    document: Option<String>,
}

impl CliError {
    fn new(exit: u8, code: &str, title: &str, detail: String, next: &str) -> Self {
        let problem = ProblemDocument {
            kind: format!("/problems/{code}"),
            title: title.to_owned(),
            status: 0,
            code: code.to_owned(),
            detail,
            next: next.to_owned(),
            errors: Vec::new(),
        };
        Self(Box::new(Inner {
            exit,
            problem,
            document: None,
        }))
    }

    /// The server refused the request.
    pub(crate) fn rejected(problem: ProblemDocument, document: String) -> Self {
        Self(Box::new(Inner {
            exit: 1,
            problem,
            document: Some(document),
        }))
    }

    /// The command refuses the request itself.
    pub(crate) fn rejected_locally(code: &str, title: &str, detail: String, next: &str) -> Self {
        Self::new(1, code, title, detail, next)
    }

    /// The command line is invalid.
    pub(crate) fn usage(detail: impl Into<String>, next: &str) -> Self {
        Self::new(2, "usage", "Invalid command line", detail.into(), next)
    }

    /// The server is unreachable, or its response is unreadable.
    pub(crate) fn unreachable(detail: String, next: &str) -> Self {
        Self::new(3, "unreachable", "Server unreachable", detail, next)
    }

    /// Local error.
    pub fn local(detail: String) -> Self {
        Self::new(
            1,
            "local-failure",
            "Local error",
            detail,
            "Fix the cause and try again.",
        )
    }

    /// Stdout is closed: end silently.
    pub(crate) fn closed_pipe() -> Self {
        Self::new(0, "reader-gone", "", String::new(), "")
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> u8 {
        self.0.exit
    }

    /// Whether a retry may succeed: the server is unreachable or overloaded.
    pub(crate) fn is_retryable(&self) -> bool {
        self.0.exit == 3 || self.0.problem.status >= 500 || self.0.problem.status == 429
    }

    /// Whether the server could not parse the body.
    pub(crate) fn is_unreadable_request(&self) -> bool {
        let ProblemDocument { status, errors, .. } = &self.0.problem;
        let of_all = errors.iter().any(|error| error.pointer.is_empty());
        *status == 400 || self.0.problem.code == "invalid-field" && of_all
    }

    /// Adds the invalid fields.
    #[must_use]
    pub(crate) fn with_field_problems(mut self, errors: Vec<FieldProblem>) -> Self {
        self.0.problem.errors = errors;
        self
    }

    /// The same error as a note that the connection is lost and being retried.
    pub(crate) fn as_connection_lost(&self) -> Self {
        Self::new(
            self.0.exit,
            "connection-lost",
            "Connection lost, reconnecting",
            self.0.problem.detail.clone(),
            "No action needed: ballast reconnects for as long as --patience allows.",
        )
    }

    /// The detail text.
    pub(crate) fn detail(&self) -> &str {
        &self.0.problem.detail
    }

    /// The problem document.
    pub(crate) fn document(&self) -> String {
        let made = || serde_json::to_string(&self.0.problem).unwrap_or_default();
        self.0.document.clone().unwrap_or_else(made)
    }

    /// Prints the error to stderr.
    pub fn print(&self, screen: &Screen) -> ExitCode {
        if self.0.exit > 0 {
            if screen.json {
                screen.note(&self.document());
            } else {
                screen.note(&describe_problem(&self.0.problem, screen));
            }
        }
        ExitCode::from(self.0.exit)
    }
}

/// Describes a problem: title, details, next step.
fn describe_problem(problem: &ProblemDocument, screen: &Screen) -> String {
    let mut lines = vec![format!(
        "{} {}",
        screen.red("error:"),
        screen.bold(&problem.title)
    )];
    if !problem.detail.is_empty() {
        lines.push(format!("  {}", problem.detail.replace('\n', "\n  ")));
    }
    for FieldProblem { pointer, message } in &problem.errors {
        if !problem.detail.contains(message.as_str()) {
            lines.push(format!("  {}: {message}", pointer.trim_start_matches('/')));
        }
    }
    let next = next_step(problem);
    if !next.is_empty() {
        lines.push(format!("  {} {next}", screen.dim("next:")));
    }
    lines.join("\n")
}

/// The next step, as a command where possible.
fn next_step(problem: &ProblemDocument) -> &str {
    match problem.code.as_str() {
        "tenant-not-found" => "list them: ballast tenant list",
        "shard-not-found" => "list them: ballast shard list",
        "key-not-found" => "list them: ballast key list",
        "workflow-not-found" if problem.status > 0 => {
            "list them: ballast workflow list; or deploy it: ballast workflow deploy FILE"
        }
        "execution-not-found" => "list them: ballast execution list",
        "migration-not-found" => "list them: ballast migration list",
        "token-not-found" => "list them: ballast token list",
        "unknown-region" | "unknown-zone" => {
            "ballast shard list shows the regions and zones of the shards"
        }
        "changed-meanwhile" => "show it again, then repeat with --if-match and the current version",
        "idempotency-mismatch" => "choose another --idempotency-key, or omit it",
        "shard-not-empty" => {
            "run ballast shard drain ID --yes, then wait until ballast shard show ID reports it empty"
        }
        "pin-refused" => "ballast placement explain TENANT shows the shards without a veto",
        "last-admin" => "first: ballast token create --role admin --name NAME",
        "key-not-active" if problem.next.starts_with("Create") => "ballast key create TENANT",
        "missing-role" => "ballast token whoami shows the role of the token you used",
        _ => &problem.next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_with_its_next_step_and_no_field_twice() {
        let problem = ProblemDocument {
            kind: "/problems/invalid-field".into(),
            title: "Invalid field value".into(),
            status: 422,
            code: "invalid-field".into(),
            detail: "weight: 0 is not from 0.001 to 1000000".into(),
            next: "Correct it.".into(),
            errors: vec![
                FieldProblem {
                    pointer: "/weight".into(),
                    message: "0 is not from 0.001 to 1000000".into(),
                },
                FieldProblem {
                    pointer: "/zones/0".into(),
                    message: "it is empty".into(),
                },
            ],
        };
        insta::assert_snapshot!(describe_problem(&problem, &Screen::plain()), @r"
        error: Invalid field value
          weight: 0 is not from 0.001 to 1000000
          zones/0: it is empty
          next: Correct it.
        ");
    }
}
