//! The complete state of a running workflow, as data.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::run::{Phase, Run};
use super::{Effect, ExecutionLimits, ParentTask, RunId, RunTask, TaskId, TimerId};

/// The complete state of a running workflow, except its definition, which is a
/// parameter of [`apply`](super::apply()). It round-trips through serde exactly:
/// an execution that was written and read continues unchanged.
///
/// The default is an execution that has not started.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Execution {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: ExecutionStatus,
    pub(super) is_paused: bool,
    pub(super) output: Option<Value>,
    pub(super) error: Option<String>,
    pub(super) cause: Option<String>,
    pub(super) begun_at_ms: i64,
    pub(super) changed_at_ms: i64,
    pub(super) seed: u64,
    pub(super) limits: ExecutionLimits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<ParentTask>,
    /// The part of the context object that never changes.
    pub(super) context: Map<String, Value>,
    pub(super) runs: BTreeMap<RunId, Run>,
    pub(super) tasks: BTreeMap<TaskId, TaskInFlight>,
    pub(super) timers: BTreeMap<TimerId, Timer>,
    /// The runs that are ready, in the order of their turns.
    pub(super) ready: VecDeque<RunId>,
    /// The turn that [`Effect::Continue`] requested.
    pub(super) awaited_turn: Option<u64>,
    #[serde(rename = "made")]
    pub(super) counters: ExecutionCounters,
}

/// How many of each were created; ids count from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct ExecutionCounters {
    pub(super) runs: u64,
    pub(super) tasks: u64,
    pub(super) timers: u64,
    pub(super) turns: u64,
    pub(super) events: u64,
    pub(super) states: u64,
}

/// The status of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionStatus {
    /// It has not started.
    #[default]
    Pending,
    /// It is running or paused.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed with an error.
    Failed,
    /// It exceeded the timeout of its definition.
    TimedOut,
    /// It was cancelled.
    Aborted,
}

impl ExecutionStatus {
    /// The status as AWS writes it: `SUCCEEDED`.
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

    /// Whether the execution has ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// A task that was started and has no result yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskInFlight {
    pub(super) run: RunId,
    /// Whether the history records it as started.
    pub is_started: bool,
    /// Whether it was submitted: handed to a system that calls back. After a crash
    /// it need not be submitted again; only its result is awaited.
    pub is_submitted: bool,
    /// When it was started, in milliseconds since 1970.
    #[serde(default)]
    pub ordered_at_ms: i64,
    /// When it was submitted, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_at_ms: Option<i64>,
    /// The child execution that it started and waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// The task.
    pub order: RunTask,
}

impl TaskInFlight {
    /// When it was submitted. Records from older versions lack that time; for them
    /// it is the start time.
    fn submitted_or_ordered_at_ms(&self) -> i64 {
        self.submitted_at_ms.unwrap_or(self.ordered_at_ms)
    }
}

/// A timer that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Timer {
    pub(super) at_ms: i64,
    pub(super) wakes: TimerTarget,
}

/// What a timer triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TimerTarget {
    /// The timeout of the execution.
    Deadline,
    /// The end of a Wait, or of a delay before the next attempt.
    Run(RunId),
}

/// The current position of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The state it is in.
    pub state: String,
    /// What it is doing there.
    pub doing: RunActivity,
    /// How many attempts of the state preceded this one.
    pub attempt: u64,
    /// When it entered the state, in milliseconds since 1970.
    pub entered_at_ms: i64,
    /// The task it waits for.
    pub task: Option<TaskId>,
    /// The token of that task for callbacks, once it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// When it was submitted, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaiting_since_ms: Option<i64>,
    /// The child execution that the task started and waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// When its timer is due, in milliseconds since 1970.
    pub wakes_at_ms: Option<i64>,
    /// The Map iterations around it, outermost first.
    pub iterations: Vec<super::Iteration>,
}

/// What a run is doing in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunActivity {
    /// It is ready to continue.
    Ready,
    /// It waits for a task.
    Working,
    /// Its task was submitted, and it waits for a callback with the token.
    AwaitingCallback,
    /// It waits for a time.
    Waiting,
    /// It waits before the next attempt.
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

    /// Its status.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.status
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Its input.
    #[must_use]
    pub fn input(&self) -> Option<&Value> {
        self.context.get("Execution")?.get("Input")
    }

    /// Its output, if it succeeded.
    #[must_use]
    pub fn output(&self) -> Option<&Value> {
        self.output.as_ref()
    }

    /// The name of the error it ended with, if it has one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The cause of the error, if known.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// When it started, in milliseconds since 1970.
    #[must_use]
    pub fn begun_at_ms(&self) -> i64 {
        self.begun_at_ms
    }

    /// The time of the last event; once it has ended, the end time.
    #[must_use]
    pub fn changed_at_ms(&self) -> i64 {
        self.changed_at_ms
    }

    /// How many events its history has.
    #[must_use]
    pub fn history_len(&self) -> u64 {
        self.counters.events
    }

    /// How many states it entered, those of distributed Maps included.
    #[must_use]
    pub fn states_entered(&self) -> u64 {
        self.counters.states
    }

    /// The task that started it, if another execution did.
    #[must_use]
    pub fn origin(&self) -> Option<&ParentTask> {
        self.origin.as_ref()
    }

    /// The tasks in flight.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskInFlight> {
        self.tasks.values()
    }

    /// A task in flight.
    #[must_use]
    pub fn task(&self, task: TaskId) -> Option<&TaskInFlight> {
        self.tasks.get(&task)
    }

    /// The effects to perform again after a crash: the tasks in flight, under the
    /// same ids, the timers, and the requested turn.
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

    /// The position of each run, including runs that wait for their children.
    #[must_use]
    pub fn position(&self) -> Vec<Position> {
        self.runs
            .values()
            .map(|run| self.describe_run(run))
            .collect()
    }

    fn describe_run(&self, run: &Run) -> Position {
        let flight = run.phase.task().and_then(|task| self.tasks.get(&task));
        let submitted = flight.filter(|flight| flight.is_submitted && flight.child.is_none());
        let timer = run.phase.timer().and_then(|timer| self.timers.get(&timer));
        Position {
            state: run.state.clone(),
            doing: match submitted {
                Some(_) => RunActivity::AwaitingCallback,
                None => run.phase.activity(),
            },
            attempt: run.attempts,
            entered_at_ms: run.entered_at_ms,
            task: run.phase.task(),
            token: submitted.map(|flight| flight.order.token.clone()),
            awaiting_since_ms: submitted.map(TaskInFlight::submitted_or_ordered_at_ms),
            child: flight.and_then(|flight| flight.child.clone()),
            wakes_at_ms: timer.map(|alarm| alarm.at_ms),
            iterations: self.iterations(run),
        }
    }

    /// The Map iterations around a run, outermost first.
    pub(super) fn iterations(&self, run: &Run) -> Vec<super::Iteration> {
        let mut found = Vec::new();
        let mut at = run;
        while let Some(parent) = &at.parent {
            let Some(above) = self.runs.get(&parent.run) else {
                break;
            };
            if let Phase::Gathering(children) = &above.phase
                && children.is_map()
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
