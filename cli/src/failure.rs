//! How a command can end other than well, and with which exit code.
//!
//! ```text
//!   0 done    1 refused, or a negative verdict    2 usage    3 unreachable
//! ```

use std::process::ExitCode;

use ballast_domain::error::{FieldProblem, Problem};

use super::output::Screen;

/// How a command that ran to its end came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is done, or the answer is yes.
    Done,
    /// The answer is no.
    Negative,
    /// There is no answer: what was given cannot be used, which was told as data.
    Unusable,
    /// There is no answer yet: whoever asked does not want to wait for it.
    Interrupted,
}

impl Verdict {
    /// The process exit code that tells scripts.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Negative => 1,
            Self::Unusable => 2,
            // As shells have it for Ctrl-C.
            Self::Interrupted => 130,
        })
    }
}

/// Why a command did not do what it should.
#[derive(Debug)]
pub struct Failure(Box<Inner>);

#[derive(Debug)]
struct Inner {
    exit: u8,
    problem: Problem,
    /// The server's own document, byte for byte.
    document: Option<String>,
}

impl Failure {
    fn new(exit: u8, code: &str, title: &str, detail: String, next: &str) -> Self {
        let problem = Problem {
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

    /// The server said no.
    pub(crate) fn refused(problem: Problem, document: String) -> Self {
        Self(Box::new(Inner {
            exit: 1,
            problem,
            document: Some(document),
        }))
    }

    /// We say no, in the server's stead.
    pub(crate) fn refused_here(code: &str, title: &str, detail: String, next: &str) -> Self {
        Self::new(1, code, title, detail, next)
    }

    /// The command cannot be meant as it was typed.
    pub(crate) fn usage(detail: impl Into<String>, next: &str) -> Self {
        Self::new(
            2,
            "usage",
            "The command cannot be run like that",
            detail.into(),
            next,
        )
    }

    /// There is nobody there, or nobody we can understand.
    pub(crate) fn unreachable(detail: String, next: &str) -> Self {
        Self::new(
            3,
            "unreachable",
            "The server cannot be reached",
            detail,
            next,
        )
    }

    /// Something failed on this machine.
    pub fn local(detail: String) -> Self {
        Self::new(
            1,
            "local-failure",
            "Something failed on this machine",
            detail,
            "Correct what the detail says and try again.",
        )
    }

    /// Whoever read our output has gone: nobody to tell, nothing wrong.
    pub(crate) fn reader_gone() -> Self {
        Self::new(0, "reader-gone", "", String::new(), "")
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> u8 {
        self.0.exit
    }

    /// Whether it may be over in a moment: nobody is there, or somebody who
    /// cannot answer now.
    pub(crate) fn is_passing(&self) -> bool {
        self.0.exit == 3 || self.0.problem.status >= 500 || self.0.problem.status == 429
    }

    /// Whether the server could not read what it was sent: it was no JSON, or
    /// nothing of the kind that was asked for.
    pub(crate) fn is_unreadable(&self) -> bool {
        let Problem { status, errors, .. } = &self.0.problem;
        let of_all = errors.iter().any(|error| error.pointer.is_empty());
        *status == 400 || self.0.problem.code == "invalid-field" && of_all
    }

    /// With the places of what is wrong.
    #[must_use]
    pub(crate) fn at(mut self, errors: Vec<FieldProblem>) -> Self {
        self.0.problem.errors = errors;
        self
    }

    /// The same as something that is over in a moment, perhaps: whoever tells
    /// it tries again.
    pub(crate) fn passing(&self) -> Self {
        Self::new(
            self.0.exit,
            "connection-lost",
            "The connection is lost, trying again",
            self.0.problem.detail.clone(),
            "Nothing is to be done: it is tried again for as long as --patience says.",
        )
    }

    /// What exactly is wrong.
    pub(crate) fn detail(&self) -> &str {
        &self.0.problem.detail
    }

    /// The problem document.
    pub(crate) fn document(&self) -> String {
        let made = || serde_json::to_string(&self.0.problem).unwrap_or_default();
        self.0.document.clone().unwrap_or_else(made)
    }

    /// Tells it on stderr.
    pub fn print(&self, screen: &Screen) -> ExitCode {
        if self.0.exit > 0 {
            if screen.json {
                screen.note(&self.document());
            } else {
                screen.note(&human(&self.0.problem, screen));
            }
        }
        ExitCode::from(self.0.exit)
    }
}

/// A problem for a person: what kind, what exactly, what to do next.
fn human(problem: &Problem, screen: &Screen) -> String {
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

/// The next step as something that can be typed here.
fn next_step(problem: &Problem) -> &str {
    match problem.code.as_str() {
        "tenant-not-found" => "see which there are: ballast tenant list",
        "shard-not-found" => "see which there are: ballast shard list",
        "key-not-found" => "see which there are: ballast key list",
        "workflow-not-found" if problem.status > 0 => {
            "see which there are: ballast workflow list; or deploy it: ballast workflow deploy FILE"
        }
        "execution-not-found" => "see which there are: ballast execution list",
        "migration-not-found" => "see which there are: ballast migration list",
        "token-not-found" => "see which there are: ballast token list",
        "unknown-region" | "unknown-zone" => {
            "ballast shard list shows the regions and zones of the shards"
        }
        "changed-meanwhile" => "show it again, and repeat with --if-match and its version now",
        "idempotency-mismatch" => "give another --idempotency-key, or leave it out",
        "shard-not-empty" => {
            "ballast shard drain ID --yes, and wait until ballast shard show ID says that it is empty"
        }
        "pin-refused" => "ballast placement explain TENANT shows the shards that nothing vetoes",
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
        let problem = Problem {
            kind: "/problems/invalid-field".into(),
            title: "A field has a value that cannot be".into(),
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
        insta::assert_snapshot!(human(&problem, &Screen::plain()), @r"
        error: A field has a value that cannot be
          weight: 0 is not from 0.001 to 1000000
          zones/0: it is empty
          next: Correct it.
        ");
    }
}
