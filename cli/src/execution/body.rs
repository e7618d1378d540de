//! The parts of the API's execution bodies and histories that the views show.

use ballast_domain::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// An execution. Items of a list have no input and no result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    #[serde(rename = "executionID")]
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) name: String,
    pub(crate) status: ExecutionStatus,
    #[serde(default)]
    pub(crate) paused: bool,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) definition_hash: String,
    #[serde(default)]
    pub(crate) position: Vec<Position>,
    #[serde(default)]
    pub(crate) history_length: u64,
    pub(crate) worker: Option<String>,
    #[serde(default)]
    pub(crate) input: Value,
    pub(crate) output: Option<Value>,
    pub(crate) error: Option<String>,
    pub(crate) cause: Option<String>,
    #[serde(default)]
    pub(crate) progress: Vec<TaskProgress>,
}

impl Execution {
    /// How long it has run, or ran.
    pub(crate) fn elapsed_ms(&self, now: Timestamp) -> i64 {
        let end = self.ended_at.unwrap_or(now);
        end.unix_ms()
            .saturating_sub(self.started_at.unix_ms())
            .max(0)
    }
}

/// The status of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ExecutionStatus {
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Aborted,
    /// A status added by a newer server.
    #[serde(other)]
    Unknown,
}

impl ExecutionStatus {
    /// As the API writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::TimedOut => "TIMED_OUT",
            Self::Aborted => "ABORTED",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Whether the execution has ended.
    pub(crate) fn is_ended(self) -> bool {
        self != Self::Running
    }
}

/// The position of one branch of an execution.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Position {
    pub(crate) state: String,
    pub(crate) doing: PositionActivity,
    /// How often the state has been retried.
    #[serde(default)]
    pub(crate) attempt: u64,
    pub(crate) entered_at: Timestamp,
    pub(crate) wakes_at: Option<Timestamp>,
    pub(crate) done: Option<u64>,
    pub(crate) total: Option<u64>,
    #[serde(default)]
    pub(crate) iterations: Vec<Iteration>,
}

/// What a branch does in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PositionActivity {
    Ready,
    Working,
    AwaitingCallback,
    Waiting,
    BackingOff,
    Gathering,
    #[serde(other)]
    Unknown,
}

/// An iteration of a Map.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Iteration {
    pub(crate) map: String,
    pub(crate) index: u64,
}

/// The progress of a task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskProgress {
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) task: u64,
    pub(crate) begun_at: Timestamp,
    pub(crate) at: Timestamp,
    pub(crate) done: u64,
    pub(crate) total: Option<u64>,
    #[serde(default)]
    pub(crate) unit: String,
    pub(crate) per_second: Option<f64>,
    pub(crate) note: Option<String>,
}

/// A page of a history.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryPage {
    pub(crate) events: Vec<HistoryEvent>,
    pub(crate) next_token: Option<String>,
}

/// An event of a history, of whatever type.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryEvent {
    pub(crate) timestamp: Timestamp,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) id: u64,
    #[serde(default)]
    pub(crate) previous_event_id: u64,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl HistoryEvent {
    /// Its details, in a field named after the event's type.
    pub(crate) fn details(&self) -> Option<&Map<String, Value>> {
        let named = self
            .rest
            .iter()
            .find(|(name, _)| name.ends_with("EventDetails"));
        named.and_then(|(_, details)| details.as_object())
    }

    /// A text among its details.
    pub(crate) fn detail(&self, name: &str) -> Option<&str> {
        self.details()?.get(name)?.as_str()
    }

    /// The state it enters.
    pub(crate) fn entered(&self) -> Option<&str> {
        self.kind.ends_with("StateEntered").then_some(())?;
        self.detail("name")
    }

    /// The state it leaves.
    pub(crate) fn left(&self) -> Option<&str> {
        self.kind.ends_with("StateExited").then_some(())?;
        self.detail("name")
    }

    /// Whether a task or state failed.
    pub(crate) fn is_failure(&self) -> bool {
        let ends = ["Failed", "TimedOut"];
        !self.kind.starts_with("Execution") && ends.iter().any(|end| self.kind.ends_with(end))
    }
}

/// The definition that an execution runs.
#[derive(Debug, Deserialize)]
pub(crate) struct DefinitionBody {
    pub(crate) definition: Value,
}
