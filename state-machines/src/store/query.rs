//! What callers read of executions, and their queries.

use super::StoredStatus;

/// An execution in lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionRow {
    /// The id.
    pub id: String,
    /// Its number, in order of creation.
    pub number: u64,
    /// The workflow's name.
    pub workflow: String,
    /// The hash of the definition.
    pub definition: String,
    /// When it was created.
    pub created_at_ms: i64,
    /// The status.
    pub status: StoredStatus,
    /// Whether it is paused.
    pub paused: bool,
    /// The position.
    pub position: String,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
    /// The seq of the next entry.
    pub next_seq: u64,
    /// The id of the next history event.
    pub next_history_id: u64,
    /// The fence of the last lease; 0 before the first.
    pub fence: u64,
    /// The worker that holds it.
    pub worker: Option<String>,
    /// When it may be claimed: its wake time, or the end of its lease.
    pub due_at_ms: Option<i64>,
    /// The number of unread messages.
    pub waiting: u64,
}

/// An execution with its input and outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionRecord {
    /// The fields that lists show.
    pub row: ExecutionRow,
    /// The input.
    pub input: String,
    /// The output or error, once it has ended.
    pub outcome: Option<String>,
}

/// Which executions to list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionQuery {
    /// Only executions of this workflow.
    pub workflow: Option<String>,
    /// Only executions with this status.
    pub status: Option<StoredStatus>,
    /// Only executions before this number: the last one of the previous page.
    pub before: Option<u64>,
    /// The page size; see [`LIST_MAX`](super::limits::LIST_MAX).
    pub limit: usize,
}

impl ExecutionQuery {
    /// The newest executions, without a filter.
    #[must_use]
    pub fn newest(limit: usize) -> Self {
        Self {
            workflow: None,
            status: None,
            before: None,
            limit,
        }
    }
}

/// Which page of a history to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Start after the event with this id, the last one of the previous page.
    pub after: Option<u64>,
    /// Newest first; then `after` counts down.
    pub newest_first: bool,
    /// The page size; see [`HISTORY_MAX`](super::limits::HISTORY_MAX).
    pub limit: usize,
}

/// A page of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPage {
    /// The events in the requested order; their ids are consecutive.
    pub events: Vec<String>,
    /// The id of the last event, to continue after; the requested `after` if there
    /// is none.
    pub last_id: Option<u64>,
    /// Whether there are more. A page of large events may be shorter than the
    /// limit.
    pub more: bool,
}
