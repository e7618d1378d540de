//! What may happen to an execution.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{TaskId, TimerId};

/// An event and when it happened. Time goes by these times alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedEvent {
    /// What happened.
    pub event: Event,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

impl TimedEvent {
    /// An event at a time.
    #[must_use]
    pub fn new(event: Event, at_ms: i64) -> Self {
        Self { event, at_ms }
    }
}

/// What may happen to an execution. Journals hold these: a change of their
/// JSON is a change of format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// It begins; the first event.
    Begun(Box<Begin>),
    /// A worker took up a task. It may be left out, and changes nothing: a task
    /// is told as started when it is ordered.
    TaskStarted {
        /// The task.
        task: TaskId,
    },
    /// A task that waits for another was handed over: its answer comes later.
    TaskSubmitted {
        /// The task.
        task: TaskId,
        /// What whoever took it over said.
        output: Value,
    },
    /// A task was done.
    TaskSucceeded {
        /// The task.
        task: TaskId,
        /// Its result.
        output: Value,
    },
    /// A task was not done.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// The name of the error.
        error: String,
        /// What happened.
        cause: String,
    },
    /// A task took too long, or was silent for too long.
    TaskTimedOut {
        /// The task.
        task: TaskId,
        /// Whether it was silent; otherwise it took too long.
        heartbeat: bool,
    },
    /// A time has come.
    TimerFired {
        /// The timer.
        timer: TimerId,
    },
    /// It shall go on with what was more than one event may do.
    Continued {
        /// Which time: the number in [`Effect::Continue`](super::Effect::Continue).
        turn: u64,
    },
    /// It shall begin nothing new. Answers are taken, and kept.
    Paused,
    /// It shall go on.
    Resumed,
    /// It cannot go on: it ends as failed.
    Failed {
        /// The name of the error.
        error: String,
        /// Why.
        cause: String,
    },
    /// It shall end.
    Cancelled {
        /// The name of an error, if there is one.
        error: Option<String>,
        /// Why.
        cause: Option<String>,
    },
}

/// How an execution begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Its id, unique: `$$.Execution.Id`.
    pub execution_id: String,
    /// Its name: `$$.Execution.Name`.
    pub name: String,
    /// The id of the machine: `$$.StateMachine.Id`. What stands behind its
    /// last colon is `$$.StateMachine.Name`.
    pub machine: String,
    /// On whose behalf it runs: `$$.Execution.RoleArn`.
    #[serde(default)]
    pub role: String,
    /// What it is given.
    pub input: Value,
    /// When it begins, in milliseconds since 1970.
    pub at_ms: i64,
    /// What every random value is derived from.
    pub seed: u64,
    /// How far it may go.
    #[serde(default)]
    pub limits: Limits,
    /// What started it, if that was a task of another execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// The task that an execution was started by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The execution that the task is of.
    pub execution: String,
    /// The task's token, if it waits for the end.
    pub token: Option<String>,
    /// How many executions are above this one.
    pub depth: u32,
}

/// How far an execution may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// How many events its history may have; beyond, it fails. Those of a
    /// distributed Map's runs are counted for each run.
    pub history_max: u64,
    /// How many states are gone through for one event before it asks to be
    /// continued: nothing hangs on a loop without an end.
    pub states_per_event_max: u32,
    /// How many iterations of an inline Map run at once where the definition
    /// does not limit them.
    pub iterations_at_once_max: u64,
    /// The same for a distributed Map.
    pub distributed_at_once_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history_max: 25_000,
            states_per_event_max: 1_000,
            iterations_at_once_max: 40,
            distributed_at_once_max: 1_000,
        }
    }
}
