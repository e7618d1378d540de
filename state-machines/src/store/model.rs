//! The types of the store. Times are milliseconds since the Unix epoch.

use super::ExecutionRow;

/// An execution's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoredStatus {
    /// Open, paused or not.
    Running,
    /// Ended with an output.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended by its timeout.
    TimedOut,
    /// Cancelled.
    Aborted,
}

impl StoredStatus {
    /// All statuses.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Aborted,
    ];

    /// Whether the execution has not ended.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::Running
    }
}

/// A definition to save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    /// The workflow name to deploy it under.
    pub name: String,
    /// A hash that identifies the text, for instance a cryptographic one.
    pub hash: String,
    /// The definition.
    pub text: String,
    /// The time of the deployment.
    pub at_ms: i64,
}

/// A deployed workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// The workflow's name.
    pub name: String,
    /// The hash of its definition.
    pub hash: String,
    /// The time of the deployment.
    pub at_ms: i64,
}

/// An entry to append to a journal: an event, and its history events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// When it happened.
    pub at_ms: i64,
    /// The event.
    pub event: String,
    /// The history events for people, in order. Their ids continue those of the
    /// entry before.
    pub history: Vec<String>,
}

/// A journal entry as stored, without its history events, which are read
/// separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its position in the journal; the first is 1.
    pub seq: u64,
    /// When it happened.
    pub at_ms: i64,
    /// The event.
    pub event: String,
}

/// An execution's state after some entry, so that loading need not read all entries
/// before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionSnapshot {
    /// The last entry that it includes.
    pub seq: u64,
    /// The state.
    pub text: String,
}

/// The state of an execution after a step, as far as the store interprets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionState {
    /// The status.
    pub status: StoredStatus,
    /// Whether it is paused.
    pub paused: bool,
    /// Its position, for lists.
    pub position: String,
    /// The output or error, once it has ended.
    pub outcome: Option<String>,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
}

impl ExecutionState {
    /// Open, at this position.
    #[must_use]
    pub fn running(position: impl Into<String>) -> Self {
        Self {
            status: StoredStatus::Running,
            paused: false,
            position: position.into(),
            outcome: None,
            ended_at_ms: None,
        }
    }

    /// Ended at this time, with this outcome.
    #[must_use]
    pub fn ended(
        status: StoredStatus,
        position: impl Into<String>,
        outcome: impl Into<String>,
        at_ms: i64,
    ) -> Self {
        Self {
            status,
            paused: false,
            position: position.into(),
            outcome: Some(outcome.into()),
            ended_at_ms: Some(at_ms),
        }
    }
}

/// An execution to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionCreation {
    /// The id, which makes the creation idempotent.
    pub id: String,
    /// The workflow's name.
    pub workflow: String,
    /// The hash of the definition, which stays the same until its end.
    pub definition: String,
    /// The input. Compared as text when the id exists already.
    pub input: String,
    /// The time of the creation.
    pub at_ms: i64,
    /// The first entries; seqs and history ids start at 1.
    pub entries: Vec<JournalEntry>,
    /// Its state after them.
    pub state: ExecutionState,
    /// A snapshot after them, if worth storing.
    pub snapshot: Option<String>,
    /// Who holds it. Ignored if the execution has already ended.
    pub start: InitialLease,
}

/// Whether a new execution is held or parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitialLease {
    /// A worker holds it.
    Held {
        /// The worker's name.
        worker: String,
        /// When the lease expires.
        until_ms: i64,
    },
    /// It is parked: due at this time, or when a message comes.
    Parked {
        /// The wake time.
        wake_at_ms: Option<i64>,
    },
}

/// The outcome of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The execution is new; its lease, if it has one.
    Created(Option<Lease>),
    /// The execution existed before.
    Existing(Box<ExecutionRow>),
}

/// The right to append to an execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The execution.
    pub id: String,
    /// Greater than the fence of every earlier lease of the execution.
    pub fence: u64,
}

/// The worker that claims executions, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The worker's name.
    pub worker: String,
    /// The current time.
    pub now_ms: i64,
    /// When the leases expire.
    pub until_ms: i64,
}

/// A claimed execution, with everything needed to resume it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedExecution {
    /// The lease.
    pub lease: Lease,
    /// The execution.
    pub row: ExecutionRow,
    /// The last snapshot.
    pub snapshot: Option<ExecutionSnapshot>,
    /// The entries after the snapshot.
    pub entries: Vec<StoredEntry>,
    /// The unread messages in order.
    pub messages: Vec<StoredMessage>,
}

/// One atomic change of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionStep {
    /// The lease that allows it.
    pub lease: Lease,
    /// The seq of the first entry; must be the journal's next.
    pub seq: u64,
    /// The id of the first history event; must be the history's next.
    pub first_history_id: u64,
    /// The entries to append. May be empty, to park or to mark messages as read.
    pub entries: Vec<JournalEntry>,
    /// The state after the step.
    pub state: ExecutionState,
    /// Marks messages up to this number as read. 0 or the number of the step before
    /// marks none.
    pub messages_read: u64,
    /// A snapshot after the entries, replacing the last one. Worth it if the
    /// entries since then are longer.
    pub snapshot: Option<String>,
    /// What happens to the lease. An execution that has ended loses it in any case.
    pub lease_action: LeaseAction,
}

/// What happens to a lease after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseAction {
    /// The worker keeps it.
    Keep,
    /// The worker releases it until the wake time or until a message comes. An
    /// unread message makes the execution due at once.
    Park {
        /// The wake time.
        wake_at_ms: Option<i64>,
    },
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendOutcome {
    /// The number of unread messages.
    pub waiting: u64,
}

/// A message to send to an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The idempotency key.
    pub key: String,
    /// The contents.
    pub body: String,
    /// When it is sent.
    pub at_ms: i64,
}

/// The outcome of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostOutcome {
    /// The message is queued under this number.
    Queued(u64),
    /// The key was posted before, under this number; the message may already be
    /// read.
    Duplicate(u64),
}

/// A message in an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number among the messages of the execution; the first is 1.
    pub number: u64,
    /// The idempotency key.
    pub key: String,
    /// The contents.
    pub body: String,
    /// When it was sent.
    pub at_ms: i64,
}

/// The unread messages of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadMessages {
    /// The lease that holds the execution.
    pub lease: Lease,
    /// The messages in order.
    pub messages: Vec<StoredMessage>,
}
