//! Everything about a running workflow, as data.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::run::{Phase, Run};
use super::{Effect, Limits, Origin, RunId, RunTask, TaskId, TimerId};

/// Everything about a running workflow but its definition, which is passed
/// along. It round-trips through serde exactly: one that was written and read
/// goes on as if nothing had happened.
///
/// The default is an execution that has not begun.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Execution {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: Status,
    pub(super) is_paused: bool,
    pub(super) output: Option<Value>,
    pub(super) error: Option<String>,
    pub(super) cause: Option<String>,
    pub(super) begun_at_ms: i64,
    pub(super) changed_at_ms: i64,
    pub(super) seed: u64,
    pub(super) limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Origin>,
    /// The part of the context object that never changes.
    pub(super) context: Map<String, Value>,
    pub(super) runs: BTreeMap<RunId, Run>,
    pub(super) tasks: BTreeMap<TaskId, InFlight>,
    pub(super) timers: BTreeMap<TimerId, Alarm>,
    /// The runs that can go on, in the order in which they will.
    pub(super) ready: VecDeque<RunId>,
    /// The turn that was asked for with [`Effect::Continue`].
    pub(super) awaited_turn: Option<u64>,
    pub(super) made: Made,
}

/// How many of each were made: the next one's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) runs: u64,
    pub(super) tasks: u64,
    pub(super) timers: u64,
    pub(super) turns: u64,
    pub(super) events: u64,
    pub(super) states: u64,
}

/// How an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// It has not begun.
    #[default]
    Pending,
    /// It is on its way, or paused on it.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// It took longer than its definition allows.
    TimedOut,
    /// It was cancelled.
    Aborted,
}

impl Status {
    /// As it is written: `SUCCEEDED`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::TimedOut => "TIMED_OUT",
            Self::Aborted => "ABORTED",
        }
    }

    /// Whether nothing will happen any more.
    #[must_use]
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// A task that was handed out, and has not answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    pub(super) run: RunId,
    /// Whether it was told as started.
    pub is_started: bool,
    /// Whether it was handed over: then only its answer is waited for, and it
    /// need not be handed over again after a crash.
    pub is_submitted: bool,
    /// When it was handed out, in milliseconds since 1970.
    #[serde(default)]
    pub ordered_at_ms: i64,
    /// When it was handed over, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_at_ms: Option<i64>,
    /// The execution that it started and waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// What is to be done.
    pub order: RunTask,
}

impl InFlight {
    /// When it was handed over; of one that was before this was written down,
    /// when it was ordered.
    fn handed_over_at_ms(&self) -> i64 {
        self.submitted_at_ms.unwrap_or(self.ordered_at_ms)
    }
}

/// A timer that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Alarm {
    pub(super) at_ms: i64,
    pub(super) wakes: Wakes,
}

/// Whom a timer wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Wakes {
    /// The execution has taken too long.
    Deadline,
    /// A Wait is over, or a delay before the next attempt.
    Run(RunId),
}

/// Where a run of an execution stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The state it is in.
    pub state: String,
    /// What it does there.
    pub doing: Doing,
    /// How often the state was tried before.
    pub attempt: u64,
    /// When it entered the state, in milliseconds since 1970.
    pub entered_at_ms: i64,
    /// The task it waits for.
    pub task: Option<TaskId>,
    /// By what a callback names that task, once it was handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// When it was handed over, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaiting_since_ms: Option<i64>,
    /// The execution that the task has started and waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// When it will be woken, in milliseconds since 1970.
    pub wakes_at_ms: Option<i64>,
    /// The iterations it runs in, from the outside in.
    pub iterations: Vec<super::Iteration>,
}

/// What a run does in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It will go on as soon as it may.
    Ready,
    /// It waits for a task.
    Working,
    /// Its task was handed over, and it waits for whoever has the token.
    AwaitingCallback,
    /// It waits for a time.
    Waiting,
    /// It waits until it tries again.
    BackingOff,
    /// It waits for its branches or iterations.
    Gathering {
        /// How many are done.
        done: u64,
        /// How many there are.
        total: u64,
    },
}

