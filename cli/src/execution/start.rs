//! `execution start`: a workflow by its name, or a file that is deployed first.

use std::path::{Path, PathBuf};

use clap::Args;

use super::body::Execution;
use super::watch::{Following, Manner};
use super::{Patience, given};
use crate::Remote;
use crate::args::Fields;
use crate::client::Request;
use crate::failure::{Failure, Verdict};
use crate::view::{self, executions};
use crate::workflow::{Source, deploy};

/// What is started, and what with.
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// The name of a workflow, or a file, which is deployed first
    #[arg(value_name = "WORKFLOW|FILE")]
    workflow: String,
    /// The execution's name: started again with the same name and input, it happens once
    #[arg(long)]
    name: Option<String>,
    /// What it is given: JSON, @FILE, or - for the standard input; {} when absent
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Deploy the file under this name; its own name when absent
    #[arg(long = "as", value_name = "NAME")]
    deploy_as: Option<String>,
    /// Why: kept with the change in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Wait until it ends, and print nothing but its output; exit code 1 unless it succeeded
    #[arg(long, conflicts_with = "watch")]
    wait: bool,
    /// Watch it until it ends, as execution watch does
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    patience: Patience,
}

/// The file that is meant, if one is.
fn file(workflow: &str) -> Option<PathBuf> {
    let path = Path::new(workflow);
    let is_file =
        workflow == "-" || workflow.contains('/') || (workflow.ends_with(".json") && path.exists());
    is_file.then(|| path.to_owned())
}

impl Start {
    /// Does it.
    pub(super) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let screen = &remote.screen;
        let input = self.input.as_deref().unwrap_or("{}");
        let input = given::json("--input", input)?;
        let workflow = match file(&self.workflow) {
            Some(file) => {
                let source = Source::of(&file, self.deploy_as)?;
                deploy(remote, &source, self.reason.clone()).await?;
                source.name
            }
            None if self.deploy_as.is_some() => {
                let next = "leave --as out, or give a file such as ./my-workflow.asl.json";
                return Err(Failure::usage("--as names a file that is deployed", next));
            }
            None => self.workflow,
        };
        let fields = Fields::default()
            .with("workflow", Some(workflow))
            .with("name", self.name)
            .with("input", Some(input));
        let request = Request::post(&["executions"])
            .query("reason", self.reason)
            .body(fields.value());
        let reply = remote.client.send(request).await?;
        let execution: Execution = reply.read()?;
        if !reply.created {
            screen.hint("it was started before, with the same name and input");
        }
        let manner = match (self.wait, self.watch) {
            (true, _) => Manner::Silent,
            (_, true) => Manner::Shown,
            _ => {
                view::show(screen, &reply, executions::started)?;
                let next = format!("watch it: ballast execution watch {}", execution.id);
                screen.hint(&screen.dim(&next));
                return Ok(Verdict::Done);
            }
        };
        if self.wait {
            screen.hint(&screen.dim(&format!("waiting for {}", execution.id)));
        }
        let following = Following {
            id: execution.id,
            manner,
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
        assert_eq!(file("move-tenant"), None);
        assert_eq!(file("not-there.json"), None, "a workflow may be called so");
        assert_eq!(file("./copy.asl.json"), Some("./copy.asl.json".into()));
        assert_eq!(file("-"), Some("-".into()));
    }
}
