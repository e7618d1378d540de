//! `workflow deploy`: deploys a file to the running instance.

use std::path::Path;

use ballast_state_machines::language::{DefinitionProblem, check};

use super::files;
use super::graph::invalid_definition;
use crate::Remote;
use crate::client::{Reply, Request};
use crate::failure::CliError;
use crate::view::workflows::{self, DeployedBody};

/// A definition with its name.
#[derive(Debug)]
pub(crate) struct DefinitionFile {
    pub(crate) name: String,
    text: String,
}

impl DefinitionFile {
    /// Reads a file; the default name is the file's name.
    pub(crate) fn read(file: &Path, name: Option<String>) -> Result<Self, CliError> {
        let next = "name a definition file, or - for standard input";
        let text = files::read_text(file).map_err(|why| CliError::usage(why, next))?;
        let Some(name) = name.or_else(|| name_from_file(file)) else {
            return Err(CliError::usage(
                "a definition from standard input has no name",
                "name it: workflow deploy - --name NAME, execution start - --as NAME",
            ));
        };
        Ok(Self { name, text })
    }
}

/// The name of a file without `.asl.json`.
fn name_from_file(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str().filter(|name| *name != "-")?;
    let name = name.strip_suffix(".json").unwrap_or(name);
    Some(name.strip_suffix(".asl").unwrap_or(name).to_owned())
}

/// Deploys it and prints warnings.
pub(crate) async fn deploy(
    remote: &Remote,
    source: &DefinitionFile,
    reason: Option<String>,
) -> Result<Reply, CliError> {
    let request = Request::put(&["workflows", &source.name])
        .query("reason", reason)
        .document(source.text.clone());
    let problems = check(&source.text).problems;
    let sent = remote.client.send(request).await;
    let reply = sent.map_err(|failure| explain_rejection(failure, &problems))?;
    if !remote.screen.json {
        let deployed: DeployedBody = reply.read()?;
        for warning in workflows::list_warnings(&remote.screen, &deployed) {
            remote.screen.note(&warning);
        }
        // The server accepted it but may check less: of two states with one name it received only
        // one.
        for problem in problems.iter().filter(|problem| problem.is_error()) {
            let warning_text = format!("warning: deployed, but: {problem}");
            remote.screen.note(&warning_text);
        }
    }
    Ok(reply)
}

/// The server decides whether a definition may be deployed; it may be newer than this program. If
/// it could not parse the definition, use the problems of the local check, which have places.
fn explain_rejection(failure: CliError, problems: &[DefinitionProblem]) -> CliError {
    if failure.is_unreadable_request() && problems.iter().any(DefinitionProblem::is_error) {
        return invalid_definition(problems);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_called_as_its_file() {
        let named = |path: &str| name_from_file(Path::new(path));
        assert_eq!(named("a/b/copy.asl.json").as_deref(), Some("copy"));
        assert_eq!(named("copy.json").as_deref(), Some("copy"));
        assert_eq!(named("./copy").as_deref(), Some("copy"));
        assert_eq!(named("-"), None);
    }
}
