//! The words of the store. Times are milliseconds since the Unix epoch.

use super::Row;

/// How an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Open, paused or not.
    Running,
    /// Ended with an output.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended because its time was over.
    TimedOut,
    /// Ended because somebody cancelled it.
    Aborted,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Aborted,
    ];

    /// Whether it is none of the ends.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::Running
    }
}

/// A definition to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The name it is deployed under.
    pub name: String,
    /// What names this very text, a cryptographic hash of it for instance.
    pub hash: String,
    /// The definition itself.
    pub text: String,
    /// When it is deployed.
    pub at_ms: i64,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    /// The name.
    pub name: String,
    /// The hash of the definition.
    pub hash: String,
    /// Since when.
    pub at_ms: i64,
}

/// An event that happened to an execution, with what it added to the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it happened.
    pub at_ms: i64,
    /// The event.
    pub event: String,
    /// What people read of it, in order. Their ids go on from those of the
    /// entry before.
    pub history: Vec<String>,
}

/// An entry as it is read back: the history is for people, and is asked for
/// by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its place in the journal; the first is 1.
    pub seq: u64,
    /// When it happened.
    pub at_ms: i64,
    /// The event.
    pub event: String,
}

/// An execution's state after some entry, so that not all before it must be
/// read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last entry that is in it.
    pub seq: u64,
    /// The state.
    pub text: String,
}

/// How an execution stands after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Open, or how it ended.
    pub status: Status,
    /// Whether it was asked to stand still.
    pub paused: bool,
    /// Where it is, for lists.
    pub position: String,
    /// What came of it, once it has ended: output or error.
    pub outcome: Option<String>,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
}

impl Standing {
    /// Open, at this position.
    #[must_use]
    pub fn running(position: impl Into<String>) -> Self {
        Self {
            status: Status::Running,
            paused: false,
            position: position.into(),
            outcome: None,
            ended_at_ms: None,
        }
    }

    /// Ended at a time, with what came of it.
    #[must_use]
    pub fn ended(
        status: Status,
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

/// An execution to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct New {
    /// Its id: the same one is the same execution.
    pub id: String,
    /// The workflow's name.
    pub workflow: String,
    /// The hash of the definition that it runs to its end.
    pub definition: String,
    /// Its input. Compared as text when the same id comes again.
    pub input: String,
    /// When it is created.
    pub at_ms: i64,
    /// The first entries; the first seq is 1, the first history event's id is 1.
    pub entries: Vec<Entry>,
    /// How it stands after them.
    pub standing: Standing,
    /// Its state after them, if that is worth keeping.
    pub snapshot: Option<String>,
    /// Who holds it. An execution that has ended is held by nobody.
    pub start: Start,
}

/// Who holds a new execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A worker.
    Held {
        /// Its name.
        worker: String,
        /// When the lease runs out.
        until_ms: i64,
    },
    /// Nobody: it is due at this time, or when a message comes.
    Parked {
        /// The time.
        wake_at_ms: Option<i64>,
    },
}

/// What came of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It is new, and this is the lease, if it has one.
    New(Option<Lease>),
    /// It was there before, and stands so.
    Before(Box<Row>),
}

/// The right to append to an execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The execution.
    pub id: String,
    /// Greater than that of every lease of this execution before.
    pub fence: u64,
}

/// Who claims executions, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The worker's name.
    pub worker: String,
    /// The time.
    pub now_ms: i64,
    /// When the leases run out.
    pub until_ms: i64,
}

/// An execution that a worker now holds, and all it needs to go on with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The lease.
    pub lease: Lease,
    /// How it stands.
    pub row: Row,
    /// The last snapshot.
    pub snapshot: Option<Snapshot>,
    /// The entries after it.
    pub entries: Vec<Recorded>,
    /// The messages that wait, in order.
    pub messages: Vec<Message>,
}

/// What happens to an execution at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The right to do it.
    pub lease: Lease,
    /// The seq of the first entry: the next one of the journal.
    pub seq: u64,
    /// The id of the first history event: the next one of the history.
    pub first_history_id: u64,
    /// What is appended. It may be nothing, to park or to take messages.
    pub entries: Vec<Entry>,
    /// How the execution stands then.
    pub standing: Standing,
    /// The messages through this number have been read and do not come again;
    /// 0 or the number of the last time takes none.
    pub taken: u64,
    /// The state after the entries, in place of the last snapshot. Worth it
    /// when the entries since are longer than it.
    pub snapshot: Option<String>,
    /// What becomes of the lease. An execution that has ended has none.
    pub then: Then,
}

/// What becomes of a lease after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The worker goes on.
    Keep,
    /// It is given up until a time, or a message, comes. A message that waits
    /// already and was not taken is such a one.
    Park {
        /// The time.
        wake_at_ms: Option<i64>,
    },
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// How many messages wait that were not taken.
    pub waiting: u64,
}

/// A message for an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Names it, so that sending it twice is sending it once.
    pub key: String,
    /// What it says.
    pub body: String,
    /// When it is sent.
    pub at_ms: i64,
}

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It waits, under this number.
    New(u64),
    /// It came before, under this number, and may have been read.
    Before(u64),
}

/// A message that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its place among the messages of the execution; the first is 1.
    pub number: u64,
    /// What names it.
    pub key: String,
    /// What it says.
    pub body: String,
    /// When it was sent.
    pub at_ms: i64,
}

/// What waits for one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The execution, and the lease that it is held by.
    pub lease: Lease,
    /// The messages in order.
    pub messages: Vec<Message>,
}
