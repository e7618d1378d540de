//! What is shown of executions, and how it is asked for.

use super::Status;

/// An execution as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Its place among all executions that ever were.
    pub number: u64,
    /// The workflow's name.
    pub workflow: String,
    /// The hash of its definition.
    pub definition: String,
    /// When it was created.
    pub created_at_ms: i64,
    /// Open, or how it ended.
    pub status: Status,
    /// Whether it stands still.
    pub paused: bool,
    /// Where it is.
    pub position: String,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
    /// The seq that the next entry will have.
    pub next_seq: u64,
    /// The id that the next history event will have.
    pub next_history_id: u64,
    /// The fence of the last lease; 0 when there was none yet.
    pub fence: u64,
    /// Who holds it.
    pub worker: Option<String>,
    /// When it may be claimed: for one that is held, when the lease runs out.
    pub due_at_ms: Option<i64>,
    /// How many messages wait.
    pub waiting: u64,
}

/// An execution with what it was given and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What lists show.
    pub row: Row,
    /// The input.
    pub input: String,
    /// Output or error, once it has ended.
    pub outcome: Option<String>,
}

/// Which executions to list, the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Only those of this workflow.
    pub workflow: Option<String>,
    /// Only those that stand so.
    pub status: Option<Status>,
    /// Only those that were created before the one with this number: the last
    /// of the page before.
    pub before: Option<u64>,
    /// How many at most; see [`LIST_MAX`](super::limits::LIST_MAX).
    pub limit: usize,
}

impl Query {
    /// The newest executions of all.
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

/// Which part of a history to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Begin behind the event with this id, the last of the page before.
    pub after: Option<u64>,
    /// The newest first, and `after` counts down.
    pub newest_first: bool,
    /// How many at most; see [`HISTORY_MAX`](super::limits::HISTORY_MAX).
    pub limit: usize,
}

/// A part of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPage {
    /// The events in the order asked for; their ids follow each other.
    pub events: Vec<String>,
    /// The id of the last one, to go on after; as asked when there is none.
    pub last_id: Option<u64>,
    /// Whether there are more. A page of large events may have fewer than the
    /// limit although there are.
    pub more: bool,
}
