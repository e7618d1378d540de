//! `execution …`: workflows that run on a running instance: start, list, show,
//! history, watch, pause, resume, cancel, signal.
//!
//! ```text
//!   start.rs ─► watch.rs ─► feed.rs: receives events
//!                             ├─► state_history.rs: applies events, pure
//!                             └─► live.rs ─► view/watch: the lines of a terminal
//!   mod.rs: single requests
//! ```

pub(crate) mod body;
mod feed;
mod json_argument;
mod live;
mod start;
pub(crate) mod state_history;
pub(crate) mod watch;

use std::time::Duration;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_state_machines::language;
use clap::{Args, Subcommand, ValueEnum};

use super::args::{JsonFields, PagingArgs};
use super::client::{Client, ListFields, Reply, Request};
use super::failure::{CliError, CommandOutcome};
use super::view::{self, executions, history};
use super::{Remote, help};
use body::{DefinitionBody, Execution, HistoryEvent, HistoryPage};
use watch::{ExecutionWatch, WatchMode};

/// The field names of a history, as in Step Functions.
const HISTORY: ListFields = ListFields {
    items: "events",
    next: "nextToken",
};
/// The maximum number of events read to mark a drawing; older events are ignored.
const EVENTS_MAX: usize = 20_000;

/// Commands on executions.
#[derive(Debug, Subcommand)]
#[command(after_help = help::EXECUTION)]
pub(crate) enum ExecutionCommand {
    /// Start a workflow
    #[command(after_help = help::EXECUTION_START)]
    Start(start::StartArgs),
    /// List executions, newest first
    #[command(after_help = help::EXECUTION_LIST)]
    List {
        /// Only executions of this workflow
        #[arg(long)]
        workflow: Option<String>,
        /// Only executions with this status
        #[arg(long)]
        status: Option<ExecutionStatusFilter>,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show an execution: its status, position and result
    #[command(after_help = help::EXECUTION_SHOW)]
    Show {
        /// The execution
        id: String,
    },
    /// Show the events of an execution
    #[command(after_help = help::EXECUTION_HISTORY)]
    History {
        /// The execution
        id: String,
        /// Show the newest event first
        #[arg(long)]
        newest_first: bool,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Watch an execution live until it ends
    #[command(after_help = help::EXECUTION_WATCH)]
    Watch {
        /// The execution
        id: String,
        #[command(flatten)]
        patience: ReconnectArgs,
    },
    /// Pause an execution: no new task starts until it is resumed
    #[command(after_help = help::EXECUTION_PAUSE)]
    Pause(ExecutionChangeArgs),
    /// Resume a paused execution
    #[command(after_help = help::EXECUTION_RESUME)]
    Resume(ExecutionChangeArgs),
    /// Cancel an execution
    #[command(after_help = help::EXECUTION_CANCEL)]
    Cancel {
        #[command(flatten)]
        wish: ExecutionChangeArgs,
        /// The name of the error it ends with
        #[arg(long, value_name = "NAME")]
        error: Option<String>,
        /// Cause, recorded in its history
        #[arg(long, value_name = "TEXT")]
        cause: Option<String>,
    },
    /// Send the result of a task that waits for a signal, such as an approval
    #[command(after_help = help::EXECUTION_SIGNAL)]
    Signal {
        #[command(flatten)]
        wish: ExecutionChangeArgs,
        #[command(flatten)]
        answer: SignalArgs,
    },
    /// Report that a task waiting for a signal is alive, and its progress
    #[command(after_help = help::EXECUTION_HEARTBEAT)]
    Heartbeat {
        /// The execution
        id: String,
        #[command(flatten)]
        sign: HeartbeatArgs,
    },
}

/// How long to reconnect.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReconnectArgs {
    /// How long to keep reconnecting after the connection is lost
    #[arg(long, value_name = "TIME", default_value = "5m")]
    #[arg(value_parser = crate::time::parse_duration)]
    pub(crate) patience: Duration,
}

/// An execution to change, and why.
#[derive(Debug, Args)]
pub(crate) struct ExecutionChangeArgs {
    /// The execution
    id: String,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// The progress of a task that waits for a signal.
#[derive(Debug, Args)]
pub(crate) struct HeartbeatArgs {
    /// The state of the task; optional if only one task waits
    #[arg(long)]
    state: Option<String>,
    /// The task's token, instead of the state
    #[arg(long, conflicts_with = "state")]
    token: Option<String>,
    /// Units done
    #[arg(long, value_name = "N")]
    done: Option<u64>,
    /// Units in total
    #[arg(long, value_name = "N")]
    total: Option<u64>,
    /// Name of the unit
    #[arg(long)]
    unit: Option<String>,
    /// Note on the current work
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl HeartbeatArgs {
    fn fields(&self) -> JsonFields {
        JsonFields::default()
            .with("state", self.state.as_ref())
            .with("token", self.token.as_ref())
            .with("done", self.done)
            .with("total", self.total)
            .with("unit", self.unit.as_ref())
            .with("note", self.note.as_ref())
    }
}

/// The result of a task that waits for a signal.
#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// The state of the task; optional if only one task waits
    #[arg(long)]
    state: Option<String>,
    /// The task's token, instead of the state
    #[arg(long, conflicts_with = "state")]
    token: Option<String>,
    /// The task's output: JSON, @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON|@FILE")]
    output: Option<String>,
    /// Fail the task with this error name instead
    #[arg(long, value_name = "NAME", conflicts_with = "output")]
    error: Option<String>,
    /// Cause of the error
    #[arg(long, value_name = "TEXT", requires = "error")]
    cause: Option<String>,
}

/// Statuses to filter by.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExecutionStatusFilter {
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Aborted,
}

impl ExecutionStatusFilter {
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::TimedOut => "TIMED_OUT",
            Self::Aborted => "ABORTED",
        }
    }
}

