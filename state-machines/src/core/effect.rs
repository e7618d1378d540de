//! The effects that the driver performs once an event is durable.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HistoryEvent, TaskId, TimerId};

/// The outcome of an event.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventOutcome {
    /// Whether the event changed anything. Late results, stopped timers and
    /// repeated events do not: they have no effects and need not be written.
    pub accepted: bool,
    /// The effects to perform, in this order.
    pub effects: Vec<Effect>,
    /// The new history events.
    pub history: Vec<HistoryEvent>,
    /// Whether an expression exceeded its time limit. Only this depends on the
    /// speed of the machine and not on the event: store a snapshot of the
    /// execution with the event, so that a replay does not evaluate it again.
    pub is_out_of_time: bool,
}

/// An effect to perform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Run a task and report its result.
    RunTask(Box<RunTask>),
    /// Stop a task. Its result is ignored.
    StopTask {
        /// The task.
        task: TaskId,
    },
    /// Report when this time has come.
    SetTimer {
        /// The timer.
        timer: TimerId,
        /// The time, in milliseconds since 1970; it may have passed.
        at_ms: i64,
    },
    /// Stop a timer.
    StopTimer {
        /// The timer.
        timer: TimerId,
    },
    /// Apply [`ExecutionEvent::Continued`](super::ExecutionEvent::Continued) soon: there is more
    /// to do than one event may.
    Continue {
        /// The number of the turn.
        turn: u64,
    },
    /// The execution has ended.
    Ended,
}

/// A task to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunTask {
    /// Its id: with the execution's id, the idempotency key.
    pub task: TaskId,
    /// The resource that runs it.
    pub resource: String,
    /// Its input.
    pub input: Value,
    /// The token by which a callback addresses it.
    pub token: String,
    /// How many attempts of the state preceded this one.
    pub attempt: u64,
    /// The state that it belongs to.
    pub state: String,
    /// The Map iterations around it, outermost first.
    pub iterations: Vec<Iteration>,
    /// The timeout, in milliseconds.
    pub timeout_ms: Option<i64>,
    /// The heartbeat timeout, in milliseconds.
    pub heartbeat_ms: Option<i64>,
    /// `Credentials`: the role to run as.
    pub credentials: Option<Value>,
    /// Whether it waits for a callback (`.waitForTaskToken`). The response of the
    /// handler is then an
    /// [`ExecutionEvent::TaskSubmitted`](super::ExecutionEvent::TaskSubmitted).
    pub waits_for_callback: bool,
}

/// An iteration of a Map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iteration {
    /// The Map.
    pub map: String,
    /// The index of the item, from 0.
    pub index: u64,
}
