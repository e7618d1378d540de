//! What has to be done once an event is durable.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HistoryEvent, TaskId, TimerId};

/// What came of an event.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Whether it mattered. A late answer, a timer that was stopped, an event
    /// that was applied before: they change nothing, and there is nothing to
    /// be done and nothing to be written.
    pub accepted: bool,
    /// What has to be done, in this order.
    pub effects: Vec<Effect>,
    /// What is added to the history.
    pub history: Vec<HistoryEvent>,
    /// Whether an expression took too long. This alone hangs on the machine
    /// and not on the event: whoever keeps events had better keep the
    /// execution too, so that it is not evaluated again.
    pub is_out_of_time: bool,
}

/// What has to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Have a task done, and tell how it went.
    RunTask(Box<RunTask>),
    /// A task is no longer wanted. What it answers is ignored.
    StopTask {
        /// The task.
        task: TaskId,
    },
    /// Tell when this time has come.
    SetTimer {
        /// The timer.
        timer: TimerId,
        /// The time, in milliseconds since 1970; it may have passed.
        at_ms: i64,
    },
    /// A timer is no longer wanted.
    StopTimer {
        /// The timer.
        timer: TimerId,
    },
    /// Apply [`Event::Continued`](super::Event::Continued) soon: there is more
    /// to do than one event may.
    Continue {
        /// Which time.
        turn: u64,
    },
    /// The execution has ended.
    Ended,
}

/// A task that is to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunTask {
    /// Its id: with the execution's id, the idempotency key.
    pub task: TaskId,
    /// Who does it.
    pub resource: String,
    /// What it is given.
    pub input: Value,
    /// By what a callback names it.
    pub token: String,
    /// How often the state was tried before.
    pub attempt: u64,
    /// The state it is the work of.
    pub state: String,
    /// The iterations it runs in, from the outside in.
    pub iterations: Vec<Iteration>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: Option<i64>,
    /// How long it may be silent, in milliseconds.
    pub heartbeat_ms: Option<i64>,
    /// On whose behalf it is done, as `Credentials` say.
    pub credentials: Option<Value>,
    /// Whether it waits for a callback (`.waitForTaskToken`): then the answer
    /// of whoever it is handed to is an
    /// [`Event::TaskSubmitted`](super::Event::TaskSubmitted).
    pub waits_for_callback: bool,
}

/// An iteration of a Map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iteration {
    /// The Map.
    pub map: String,
    /// Which item, from 0.
    pub index: u64,
}