impl ExecutionChangeArgs {
    async fn send(
        self,
        remote: &Remote,
        verb: &str,
        fields: Option<JsonFields>,
    ) -> Result<Reply, CliError> {
        let request = Request::post(&["executions", &self.id, verb]).query("reason", self.reason);
        let request = match fields {
            Some(fields) => request.body(fields.value()),
            None => request,
        };
        remote.client.send(request).await
    }
}

impl SignalArgs {
    fn fields(self) -> Result<JsonFields, CliError> {
        let fields = JsonFields::default()
            .with("state", self.state)
            .with("token", self.token);
        if self.error.is_some() {
            return Ok(fields.with("error", self.error).with("cause", self.cause));
        }
        let output =
            json_argument::parse_json_argument("--output", self.output.as_deref().unwrap_or("{}"))?;
        Ok(fields.with("output", Some(output)))
    }
}

impl ExecutionCommand {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (client, screen) = (&remote.client, &remote.screen);
        match self {
            Self::Start(start) => return start.run(remote).await,
            Self::List {
                workflow,
                status,
                paging,
            } => {
                let request = Request::get(&["executions"])
                    .query("workflow", workflow)
                    .query("status", status.map(ExecutionStatusFilter::as_str));
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no executions match; start one: ballast execution start WORKFLOW";
                view::list(screen, &reply, executions::execution_table, empty)?;
            }
            Self::Show { id } => {
                let reply = client.send(Request::get(&["executions", &id])).await?;
                view::show(screen, &reply, executions::execution_facts)?;
            }
            Self::History {
                id,
                newest_first,
                paging,
            } => show_history(remote, &id, newest_first, &paging).await?,
            Self::Watch { id, patience } => {
                let following = ExecutionWatch {
                    id,
                    mode: WatchMode::Visible,
                    patience: patience.patience,
                    from_start: false,
                };
                return following.run(remote).await;
            }
            Self::Pause(wish) => {
                let reply = wish.send(remote, "pause", None).await?;
                view::show(screen, &reply, executions::summary_line)?;
            }
            Self::Resume(wish) => {
                let reply = wish.send(remote, "resume", None).await?;
                view::show(screen, &reply, executions::summary_line)?;
            }
            Self::Cancel { wish, error, cause } => {
                let fields = JsonFields::default()
                    .with("error", error)
                    .with("cause", cause);
                let reply = wish.send(remote, "cancel", Some(fields)).await?;
                view::show(screen, &reply, executions::summary_line)?;
            }
            Self::Signal { wish, answer } => {
                let reply = wish.send(remote, "signal", Some(answer.fields()?)).await?;
                view::show(screen, &reply, executions::summary_line)?;
            }
            Self::Heartbeat { id, sign } => {
                let wish = ExecutionChangeArgs { id, reason: None };
                let reply = wish.send(remote, "heartbeat", Some(sign.fields())).await?;
                view::show(screen, &reply, executions::summary_line)?;
            }
        }
        Ok(CommandOutcome::Done)
    }
}

/// Shows a history.
async fn show_history(
    remote: &Remote,
    id: &str,
    newest_first: bool,
    paging: &PagingArgs,
) -> Result<(), CliError> {
    let (client, screen) = (&remote.client, &remote.screen);
    let request = Request::get(&["executions", id, "history"])
        .query("newestFirst", newest_first.then_some(true));
    let reply = client
        .list_with_fields(HISTORY, request, paging, PAGE_ITEMS_MAX)
        .await?;
    if screen.json {
        return screen.data(&reply.bytes);
    }
    let page: HistoryPage = reply.read()?;
    let described = client.send(Request::get(&["executions", id])).await?;
    let execution: Execution = described.read()?;
    screen.data(history::history_table(screen, execution.started_at, &page.events).as_bytes())?;
    if let Some(cursor) = page.next_token {
        let more = format!("more items: --all, or --cursor {cursor} for the next page");
        screen.note(&screen.dim(&more));
    }
    Ok(())
}

/// The definition that an execution runs.
pub(crate) async fn fetch_definition(
    client: &Client,
    id: &str,
) -> Result<language::Definition, CliError> {
    let request = Request::get(&["executions", id, "definition"]);
    let body: DefinitionBody = client.send(request).await?.read()?;
    language::Definition::parse(&body.definition.to_string()).map_err(|problems| {
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        CliError::local(format!(
            "this version of ballast cannot draw the definition: {}",
            texts.join("; ")
        ))
    })
}

/// Fetches the events after one, in order; at most the newest `EVENTS_MAX`. `length` is the number
/// of events known so far.
pub(crate) async fn fetch_history_after(
    client: &Client,
    id: &str,
    after: u64,
    length: u64,
) -> Result<Vec<HistoryEvent>, CliError> {
    let missing = length.saturating_sub(after);
    let request = Request::get(&["executions", id, "history"])
        .query("newestFirst", Some(true))
        .query("limit", Some(missing.clamp(1, u64::from(PAGE_ITEMS_MAX))));
    let mut found: Vec<HistoryEvent> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let request = request.clone().query("cursor", cursor.as_ref());
        let page: HistoryPage = client.send(request).await?.read()?;
        let reached = page.events.iter().any(|event| event.id <= after + 1);
        found.extend(page.events.into_iter().filter(|event| event.id > after));
        cursor = page.next_token;
        if reached || cursor.is_none() || found.len() >= EVENTS_MAX {
            found.reverse();
            return Ok(found);
        }
    }
}
