//! Polls, votes, and the rules by which a vote is counted.
//!
//! ```text
//!   created ──► (scheduled) ──► open ──► closed
//!                opening time    │        ▲ recorded by the owning shard, after the
//!                                └────────┘ expiration time or on request
//! ```
//! The rules ([`judge`]) are one pure function. Every engine calls it with the voter's
//! row, in the same atomic step as the write.

mod ids;
pub mod judge;
pub mod lanes;
mod spec;
mod vote;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

pub use ids::{BadPollId, ItemId, PollId, VoterId};
pub use spec::{ItemSpec, PollOptions, PollSpec};
pub use vote::{Ballot, BallotOutcome, BallotRefusal, RequestId, VoteChoice};

/// A poll, as its shard stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Poll {
    /// Its id, which the router makes before the first attempt to create it.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// The request that created it: a repeated request finds this poll instead of creating
    /// another.
    #[serde(rename = "requestID")]
    pub request: RequestId,
    /// Its specification.
    #[serde(flatten)]
    pub spec: PollSpec,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it closed. Later votes are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
}

/// The phase of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Phase)]
pub enum PollPhase {
    /// Its opening time is in the future.
    Scheduled,
    /// It takes votes.
    Open,
    /// Its expiration time has passed, or it was closed.
    Closed,
}

impl Poll {
    /// Its phase for a vote that arrives at `at`.
    pub fn phase(&self, at: Timestamp) -> PollPhase {
        if self.closed_at.is_some() || at >= self.spec.expiration_time {
            PollPhase::Closed
        } else if self.spec.opening_time.is_some_and(|opens| at < opens) {
            PollPhase::Scheduled
        } else {
            PollPhase::Open
        }
    }

    /// The id of the item at a position.
    pub fn item_id(&self, place: u16) -> ItemId {
        ItemId::from_position(self.poll_id, place)
    }

    /// The ids of the items, in order.
    pub fn item_ids(&self) -> impl Iterator<Item = ItemId> {
        let items = u16::try_from(self.spec.items.len()).unwrap_or(u16::MAX);
        (0..items).map(|place| self.item_id(place))
    }
}
