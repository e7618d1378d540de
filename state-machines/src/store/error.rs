//! Why a store refuses or fails.

use super::Status;

/// The store failed: not the caller's fault, and it does not say whether the
/// thing happened.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct StoreError {
    doing: &'static str,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl StoreError {
    /// What was being done, in the present tense, and what came of it.
    pub fn new(
        doing: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            doing,
            source: source.into(),
        }
    }
}

/// What a question to the store gives.
pub type StoreResult<T> = Result<T, StoreError>;

/// Something that cannot be kept, whatever the store holds: too large, or at
/// odds with itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub(crate) String);

/// Why a definition is not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The hash belongs to another text.
    #[error("the hash {hash} is that of another definition; a hash must name one text")]
    Conflict {
        /// The hash.
        hash: String,
    },
    /// It cannot be kept.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an execution is not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The id belongs to an execution of something else.
    #[error("an execution {id} is there already, with another {differs}; start under another name")]
    Conflict {
        /// The id.
        id: String,
        /// What differs: workflow or input.
        differs: &'static str,
    },
    /// Its definition is not kept here.
    #[error("no definition has the hash {hash}; keep the definition first")]
    NoDefinition {
        /// The hash.
        hash: String,
    },
    /// It cannot be kept.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an execution is not leased.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no such execution.
    #[error("there is no execution {id}")]
    NotFound {
        /// The id.
        id: String,
    },
    /// It has ended.
    #[error("the execution {id} has ended")]
    Ended {
        /// The id.
        id: String,
        /// How.
        status: Status,
    },
    /// Somebody holds it.
    #[error("the execution {id} is held by {worker}; send it a message, or wait")]
    Held {
        /// The id.
        id: String,
        /// By whom.
        worker: String,
        /// When the lease runs out, unless it is renewed.
        until_ms: i64,
    },
    /// It cannot be claimed so.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a step is not appended. Nothing of it has happened.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The lease does not hold: the execution was claimed by another, or was
    /// parked, ended or forgotten.
    #[error("the lease {fence} of the execution {id} no longer holds; leave it to others")]
    Fenced {
        /// The id.
        id: String,
        /// The fence that was named.
        fence: u64,
    },
    /// The step does not follow the last one.
    #[error("the execution {id} is at entry {found}, not {expected}; read it anew")]
    Stale {
        /// The id.
        id: String,
        /// The seq that the step begins with.
        expected: u64,
        /// The seq that the next entry must have.
        found: u64,
    },
    /// It cannot be kept.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a message is not taken.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// There is no such execution.
    #[error("there is no execution {id}")]
    NotFound {
        /// The id.
        id: String,
    },
    /// It has ended and reads no more messages.
    #[error("the execution {id} has ended")]
    Ended {
        /// The id.
        id: String,
        /// How.
        status: Status,
    },
    /// The key belongs to a message with another body.
    #[error("another message with the key {key} was sent to the execution {id}")]
    Conflict {
        /// The id.
        id: String,
        /// The key.
        key: String,
    },
    /// Too many messages wait.
    #[error("{waiting} messages wait for the execution {id}; send more when it has read them")]
    Full {
        /// The id.
        id: String,
        /// How many wait.
        waiting: u64,
    },
    /// It cannot be kept.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
