//! Why a shard does not do what it was asked.

use ballast_domain::poll::Refusal;
use ballast_domain::tenant::Epoch;
use ballast_domain::{Error, ErrorCode};

use super::fence::Unfit;

/// Why a shard does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The write carries another epoch than the shard owns the slice at, or
    /// the shard does not own it.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The request contradicts the poll.
    #[error("the request is refused")]
    Refused(Refusal),
    /// The slice is not in a state that allows it.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The changes after the cursor are no longer kept: begin again.
    #[error("the changes after that position are no longer kept")]
    CursorTooOld,
    /// What is stored is not what was written. It does not pass by itself.
    #[error("{what}")]
    Damaged {
        /// What is, and where.
        what: String,
    },
    /// Not now: starting, recovering from a failed write, out of room.
    #[error("{why}")]
    Unavailable {
        /// Why, for people.
        why: String,
    },
}

/// The fence refused a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fenced {
    /// Another shard owns the slice, or nobody told this one yet.
    #[error("the shard does not own the slice")]
    Moved {
        /// The epoch this shard knows, if it ever held the slice.
        epoch: Option<Epoch>,
    },
    /// The slice is about to move: wait and ask the registry again.
    #[error("the slice is sealed at epoch {}", epoch.0)]
    Sealed {
        /// At which epoch.
        epoch: Epoch,
    },
    /// The sender knows a newer epoch than the shard does: wait.
    #[error("the shard is at epoch {}, behind the sender", epoch.0)]
    Behind {
        /// The shard's epoch.
        epoch: Epoch,
    },
}

impl ShardError {
    /// Whether a poll's rows are in a file, so that the shard cannot tell.
    pub fn is_archived(&self) -> bool {
        matches!(self, Self::Refused(Refusal::Archived))
    }

    /// Not now, because of this.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }
}

impl From<Refusal> for ShardError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What a client is told. A fence's refusal reaches a client only after the
/// router has waited in vain for a better route: try again, it passes.
impl From<ShardError> for Error {
    fn from(error: ShardError) -> Self {
        match error {
            ShardError::Refused(refusal) => refusal.into(),
            other => Error::new(
                ErrorCode::Unavailable,
                "the tenant's data cannot be reached right now",
            )
            .retry_after(1)
            .because(other),
        }
    }
}
