//! A ballot, which is a vote on its way to a shard, and its outcome.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bounds::{IMPORTS_PER_POLL_MAX, POLLS_PER_SLICE_MAX};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorCode};
use crate::poll::{ItemId, PollId, VoterId};

/// One request to change one voter's vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ballot {
    /// The poll.
    pub poll: PollId,
    /// The item.
    pub item: ItemId,
    /// The voter.
    pub voter: VoterId,
    /// Whether to choose or withdraw the item.
    pub choice: VoteChoice,
    /// The request id: the same in every attempt.
    pub request: RequestId,
    /// When it arrived at the router. The poll's opening and closing times are compared
    /// with this.
    pub arrived_at: Timestamp,
    /// Count it only if the voter's row has this revision (0: no row).
    pub if_revision: Option<u32>,
}

/// Whether an item is chosen or withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteChoice {
    /// Choose it.
    For,
    /// Withdraw the choice.
    Withdraw,
}

/// Identifies a write in all its attempts.
///
/// 64 bits are enough: an id is compared only with the last few ids in one voter's row,
/// and a client that sends colliding ids affects only voters that it votes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

impl RequestId {
    /// The id of a request with this `Idempotency-Key`.
    pub fn from_name(text: &str) -> Self {
        let hash = Sha256::digest(text.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        Self(u64::from_le_bytes(first))
    }
}

/// The outcome of a ballot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BallotOutcome {
    /// It was counted; the voter's row now has this revision.
    Counted {
        /// The row's revision.
        revision: u32,
    },
    /// It had been counted before.
    Already {
        /// The row's revision.
        revision: u32,
    },
    /// It was refused, and nothing has changed.
    Refused(BallotRefusal),
}

/// Why a ballot was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BallotRefusal {
    /// There is no such poll.
    PollNotFound,
    /// The poll has no such item.
    ItemNotFound,
    /// The poll opens later.
    NotOpen {
        /// When.
        opens: Timestamp,
    },
    /// The poll has expired or was closed.
    Closed,
    /// The voter has chosen other items, and the poll does not allow changing that.
    AlreadyVoted {
        /// The items.
        items: Vec<ItemId>,
    },
    /// Votes in this poll cannot be withdrawn.
    NotChangeable,
    /// There is nothing to withdraw.
    NotChosen,
    /// The voter's row does not have the revision that the ballot requires.
    Changed {
        /// The row's revision; 0 when there is none.
        revision: u32,
    },
    /// The shard cannot remember more voters.
    ShardFull,
    /// The poll has reached the limit on imports of totals.
    ImportsUsedUp,
    /// The tenant has reached the limit on polls.
    TooManyPolls,
    /// The voter's row is archived, so the shard cannot judge the ballot. The router then
    /// reads the archive; clients see this refusal only if that fails.
    Archived,
}

impl From<BallotRefusal> for Error {
    fn from(refusal: BallotRefusal) -> Self {
        let error = Self::new(refusal.code(), refusal.detail());
        match refusal {
            BallotRefusal::ShardFull => error.retry_after(30),
            BallotRefusal::Archived => error.retry_after(1),
            _ => error,
        }
    }
}

impl BallotRefusal {
    /// The stable code of this refusal.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::PollNotFound => ErrorCode::PollNotFound,
            Self::ItemNotFound => ErrorCode::ItemNotFound,
            Self::NotOpen { .. } => ErrorCode::PollNotOpen,
            Self::Closed => ErrorCode::PollClosed,
            Self::AlreadyVoted { .. } => ErrorCode::AlreadyVoted,
            Self::NotChangeable => ErrorCode::VoteNotChangeable,
            Self::NotChosen => ErrorCode::VoteNotFound,
            Self::Changed { .. } => ErrorCode::Changed,
            Self::ShardFull => ErrorCode::ShardFull,
            Self::ImportsUsedUp | Self::TooManyPolls => ErrorCode::TooMany,
            Self::Archived => ErrorCode::ArchiveUnavailable,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::PollNotFound => "there is no such poll".to_owned(),
            Self::ItemNotFound => "the poll has no such item".to_owned(),
            Self::NotOpen { opens } => format!("the poll opens at {opens}"),
            Self::Closed => "the poll has expired or was closed; it takes no more votes".to_owned(),
            Self::AlreadyVoted { items } => {
                let items: Vec<_> = items.iter().map(ItemId::to_string).collect();
                format!("the voter has already voted, for {}", items.join(", "))
            }
            Self::NotChangeable => {
                "votes in this poll can be neither changed nor withdrawn".to_owned()
            }
            Self::NotChosen => "the voter has not voted for this item".to_owned(),
            Self::Changed { revision } => {
                format!("the voter's vote is at revision {revision}, not at the required one")
            }
            Self::Archived => "the archive of the poll's votes cannot be read".to_owned(),
            Self::ShardFull => "the shard cannot remember more voters in open polls".to_owned(),
            Self::TooManyPolls => {
                format!("the tenant has {POLLS_PER_SLICE_MAX} polls, which is the limit")
            }
            Self::ImportsUsedUp => {
                format!(
                    "totals were imported into the poll {IMPORTS_PER_POLL_MAX} times, which is the limit"
                )
            }
        }
    }
}
