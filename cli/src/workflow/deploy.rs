//! `workflow deploy`: a file becomes a workflow of the running instance.

use std::path::Path;

use ballast_state_machines::language::{Problem, check};

use super::files;
use super::graph::invalid;
use crate::Remote;
use crate::client::{Reply, Request};
use crate::failure::Failure;
use crate::view::workflows::{self, Deployed};

/// A definition with the name it is to have.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    text: String,
}

impl Source {
    /// Reads a file; without a name it is called as the file is.
    pub(crate) fn of(file: &Path, name: Option<String>) -> Result<Self, Failure> {
        let next = "name a file that holds a definition, or - for the standard input";
        let text = files::read(file).map_err(|why| Failure::usage(why, next))?;
        let Some(name) = name.or_else(|| named_after(file)) else {
            return Err(Failure::usage(
                "a definition from the standard input has no name of its own",
                "name it: workflow deploy - --name NAME, execution start - --as NAME",
            ));
        };
        Ok(Self { name, text })
    }
}

/// The name of a file without `.asl.json`.
fn named_after(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str().filter(|name| *name != "-")?;
    let name = name.strip_suffix(".json").unwrap_or(name);
    Some(name.strip_suffix(".asl").unwrap_or(name).to_owned())
}

/// Deploys it, and tells of what is likely a mistake.
pub(crate) async fn deploy(
    remote: &Remote,
    source: &Source,
    reason: Option<String>,
) -> Result<Reply, Failure> {
    let request = Request::put(&["workflows", &source.name])
        .query("reason", reason)
        .document(source.text.clone());
    let problems = check(&source.text).problems;
    let sent = remote.client.send(request).await;
    let reply = sent.map_err(|failure| placed(failure, &problems))?;
    if !remote.screen.json {
        let deployed: Deployed = reply.read()?;
        for warning in workflows::warnings(&remote.screen, &deployed) {
            remote.screen.note(&warning);
        }
        // The server took it, and reads what we do not, or less than we do: of
        // two states with one name it was sent one.
        for problem in problems.iter().filter(|problem| problem.is_error()) {
            let told = format!("warning: it is deployed, and yet: {problem}");
            remote.screen.note(&told);
        }
    }
    Ok(reply)
}

/// Whether a definition may be deployed the server says, which may be newer
/// than we are. But what it could not even read it cannot tell the places of:
/// that is told from our own check.
fn placed(failure: Failure, problems: &[Problem]) -> Failure {
    if failure.is_unreadable() && problems.iter().any(Problem::is_error) {
        return invalid(problems);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_called_as_its_file() {
        let named = |path: &str| named_after(Path::new(path));
        assert_eq!(named("a/b/copy.asl.json").as_deref(), Some("copy"));
        assert_eq!(named("copy.json").as_deref(), Some("copy"));
        assert_eq!(named("./copy").as_deref(), Some("copy"));
        assert_eq!(named("-"), None);
    }
}
