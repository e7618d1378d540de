//! `workflow …`: definitions in the Amazon States Language. They are checked,
//! drawn and tested on this machine; a running instance is asked for those
//! that are deployed there.

mod check;
mod deploy;
pub(crate) mod files;
mod graph;
mod list;
mod trial;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

pub(crate) use deploy::{Source, deploy};

use super::args::Paging;
use super::client::Request;
use super::confirm::confirm;
use super::failure::{Failure, Verdict};
use super::globals::Globals;
use super::output::Screen;
use super::view::{self, workflows};
use super::{Remote, help};

/// What can be done with definitions.
#[derive(Debug, Subcommand)]
#[command(after_help = help::WORKFLOW)]
pub(crate) enum WorkflowCommand {
    /// List the workflows of the running instance, or those that come with Ballast
    #[command(after_help = help::WORKFLOW_LIST)]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a workflow of the running instance
    #[command(after_help = help::WORKFLOW_SHOW)]
    Show {
        /// Its name
        name: String,
    },
    /// Hand a definition to the running instance, so that it can be started
    #[command(after_help = help::WORKFLOW_DEPLOY)]
    Deploy {
        /// The file, or - for the standard input
        file: PathBuf,
        /// Its name; that of the file when absent
        #[arg(long)]
        name: Option<String>,
        /// Why: kept with the change in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Take a workflow away: nothing is started under its name any more
    #[command(after_help = help::WORKFLOW_REMOVE)]
    Remove {
        /// The workflow
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Why: kept with the change in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Check a definition: everything that is wrong with it, and where
    #[command(after_help = help::WORKFLOW_CHECK)]
    Check {
        /// The file, or - for the standard input, or the name of one that comes with Ballast
        #[arg(value_name = "NAME|FILE")]
        file: PathBuf,
    },
    /// Draw a definition, or an execution with where it stands
    #[command(after_help = help::WORKFLOW_GRAPH)]
    Graph {
        /// The name of a workflow, or a file, or - for the standard input
        #[arg(value_name = "NAME|FILE", required_unless_present = "execution")]
        workflow: Option<PathBuf>,
        /// Draw what this execution runs, and mark where it stands
        #[arg(long, value_name = "ID", conflicts_with = "workflow")]
        execution: Option<String>,
        /// How it is drawn
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Draw every state, also those that only lead from one step to the next
        #[arg(long)]
        all: bool,
    },
    /// Run a definition with the task results of a case, on a simulated clock
    #[command(after_help = help::WORKFLOW_TEST)]
    Test {
        /// The file with a case, or with several under "cases"; - for the standard input
        #[arg(value_name = "CASE")]
        file: PathBuf,
    },
}

/// How a definition is drawn.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum Format {
    /// For a terminal
    #[default]
    Text,
    /// For Markdown and wikis
    Mermaid,
    /// For Graphviz
    Dot,
}

impl WorkflowCommand {
    /// Does it.
    pub(crate) async fn run(self, globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
        let remote = || Remote::new(globals, screen);
        match self {
            Self::List { paging } => list::list(remote(), &paging, screen).await,
            Self::Show { name } => {
                let request = Request::get(&["workflows", &name]);
                let reply = remote()?.client.send(request).await?;
                view::show(screen, &reply, workflows::facts)?;
                Ok(Verdict::Done)
            }
            Self::Deploy { file, name, reason } => {
                let source = Source::of(&file, name)?;
                let reply = deploy(&remote()?, &source, reason).await?;
                view::show(screen, &reply, workflows::deployed)?;
                Ok(Verdict::Done)
            }
            Self::Remove { name, yes, reason } => {
                confirm(screen, yes, &format!("take the workflow {name} away"))?;
                let request = Request::delete(&["workflows", &name]).query("reason", reason);
                let reply = remote()?.client.send(request).await?;
                view::show::<serde_json::Value>(screen, &reply, |_, _| {
                    format!("the workflow {name} is taken away")
                })?;
                Ok(Verdict::Done)
            }
            Self::Check { file } => check::checked(&file, screen),
            Self::Graph {
                workflow: Some(workflow),
                format,
                all,
                ..
            } => graph::of_workflow(&workflow, format, all, remote, screen).await,
            Self::Graph {
                execution,
                format,
                all,
                ..
            } => {
                let id = execution.unwrap_or_default();
                graph::of_execution(&id, format, all, &remote()?).await
            }
            Self::Test { file } => trial::test(&file, screen),
        }
    }
}
