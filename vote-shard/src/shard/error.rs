//! Why a shard operation failed.

use ballast_domain::poll::BallotRefusal;
use ballast_domain::tenant::Epoch;
use ballast_domain::{Error, ErrorCode};

use super::fence::SliceStateError;

/// Why a shard operation failed.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The write's epoch differs from the epoch at which the shard owns the
    /// slice, or the shard does not own it.
    #[error(transparent)]
    Fenced(#[from] FenceError),
    /// The poll's rules refuse the request.
    #[error("the poll refuses the request")]
    Refused(BallotRefusal),
    /// The slice's state does not allow the operation.
    #[error(transparent)]
    SliceState(#[from] SliceStateError),
    /// The log no longer holds the changes after the cursor: start over.
    #[error("the changes after this cursor are no longer available")]
    CursorTooOld,
    /// Stored data is damaged. A retry does not help.
    #[error("{what}")]
    Damaged {
        /// What is damaged, and where.
        what: String,
    },
    /// The shard is starting, recovering from a failed write, or full. Retry.
    #[error("{why}")]
    Unavailable {
        /// The reason, as text.
        why: String,
    },
}

/// The fence refused a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FenceError {
    /// The shard does not own the slice, or does not know yet that it does.
    #[error("the shard does not own the slice")]
    NotOwner {
        /// The epoch that this shard knows, if it ever held the slice.
        epoch: Option<Epoch>,
    },
    /// A migration or recut has sealed the slice: wait and read the route
    /// again.
    #[error("the slice is sealed at epoch {}", epoch.0)]
    Sealed {
        /// The epoch.
        epoch: Epoch,
    },
    /// The sender knows a newer epoch than the shard: wait.
    #[error("the shard is at epoch {}, behind the request", epoch.0)]
    Behind {
        /// The shard's epoch.
        epoch: Epoch,
    },
}

impl ShardError {
    /// Whether the poll is archived, so that the shard cannot answer.
    pub fn is_archived(&self) -> bool {
        matches!(self, Self::Refused(BallotRefusal::Archived))
    }

    /// An [`ShardError::Unavailable`] for this reason.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }
}

impl From<BallotRefusal> for ShardError {
    fn from(refusal: BallotRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The client's error. A client sees a fence error only after the router has
/// waited for a better route until its deadline: a retry helps.
impl From<ShardError> for Error {
    fn from(error: ShardError) -> Self {
        match error {
            ShardError::Refused(refusal) => refusal.into(),
            other => Error::new(
                ErrorCode::Unavailable,
                "the tenant's data cannot be reached right now",
            )
            .retry_after(1)
            .with_source(other),
        }
    }
}
