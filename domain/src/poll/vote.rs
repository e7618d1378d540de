//! A vote on its way to a shard, and what becomes of it.

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
    /// Who votes.
    pub voter: VoterId,
    /// Whether the item is chosen or given up.
    pub choice: VoteChoice,
    /// The same for every attempt to deliver this ballot.
    pub request: RequestId,
    /// When it arrived at the router: by this its poll's times are judged.
    pub arrived_at: Timestamp,
    /// Count it only if the voter's row has this revision (0: no row).
    pub if_revision: Option<u32>,
}

/// Whether an item is chosen or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteChoice {
    /// It is chosen.
    For,
    /// It is given up again.
    Withdraw,
}

/// Names a write through all its attempts.
///
/// 64 bits are enough: an id is compared only with the last few of one voter's
/// row, and whoever sends the ids votes for that voter anyhow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

impl RequestId {
    /// The id of a request that names itself (`Idempotency-Key`).
    pub fn from_name(text: &str) -> Self {
        let hash = Sha256::digest(text.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        Self(u64::from_le_bytes(first))
    }
}

/// What became of a ballot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BallotOutcome {
    /// It is counted, and the voter's row has this revision now.
    Counted {
        /// The row's revision.
        revision: u32,
    },
    /// It was counted before.
    Already {
        /// The row's revision.
        revision: u32,
    },
    /// It is not counted, and nothing has changed.
    Refused(BallotRefusal),
}

/// Why a ballot is not counted.
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
    /// The voter has chosen other items, and these stay.
    AlreadyVoted {
        /// The items.
        items: Vec<ItemId>,
    },
    /// Votes in this poll cannot be withdrawn.
    NotChangeable,
    /// There is nothing to withdraw.
    NotChosen,
    /// The voter's row has another revision than the ballot demands.
    Changed {
        /// The row's revision; 0 when there is none.
        revision: u32,
    },
    /// The shard cannot remember more voters.
    ShardFull,
    /// Votes were brought into the poll as sums too often.
    ImportsUsedUp,
    /// The tenant has as many polls as it can have.
    TooManyPolls,
    /// The voter's row is in an archive, and the shard cannot tell. Nobody is
    /// told so unless the archive cannot be read.
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
            Self::Closed => {
                "the poll has expired or was closed; it takes no votes any more".to_owned()
            }
            Self::AlreadyVoted { items } => {
                let items: Vec<_> = items.iter().map(ItemId::to_string).collect();
                format!("the voter has already voted, for {}", items.join(", "))
            }
            Self::NotChangeable => {
                "votes in this poll can be neither changed nor withdrawn".to_owned()
            }
            Self::NotChosen => "the voter has not voted for this item".to_owned(),
            Self::Changed { revision } => {
                format!("the voter's vote is at revision {revision}, not at the one demanded")
            }
            Self::Archived => "the archive of the poll's votes cannot be read".to_owned(),
            Self::ShardFull => "the shard cannot remember more voters in open polls".to_owned(),
            Self::TooManyPolls => {
                format!("the tenant has {POLLS_PER_SLICE_MAX} polls, which is all it can have")
            }
            Self::ImportsUsedUp => {
                format!(
                    "sums were imported into the poll {IMPORTS_PER_POLL_MAX} times, which is all"
                )
            }
        }
    }
}
