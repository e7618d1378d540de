//! `execution …`: workflows that run on a running instance: start, list, show,
//! history, watch, pause, resume, cancel, signal.
//!
//! ```text
//!   start.rs ─┐                     ┌─► view/watch: what is drawn, pure
//!   watch     ├─► watch.rs ─► feed.rs ─► story.rs: what is heard, pure
//!   mod.rs: all that is asked once  └─► live.rs: the lines of a terminal
//! ```

pub(crate) mod body;
mod feed;
mod given;
mod live;
mod start;
pub(crate) mod story;
pub(crate) mod watch;

use std::time::Duration;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_state_machines::language;
use clap::{Args, Subcommand, ValueEnum};

use super::args::{Fields, Paging};
use super::client::{Client, Names, Reply, Request};
use super::failure::{Failure, Verdict};
use super::view::{self, executions, history};
use super::{Remote, help};
use body::{Definition, Execution, History, HistoryEvent};
use watch::{Following, Manner};

/// As Step Functions calls the parts of a history.
const HISTORY: Names = Names {
    items: "events",
    next: "nextToken",
};
/// Events that are read to mark a drawing: those before are of no use to a
/// person who looks now.
const EVENTS_MAX: usize = 20_000;

/// What can be done with executions.
#[derive(Debug, Subcommand)]
#[command(after_help = help::EXECUTION)]
pub(crate) enum ExecutionCommand {
    /// Start a workflow
    #[command(after_help = help::EXECUTION_START)]
    Start(start::Start),
    /// List executions, newest first
    #[command(after_help = help::EXECUTION_LIST)]
    List {
        /// Only those of this workflow
        #[arg(long)]
        workflow: Option<String>,
        /// Only those that stand so
        #[arg(long)]
        status: Option<Status>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show an execution: how it stands, where, and what came of it
    #[command(after_help = help::EXECUTION_SHOW)]
    Show {
        /// The execution
        id: String,
    },
    /// Show what happened in an execution, event by event
    #[command(after_help = help::EXECUTION_HISTORY)]
    History {
        /// The execution
        id: String,
        /// The newest event first
        #[arg(long)]
        newest_first: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Watch an execution live until it ends
    #[command(after_help = help::EXECUTION_WATCH)]
    Watch {
        /// The execution
        id: String,
        #[command(flatten)]
        patience: Patience,
    },
    /// Begin nothing further in an execution until it is resumed
    #[command(after_help = help::EXECUTION_PAUSE)]
    Pause(Wish),
    /// Let a paused execution go on
    #[command(after_help = help::EXECUTION_RESUME)]
    Resume(Wish),
    /// End an execution
    #[command(after_help = help::EXECUTION_CANCEL)]
    Cancel {
        #[command(flatten)]
        wish: Wish,
        /// The name of the error it ends with
        #[arg(long, value_name = "NAME")]
        error: Option<String>,
        /// Why it is ended, as it will be read in its history
        #[arg(long, value_name = "TEXT")]
        cause: Option<String>,
    },
    /// Answer a task that waits for a signal, such as an approval
    #[command(after_help = help::EXECUTION_SIGNAL)]
    Signal {
        #[command(flatten)]
        wish: Wish,
        #[command(flatten)]
        answer: Answer,
    },
    /// Tell that a task which waits for a signal is alive, and how far it is
    #[command(after_help = help::EXECUTION_HEARTBEAT)]
    Heartbeat {
        /// The execution
        id: String,
        #[command(flatten)]
        sign: SignOfLife,
    },
}

/// How long a lost connection is bridged.
#[derive(Debug, Clone, Args)]
pub(crate) struct Patience {
    /// How long to try again when the connection is lost
    #[arg(long, value_name = "TIME", default_value = "5m")]
    #[arg(value_parser = crate::time::parse_duration)]
    pub(crate) patience: Duration,
}

/// Something that is wished of an execution.
#[derive(Debug, Args)]
pub(crate) struct Wish {
    /// The execution
    id: String,
    /// Why: kept with the change in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// How far a task is that waits for a signal.
#[derive(Debug, Args)]
pub(crate) struct SignOfLife {
    /// The state whose task it is; not needed when only one waits
    #[arg(long)]
    state: Option<String>,
    /// The task's token, instead of the state
    #[arg(long, conflicts_with = "state")]
    token: Option<String>,
    /// How much is done
    #[arg(long, value_name = "N")]
    done: Option<u64>,
    /// How much there is
    #[arg(long, value_name = "N")]
    total: Option<u64>,
    /// What is counted
    #[arg(long)]
    unit: Option<String>,
    /// What is being done
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl SignOfLife {
    fn fields(&self) -> Fields {
        Fields::default()
            .with("state", self.state.as_ref())
            .with("token", self.token.as_ref())
            .with("done", self.done)
            .with("total", self.total)
            .with("unit", self.unit.as_ref())
            .with("note", self.note.as_ref())
    }
}

/// What a waiting task is told.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// The state whose task waits; not needed when only one waits
    #[arg(long)]
    state: Option<String>,
    /// The token that the task was given, in place of the state
    #[arg(long, conflicts_with = "state")]
    token: Option<String>,
    /// What it answers: JSON, @FILE, or - for the standard input; {} when absent
    #[arg(long, value_name = "JSON|@FILE")]
    output: Option<String>,
    /// The name of the error it fails with, in place of an output
    #[arg(long, value_name = "NAME", conflicts_with = "output")]
    error: Option<String>,
    /// Why it fails
    #[arg(long, value_name = "TEXT", requires = "error")]
    cause: Option<String>,
}

/// How executions can stand.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Status {
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Aborted,
}

impl Status {
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

impl Wish {
    async fn send(
        self,
        remote: &Remote,
        verb: &str,
        fields: Option<Fields>,
    ) -> Result<Reply, Failure> {
        let request = Request::post(&["executions", &self.id, verb]).query("reason", self.reason);
        let request = match fields {
            Some(fields) => request.body(fields.value()),
            None => request,
        };
        remote.client.send(request).await
    }
}

impl Answer {
    fn fields(self) -> Result<Fields, Failure> {
        let fields = Fields::default()
            .with("state", self.state)
            .with("token", self.token);
        if self.error.is_some() {
            return Ok(fields.with("error", self.error).with("cause", self.cause));
        }
        let output = given::json("--output", self.output.as_deref().unwrap_or("{}"))?;
        Ok(fields.with("output", Some(output)))
    }
}

impl ExecutionCommand {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
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
                    .query("status", status.map(Status::as_str));
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no such executions; start one: ballast execution start WORKFLOW";
                view::list(screen, &reply, executions::table, empty)?;
            }
            Self::Show { id } => {
                let reply = client.send(Request::get(&["executions", &id])).await?;
                view::show(screen, &reply, executions::facts)?;
            }
            Self::History {
                id,
                newest_first,
                paging,
            } => told(remote, &id, newest_first, &paging).await?,
            Self::Watch { id, patience } => {
                let following = Following {
                    id,
                    manner: Manner::Shown,
                    patience: patience.patience,
                    from_start: false,
                };
                return following.run(remote).await;
            }
            Self::Pause(wish) => {
                let reply = wish.send(remote, "pause", None).await?;
                view::show(screen, &reply, executions::line)?;
            }
            Self::Resume(wish) => {
                let reply = wish.send(remote, "resume", None).await?;
                view::show(screen, &reply, executions::line)?;
            }
            Self::Cancel { wish, error, cause } => {
                let fields = Fields::default().with("error", error).with("cause", cause);
                let reply = wish.send(remote, "cancel", Some(fields)).await?;
                view::show(screen, &reply, executions::line)?;
            }
            Self::Signal { wish, answer } => {
                let reply = wish.send(remote, "signal", Some(answer.fields()?)).await?;
                view::show(screen, &reply, executions::line)?;
            }
            Self::Heartbeat { id, sign } => {
                let wish = Wish { id, reason: None };
                let reply = wish.send(remote, "heartbeat", Some(sign.fields())).await?;
                view::show(screen, &reply, executions::line)?;
            }
        }
        Ok(Verdict::Done)
    }
}