impl Execution {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// What it was given.
    #[must_use]
    pub fn input(&self) -> Option<&Value> {
        self.context.get("Execution")?.get("Input")
    }

    /// Its output, if it ended well.
    #[must_use]
    pub fn output(&self) -> Option<&Value> {
        self.output.as_ref()
    }

    /// The name of the error it ended with, if it has one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Why it did not end well, if that is known.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// When it began, in milliseconds since 1970.
    #[must_use]
    pub fn begun_at_ms(&self) -> i64 {
        self.begun_at_ms
    }

    /// When something last happened to it; once it has ended, when it ended.
    #[must_use]
    pub fn changed_at_ms(&self) -> i64 {
        self.changed_at_ms
    }

    /// How many events its history has.
    #[must_use]
    pub fn history_len(&self) -> u64 {
        self.made.events
    }

    /// How many states it entered, those of distributed Maps included.
    #[must_use]
    pub fn states_entered(&self) -> u64 {
        self.made.states
    }

    /// What started it, if that was a task of another execution.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// The tasks in flight.
    pub fn tasks(&self) -> impl Iterator<Item = &InFlight> {
        self.tasks.values()
    }

    /// A task in flight.
    #[must_use]
    pub fn task(&self, task: TaskId) -> Option<&InFlight> {
        self.tasks.get(&task)
    }

    /// What has to be done again after a crash: the tasks in flight, under the
    /// same ids, the timers, and the turn that was asked for.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Effect> {
        let tasks = self.tasks.values();
        let timers = self.timers.iter();
        let turn = self.awaited_turn.filter(|_| !self.is_paused);
        tasks
            .map(|flight| Effect::RunTask(Box::new(flight.order.clone())))
            .chain(timers.map(|(timer, alarm)| Effect::SetTimer {
                timer: *timer,
                at_ms: alarm.at_ms,
            }))
            .chain(turn.map(|turn| Effect::Continue { turn }))
            .collect()
    }

    /// Where it stands: one position for each run that is not waiting for
    /// others, and one for each that is.
    #[must_use]
    pub fn position(&self) -> Vec<Position> {
        self.runs
            .values()
            .map(|run| self.position_of(run))
            .collect()
    }

    fn position_of(&self, run: &Run) -> Position {
        let flight = run.phase.task().and_then(|task| self.tasks.get(&task));
        let submitted = flight.filter(|flight| flight.is_submitted && flight.child.is_none());
        let timer = run.phase.timer().and_then(|timer| self.timers.get(&timer));
        Position {
            state: run.state.clone(),
            doing: match submitted {
                Some(_) => Doing::AwaitingCallback,
                None => run.phase.doing(),
            },
            attempt: run.attempts,
            entered_at_ms: run.entered_at_ms,
            task: run.phase.task(),
            token: submitted.map(|flight| flight.order.token.clone()),
            awaiting_since_ms: submitted.map(InFlight::handed_over_at_ms),
            child: flight.and_then(|flight| flight.child.clone()),
            wakes_at_ms: timer.map(|alarm| alarm.at_ms),
            iterations: self.iterations(run),
        }
    }

    /// The iterations that a run is in, from the outside in.
    pub(super) fn iterations(&self, run: &Run) -> Vec<super::Iteration> {
        let mut found = Vec::new();
        let mut at = run;
        while let Some(parent) = &at.parent {
            let Some(above) = self.runs.get(&parent.run) else {
                break;
            };
            if let Phase::Gathering(family) = &above.phase
                && family.is_map()
            {
                found.push(super::Iteration {
                    map: above.state.clone(),
                    index: parent.index,
                });
            }
            at = above;
        }
        found.reverse();
        found
    }
}
