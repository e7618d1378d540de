//! Errors of stores.

use super::StoredStatus;

/// The store failed. Whether the write happened is unknown.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct ExecutionStoreError {
    doing: &'static str,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl ExecutionStoreError {
    /// An error with the operation in the present tense, and its cause.
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

/// The result of a read.
pub type ExecutionStoreResult<T> = Result<T, ExecutionStoreError>;

/// Input that no store accepts: too large, or inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRecord(pub(crate) String);

/// Why a definition was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveDefinitionError {
    /// The hash belongs to another text.
    #[error("the hash {hash} belongs to another definition; a hash must identify one text")]
    Conflict {
        /// The hash.
        hash: String,
    },
    /// Invalid input.
    #[error(transparent)]
    InvalidRecord(#[from] InvalidRecord),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ExecutionStoreError),
}

/// Why an execution was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The id belongs to a different execution.
    #[error("an execution {id} already exists with another {differs}; start under another name")]
    Conflict {
        /// The id.
        id: String,
        /// The difference: workflow or input.
        differs: &'static str,
    },
    /// The store does not have the definition.
    #[error("no definition has the hash {hash}; save the definition first")]
    NoDefinition {
        /// The hash.
        hash: String,
    },
    /// Invalid input.
    #[error(transparent)]
    InvalidRecord(#[from] InvalidRecord),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ExecutionStoreError),
}

/// Why an execution was not leased.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionClaimError {
    /// It does not exist.
    #[error("no such execution: {id}")]
    NotFound {
        /// The id.
        id: String,
    },
    /// It has ended.
    #[error("the execution {id} has ended")]
    Ended {
        /// The id.
        id: String,
        /// The final status.
        status: StoredStatus,
    },
    /// Another worker holds it.
    #[error("the execution {id} is held by {worker}; send it a message, or wait")]
    Held {
        /// The id.
        id: String,
        /// The worker.
        worker: String,
        /// When the lease expires unless renewed.
        until_ms: i64,
    },
    /// Invalid input.
    #[error(transparent)]
    InvalidRecord(#[from] InvalidRecord),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ExecutionStoreError),
}

/// Why a step was not appended. Except for `Store`, nothing of it has happened.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The lease is lost: another worker claimed the execution, or it was parked,
    /// ended or deleted.
    #[error("lease {fence} of the execution {id} is lost; stop working on it")]
    Fenced {
        /// The id.
        id: String,
        /// The lease's fence.
        fence: u64,
    },
    /// The step does not follow the journal's last entry.
    #[error("the execution {id} is at entry {found}, not {expected}; load it again")]
    Stale {
        /// The id.
        id: String,
        /// The step's first seq.
        expected: u64,
        /// The journal's next seq.
        found: u64,
    },
    /// Invalid input.
    #[error(transparent)]
    InvalidRecord(#[from] InvalidRecord),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ExecutionStoreError),
}

/// Why a message was not queued.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The execution does not exist.
    #[error("no such execution: {id}")]
    NotFound {
        /// The id.
        id: String,
    },
    /// The execution has ended and reads no more messages.
    #[error("the execution {id} has ended")]
    Ended {
        /// The id.
        id: String,
        /// The final status.
        status: StoredStatus,
    },
    /// The key belongs to a message with another body.
    #[error("the execution {id} has another message with the key {key}")]
    Conflict {
        /// The id.
        id: String,
        /// The key.
        key: String,
    },
    /// The inbox is full.
    #[error(
        "the inbox of the execution {id} is full with {waiting} unread messages; send again later"
    )]
    Full {
        /// The id.
        id: String,
        /// The number of unread messages.
        waiting: u64,
    },
    /// Invalid input.
    #[error(transparent)]
    InvalidRecord(#[from] InvalidRecord),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ExecutionStoreError),
}
