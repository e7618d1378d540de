//! A poll, the votes cast in it, and the rules by which one is counted.
//!
//! ```text
//!   created ──► (scheduled) ──► open ──► closed
//!                opening time    │        ▲ by its owner's record, after the
//!                                └────────┘ expiration time or when asked to
//! ```
//! The rules ([`judge`]) are one pure function that every engine calls with
//! the voter's row in hand, in the same atomic step as the write.

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

/// A poll, as its shard keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Poll {
    /// Its id, made by the router before the first attempt to create it.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// The request that created it: a repetition finds it instead of making
    /// another.
    #[serde(rename = "requestID")]
    pub request: RequestId,
    /// What was asked for.
    #[serde(flatten)]
    pub spec: PollSpec,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it closed. Nothing is accepted after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
}

/// Whether a poll takes votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Phase)]
pub enum PollPhase {
    /// Its opening time is to come.
    Scheduled,
    /// It takes votes.
    Open,
    /// Its expiration time has passed, or it was closed.
    Closed,
}

impl Poll {
    /// Whether it takes a vote that arrives at `at`.
    pub fn phase(&self, at: Timestamp) -> PollPhase {
        if self.closed_at.is_some() || at >= self.spec.expiration_time {
            PollPhase::Closed
        } else if self.spec.opening_time.is_some_and(|opens| at < opens) {
            PollPhase::Scheduled
        } else {
            PollPhase::Open
        }
    }

    /// The id of the item at a place.
    pub fn item_id(&self, place: u16) -> ItemId {
        ItemId::from_position(self.poll_id, place)
    }

    /// The items' ids, in their order.
    pub fn item_ids(&self) -> impl Iterator<Item = ItemId> {
        let items = u16::try_from(self.spec.items.len()).unwrap_or(u16::MAX);
        (0..items).map(|place| self.item_id(place))
    }
}