/// Shows a history.
async fn told(
    remote: &Remote,
    id: &str,
    newest_first: bool,
    paging: &Paging,
) -> Result<(), Failure> {
    let (client, screen) = (&remote.client, &remote.screen);
    let request = Request::get(&["executions", id, "history"])
        .query("newestFirst", newest_first.then_some(true));
    let reply = client
        .list_of(HISTORY, request, paging, PAGE_ITEMS_MAX)
        .await?;
    if screen.json {
        return screen.data(&reply.bytes);
    }
    let page: History = reply.read()?;
    let described = client.send(Request::get(&["executions", id])).await?;
    let execution: Execution = described.read()?;
    screen.data(history::table(screen, execution.started_at, &page.events).as_bytes())?;
    if let Some(cursor) = page.next_token {
        let more = format!("there are more: --all, or the next page with --cursor {cursor}");
        screen.note(&screen.dim(&more));
    }
    Ok(())
}

/// The definition that an execution runs.
pub(crate) async fn definition_of(
    client: &Client,
    id: &str,
) -> Result<language::Definition, Failure> {
    let request = Request::get(&["executions", id, "definition"]);
    let body: Definition = client.send(request).await?.read()?;
    language::Definition::parse(&body.definition.to_string()).map_err(|problems| {
        let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Failure::local(format!(
            "this version of ballast cannot draw it: {}",
            told.join("; ")
        ))
    })
}

/// The events after one, in their order; of very many the newest. `length` is
/// how many there are in all, as far as is known.
pub(crate) async fn history_after(
    client: &Client,
    id: &str,
    after: u64,
    length: u64,
) -> Result<Vec<HistoryEvent>, Failure> {
    let missing = length.saturating_sub(after);
    let request = Request::get(&["executions", id, "history"])
        .query("newestFirst", Some(true))
        .query("limit", Some(missing.clamp(1, u64::from(PAGE_ITEMS_MAX))));
    let mut found: Vec<HistoryEvent> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let request = request.clone().query("cursor", cursor.as_ref());
        let page: History = client.send(request).await?.read()?;
        let reached = page.events.iter().any(|event| event.id <= after + 1);
        found.extend(page.events.into_iter().filter(|event| event.id > after));
        cursor = page.next_token;
        if reached || cursor.is_none() || found.len() >= EVENTS_MAX {
            found.reverse();
            return Ok(found);
        }
    }
}
