//! `execution start`: a workflow by its name, or a file that is deployed first.

use std::path::{Path, PathBuf};

use clap::Args;

use super::body::Execution;
use super::watch::{ExecutionWatch, WatchMode};
use super::{ReconnectArgs, json_argument};
use crate::Remote;
use crate::args::JsonFields;
use crate::client::Request;
use crate::failure::{CliError, CommandOutcome};
use crate::view::{self, executions};
use crate::workflow::{DefinitionFile, deploy};

/// The workflow to start, and its input.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// A workflow's name, or a file, which is deployed first
    #[arg(value_name = "WORKFLOW|FILE")]
    workflow: String,
    /// The execution's name; starting it again with the same name and input has no effect
    #[arg(long)]
    name: Option<String>,
    /// The input: JSON, @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Deploy the file under this name [default: the file's name]
    #[arg(long = "as", value_name = "NAME")]
    deploy_as: Option<String>,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Wait until it ends and print only its output; exit code 1 unless it succeeded
    #[arg(long, conflicts_with = "watch")]
    wait: bool,
    /// Watch it until it ends, as execution watch does
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    patience: ReconnectArgs,
}

/// The file that the argument names, unless it names a workflow.
fn definition_file(workflow: &str) -> Option<PathBuf> {
    let path = Path::new(workflow);
    let is_file =
        workflow == "-" || workflow.contains('/') || (workflow.ends_with(".json") && path.exists());
    is_file.then(|| path.to_owned())
}

impl StartArgs {
    /// Runs the command.
    pub(super) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let screen = &remote.screen;
        let input = self.input.as_deref().unwrap_or("{}");
        let input = json_argument::parse_json_argument("--input", input)?;
        let workflow = match definition_file(&self.workflow) {
            Some(file) => {
                let source = DefinitionFile::read(&file, self.deploy_as)?;
                deploy(remote, &source, self.reason.clone()).await?;
                source.name
            }
            None if self.deploy_as.is_some() => {
                let next = "leave --as out, or give a file such as ./my-workflow.asl.json";
                return Err(CliError::usage("--as needs a file to deploy", next));
            }
            None => self.workflow,
        };
        let fields = JsonFields::default()
            .with("workflow", Some(workflow))
            .with("name", self.name)
            .with("input", Some(input));
        let request = Request::post(&["executions"])
            .query("reason", self.reason)
            .body(fields.value());
        let reply = remote.client.send(request).await?;
        let execution: Execution = reply.read()?;
        if !reply.created {
            screen.hint("already started with the same name and input");
        }
        let mode = match (self.wait, self.watch) {
            (true, _) => WatchMode::Silent,
            (_, true) => WatchMode::Visible,
            _ => {
                view::show(screen, &reply, executions::started_id)?;
                let next = format!("watch it: ballast execution watch {}", execution.id);
                screen.hint(&screen.dim(&next));
                return Ok(CommandOutcome::Done);
            }
        };
        if self.wait {
            screen.hint(&screen.dim(&format!("waiting for {}", execution.id)));
        }
        let following = ExecutionWatch {
            id: execution.id,
            mode,
            patience: self.patience.patience,
            from_start: true,
        };
        following.run(remote).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_file() {
        assert_eq!(definition_file("move-tenant"), None);
        assert_eq!(
            definition_file("not-there.json"),
            None,
            "a workflow may be called so"
        );
        assert_eq!(
            definition_file("./copy.asl.json"),
            Some("./copy.asl.json".into())
        );
        assert_eq!(definition_file("-"), Some("-".into()));
    }
}
