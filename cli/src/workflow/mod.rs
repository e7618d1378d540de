//! `workflow …`: definitions in the Amazon States Language, checked, drawn and tested locally.
//! Deployed definitions come from the running instance.

mod check;
mod deploy;
pub(crate) mod files;
mod graph;
mod list;
mod trial;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

pub(crate) use deploy::{DefinitionFile, deploy};

use super::args::PagingArgs;
use super::client::Request;
use super::confirm::confirm;
use super::failure::{CliError, CommandOutcome};
use super::globals::Globals;
use super::output::Screen;
use super::view::{self, workflows};
use super::{Remote, help};

/// Commands on workflow definitions.
#[derive(Debug, Subcommand)]
#[command(after_help = help::WORKFLOW)]
pub(crate) enum WorkflowCommand {
    /// List the workflows of the running instance, or the built-in ones
    #[command(after_help = help::WORKFLOW_LIST)]
    List {
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show a workflow of the running instance
    #[command(after_help = help::WORKFLOW_SHOW)]
    Show {
        /// Its name
        name: String,
    },
    /// Deploy a definition to the running instance
    #[command(after_help = help::WORKFLOW_DEPLOY)]
    Deploy {
        /// The file, or - for standard input
        file: PathBuf,
        /// Its name [default: the file's name]
        #[arg(long)]
        name: Option<String>,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Remove a workflow; it can no longer be started
    #[command(after_help = help::WORKFLOW_REMOVE)]
    Remove {
        /// The workflow
        name: String,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Check a definition and report every problem with its place
    #[command(after_help = help::WORKFLOW_CHECK)]
    Check {
        /// The file, or - for standard input, or the name of a built-in workflow
        #[arg(value_name = "NAME|FILE")]
        file: PathBuf,
    },
    /// Draw a definition, or an execution with its position
    #[command(after_help = help::WORKFLOW_GRAPH)]
    Graph {
        /// A workflow's name, or a file, or - for standard input
        #[arg(value_name = "NAME|FILE", required_unless_present = "execution")]
        workflow: Option<PathBuf>,
        /// Draw the definition of this execution and mark its position
        #[arg(long, value_name = "ID", conflicts_with = "workflow")]
        execution: Option<String>,
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: DrawingFormat,
        /// Draw every state, helper states included
        #[arg(long)]
        all: bool,
    },
    /// Run a definition with the task results of a case, on a simulated clock
    #[command(after_help = help::WORKFLOW_TEST)]
    Test {
        /// The file with a case, or with several under "cases"; - for standard input
        #[arg(value_name = "CASE")]
        file: PathBuf,
    },
}

/// Drawing formats.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum DrawingFormat {
    /// For a terminal
    #[default]
    Text,
    /// For Markdown and wikis
    Mermaid,
    /// For Graphviz
    Dot,
}

impl WorkflowCommand {
    /// Runs the command.
    pub(crate) async fn run(
        self,
        globals: &Globals,
        screen: &Screen,
    ) -> Result<CommandOutcome, CliError> {
        let remote = || Remote::new(globals, screen);
        match self {
            Self::List { paging } => list::list(remote(), &paging, screen).await,
            Self::Show { name } => {
                let request = Request::get(&["workflows", &name]);
                let reply = remote()?.client.send(request).await?;
                view::show(screen, &reply, workflows::workflow_facts)?;
                Ok(CommandOutcome::Done)
            }
            Self::Deploy { file, name, reason } => {
                let source = DefinitionFile::read(&file, name)?;
                let reply = deploy(&remote()?, &source, reason).await?;
                view::show(screen, &reply, workflows::describe_deployed)?;
                Ok(CommandOutcome::Done)
            }
            Self::Remove { name, yes, reason } => {
                confirm(screen, yes, &format!("remove workflow {name}"))?;
                let request = Request::delete(&["workflows", &name]).query("reason", reason);
                let reply = remote()?.client.send(request).await?;
                view::show::<serde_json::Value>(screen, &reply, |_, _| {
                    format!("removed workflow {name}")
                })?;
                Ok(CommandOutcome::Done)
            }
            Self::Check { file } => check::check_definition(&file, screen),
            Self::Graph {
                workflow: Some(workflow),
                format,
                all,
                ..
            } => graph::draw_workflow(&workflow, format, all, remote, screen).await,
            Self::Graph {
                execution,
                format,
                all,
                ..
            } => {
                let id = execution.unwrap_or_default();
                graph::draw_execution(&id, format, all, &remote()?).await
            }
            Self::Test { file } => trial::run_cases(&file, screen),
        }
    }
}
