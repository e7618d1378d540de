//! Executions as callers see them.

use serde::Serialize;
use serde_json::Value;

use super::TaskProgress;
use super::callbacks::StoredPosition;
use crate::core::{ExecutionStatus, HistoryEvent, Position};
use crate::store::{self, ExecutionRecord, ExecutionRow};

/// An execution in lists.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecutionOverview {
    /// The id.
    pub id: String,
    /// The execution's number, in order of creation: pages of lists continue from
    /// it.
    pub number: u64,
    /// The workflow's name.
    pub workflow: String,
    /// The hash of the definition.
    pub definition: String,
    /// The status.
    pub status: ExecutionStatus,
    /// Whether the execution is paused.
    pub paused: bool,
    /// When it started, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
    /// The positions; truncated if there are very many.
    pub position: Vec<Position>,
    /// The number of events in its history.
    pub history_len: u64,
    /// The worker that holds it; `None` while it is parked.
    pub worker: Option<String>,
}

/// An execution with its input and outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecutionDetails {
    /// The fields that lists show.
    #[serde(flatten)]
    pub summary: ExecutionOverview,
    /// The input.
    pub input: Value,
    /// The output, if it succeeded.
    pub output: Option<Value>,
    /// The name of the error it ended with, if it has one.
    pub error: Option<String>,
    /// The cause of its failure, if known.
    pub cause: Option<String>,
    /// The latest progress of its tasks, as reported to this process.
    pub progress: Vec<TaskProgress>,
}

/// A page of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionHistory {
    /// The events in the requested order.
    pub events: Vec<HistoryEvent>,
    /// The id of the last event, to continue after.
    pub last_id: Option<u64>,
    /// Whether there are more.
    pub more: bool,
}

impl From<ExecutionRow> for ExecutionOverview {
    fn from(row: ExecutionRow) -> Self {
        Self {
            id: row.id,
            number: row.number,
            workflow: row.workflow,
            definition: row.definition,
            status: from_stored_status(row.status),
            paused: row.paused,
            started_at_ms: row.created_at_ms,
            ended_at_ms: row.ended_at_ms,
            position: StoredPosition::parse(&row.position).positions,
            history_len: row.next_history_id.saturating_sub(1),
            worker: row.worker,
        }
    }
}

impl ExecutionDetails {
    pub(super) fn new(found: ExecutionRecord, progress: Vec<TaskProgress>) -> Self {
        let outcome = found.outcome.as_deref();
        let mut outcome: Value = outcome
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let mut take = |name: &str| outcome.get_mut(name).map(Value::take);
        let text = |value: Option<Value>| value?.as_str().map(str::to_owned);
        Self {
            summary: found.row.into(),
            input: serde_json::from_str(&found.input).unwrap_or_default(),
            output: take("output"),
            error: text(take("error")),
            cause: text(take("cause")),
            progress,
        }
    }

    /// Removes progress of tasks that are no longer in flight.
    pub(super) fn drop_stale_progress(&mut self) {
        let positions = &self.summary.position;
        self.progress.retain(|reported| {
            let mut tasks = positions.iter().filter_map(|position| position.task);
            tasks.any(|task| task == reported.task)
        });
    }

    /// Whether the execution has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.summary.status.is_ended()
    }
}

pub(super) fn from_stored_status(status: store::StoredStatus) -> ExecutionStatus {
    match status {
        store::StoredStatus::Running => ExecutionStatus::Running,
        store::StoredStatus::Succeeded => ExecutionStatus::Succeeded,
        store::StoredStatus::Failed => ExecutionStatus::Failed,
        store::StoredStatus::TimedOut => ExecutionStatus::TimedOut,
        store::StoredStatus::Aborted => ExecutionStatus::Aborted,
    }
}
