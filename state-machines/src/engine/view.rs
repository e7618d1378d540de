//! What is shown of executions.

use serde::Serialize;
use serde_json::Value;

use super::TaskProgress;
use super::waiting::Stands;
use crate::core::{HistoryEvent, Position, Status};
use crate::store::{self, Found, Row};

/// An execution as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// Its place among all executions that ever were: pages go by it.
    pub number: u64,
    /// The workflow's name.
    pub workflow: String,
    /// The hash of its definition.
    pub definition: String,
    /// How it stands.
    pub status: Status,
    /// Whether it is paused.
    pub paused: bool,
    /// When it was started, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
    /// Where it stands: of very many runs, the first.
    pub position: Vec<Position>,
    /// How many events its history has.
    pub history_len: u64,
    /// Who holds it; nobody, while it only waits.
    pub worker: Option<String>,
}

/// An execution with what it was given and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    /// What lists show.
    #[serde(flatten)]
    pub summary: Summary,
    /// What it was given.
    pub input: Value,
    /// Its output, if it ended well.
    pub output: Option<Value>,
    /// The name of the error it ended with, if it has one.
    pub error: Option<String>,
    /// Why it did not end well, if that is known.
    pub cause: Option<String>,
    /// How far its tasks are, as far as they run here and tell.
    pub progress: Vec<TaskProgress>,
}

/// A part of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// The events in the order asked for.
    pub events: Vec<HistoryEvent>,
    /// The id of the last one, to go on after.
    pub last_id: Option<u64>,
    /// Whether there are more.
    pub more: bool,
}

impl From<Row> for Summary {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            number: row.number,
            workflow: row.workflow,
            definition: row.definition,
            status: status(row.status),
            paused: row.paused,
            started_at_ms: row.created_at_ms,
            ended_at_ms: row.ended_at_ms,
            position: Stands::read(&row.position).positions,
            history_len: row.next_history_id.saturating_sub(1),
            worker: row.worker,
        }
    }
}

impl Description {
    pub(super) fn new(found: Found, progress: Vec<TaskProgress>) -> Self {
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

    /// Leaves out what tasks told that were answered for since.
    pub(super) fn keep_current_progress(&mut self) {
        let places = &self.summary.position;
        self.progress.retain(|told| {
            let mut tasks = places.iter().filter_map(|place| place.task);
            tasks.any(|task| task == told.task)
        });
    }

    /// Whether nothing will happen any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.summary.status.is_ended()
    }
}

pub(super) fn status(status: store::Status) -> Status {
    match status {
        store::Status::Running => Status::Running,
        store::Status::Succeeded => Status::Succeeded,
        store::Status::Failed => Status::Failed,
        store::Status::TimedOut => Status::TimedOut,
        store::Status::Aborted => Status::Aborted,
    }
}
