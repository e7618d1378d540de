//! The events that drive an execution.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{TaskId, TimerId};

/// An event and when it happened. Executions know no other clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedEvent {
    /// What happened.
    pub event: ExecutionEvent,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

impl TimedEvent {
    /// An event at a time.
    #[must_use]
    pub fn new(event: ExecutionEvent, at_ms: i64) -> Self {
        Self { event, at_ms }
    }
}

/// An event of an execution. Journals store these: a change of their JSON is a
/// change of the stored format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ExecutionEvent {
    /// The execution starts; always the first event.
    Begun(Box<ExecutionStart>),
    /// A worker started a task. Optional: the history records a task as started
    /// when it is scheduled.
    TaskStarted {
        /// The task.
        task: TaskId,
    },
    /// A task that waits for a callback or a child execution was handed over; its
    /// result follows later.
    TaskSubmitted {
        /// The task.
        task: TaskId,
        /// The response of the receiver.
        output: Value,
    },
    /// A task succeeded.
    TaskSucceeded {
        /// The task.
        task: TaskId,
        /// Its result.
        output: Value,
    },
    /// A task failed.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// The name of the error.
        error: String,
        /// What happened.
        cause: String,
    },
    /// A task exceeded its timeout or its heartbeat timeout.
    TaskTimedOut {
        /// The task.
        task: TaskId,
        /// Whether the heartbeat timeout expired, not the timeout of the task.
        heartbeat: bool,
    },
    /// A timer is due.
    TimerFired {
        /// The timer.
        timer: TimerId,
    },
    /// Continue with the work that exceeded the limit of the last event.
    Continued {
        /// The turn: the number in [`Effect::Continue`](super::Effect::Continue).
        turn: u64,
    },
    /// Pause: start nothing new. Results of tasks are still accepted.
    Paused,
    /// Resume after a pause.
    Resumed,
    /// The engine cannot continue the execution; it ends as failed.
    Failed {
        /// The name of the error.
        error: String,
        /// Why.
        cause: String,
    },
    /// Cancel the execution.
    Cancelled {
        /// The name of an error, if there is one.
        error: Option<String>,
        /// Why.
        cause: Option<String>,
    },
}

/// The parameters of a new execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionStart {
    /// Its id, unique: `$$.Execution.Id`.
    pub execution_id: String,
    /// Its name: `$$.Execution.Name`.
    pub name: String,
    /// The id of the machine: `$$.StateMachine.Id`. The part after its last colon
    /// is `$$.StateMachine.Name`.
    pub machine: String,
    /// The role it runs as: `$$.Execution.RoleArn`.
    #[serde(default)]
    pub role: String,
    /// The input.
    pub input: Value,
    /// The start time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The seed of all random values.
    pub seed: u64,
    /// The limits of the execution.
    #[serde(default)]
    pub limits: ExecutionLimits,
    /// The task that started it, if another execution did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ParentTask>,
}

/// The task of another execution that started this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentTask {
    /// The execution that the task belongs to.
    pub execution: String,
    /// The task's token, if the task waits for the end of the child.
    pub token: Option<String>,
    /// The number of ancestors of this execution.
    pub depth: u32,
}

/// The limits of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutionLimits {
    /// The maximum number of history events; beyond, the execution fails. For the
    /// runs of a distributed Map the limit applies to each run.
    pub history_max: u64,
    /// How many states one event may run before the interpreter asks for
    /// [`Continued`](ExecutionEvent::Continued). An endless loop thus blocks no
    /// worker.
    pub states_per_event_max: u32,
    /// How many iterations of an inline Map run at once where the definition
    /// does not limit them.
    pub iterations_at_once_max: u64,
    /// The same for a distributed Map.
    pub distributed_at_once_max: u64,
}

impl Default for ExecutionLimits {
    fn default() -> Self {
        Self {
            history_max: 25_000,
            states_per_event_max: 1_000,
            iterations_at_once_max: 40,
            distributed_at_once_max: 1_000,
        }
    }
}
