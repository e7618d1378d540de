//! The plan itself: immutable, stamped with what it was made from, and without
//! any choice left to whoever carries it out.

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::{RegionId, ShardId, ZoneId};
use ballast_domain::tenant::SliceId;

use super::amount::COUNT;
use crate::resources::{Dimension, Resources};

/// The version of the format.
pub const PLAN_VERSION: u32 = 1;

/// What to move, why, when, at what price and to what effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The version of this format.
    pub version: u32,
    /// The revision of the registry that it was made from.
    pub revision: u64,
    /// The moment that it was made from.
    pub made_at: Timestamp,
    /// The moves, in an order in which each fits when its turn comes.
    pub moves: Vec<Move>,
    /// What they add up to.
    pub totals: Totals,
    /// The shards that change or that are over their limit; all others stay as
    /// they are.
    pub shards: Vec<ShardLoad>,
    /// The shards that would have to be added, by kind.
    pub missing: Vec<Missing>,
    /// The shards that stay over their limit, each with the reasons.
    pub unhelped: Vec<Unhelped>,
    /// Slices that must leave their shard and cannot, by shard and reason.
    pub waiting: Vec<Waiting>,
}

/// One slice going to another shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// Which slice.
    #[serde(flatten)]
    pub slice: SliceId,
    /// The shard it leaves.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The shard it goes to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// The bytes that are copied.
    pub bytes: u64,
    /// Why.
    pub cause: Cause,
    /// The target stands in another region.
    pub across_regions: bool,
    /// What somebody has to approve first, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_approval: Option<String>,
    /// Shards that outscore the target by weight. They are to be kept with the
    /// slice, so that placement does not call it back.
    #[serde(
        rename = "passedOverShardIDs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub passed_over: Vec<ShardId>,
    /// The moves of this plan (by their place in it, from 0) that must have
    /// ended first, because they make the room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<u32>,
    /// How many moves one after the other must have ended first.
    pub wave: u32,
    /// When it begins at the earliest.
    pub begins_at: Timestamp,
    /// When it has been copied and cut over.
    pub cutover_at: Timestamp,
    /// When the source's room is free.
    pub ends_at: Timestamp,
}

/// Why a slice is moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Cause {
    /// Its shard is over a limit.
    Relief {
        /// What there is too much of.
        measure: Measure,
        /// The share of the capacity that was used.
        share: f64,
        /// The share that may be.
        limit: f64,
    },
    /// Its shard may no longer hold it.
    Leave {
        /// Why not, in words.
        why: String,
    },
    /// An operator pinned it to the target.
    Pin {
        /// Who.
        actor: String,
    },
    /// It makes room for another slice.
    Room {
        /// For which.
        slice: SliceId,
    },
    /// It steps aside for a while, because slices wait for each other's room.
    Aside {
        /// Where it goes afterwards.
        #[serde(rename = "thenShardID")]
        then: ShardId,
    },
    /// The target outscores its shard, as a shard was added or a weight changed.
    Weights,
}

/// What a shard can have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Measure {
    /// Votes per second.
    Votes,
    /// Queries per second.
    Queries,
    /// Bytes per second.
    Bytes,
    /// Bytes stored.
    Storage,
    /// Calls at a time.
    Concurrency,
    /// Slices: its density.
    Slices,
}

impl Measure {
    pub(super) fn of_lane(lane: usize) -> Self {
        match Dimension::ALL.get(lane) {
            Some(Dimension::Votes) => Self::Votes,
            Some(Dimension::Queries) => Self::Queries,
            Some(Dimension::Bytes) => Self::Bytes,
            Some(Dimension::Storage) => Self::Storage,
            Some(Dimension::Concurrency) => Self::Concurrency,
            None => Self::Slices,
        }
    }

    /// Its name in a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Votes => "votes/s",
            Self::Queries => "queries/s",
            Self::Bytes => "bytes/s",
            Self::Storage => "storage",
            Self::Concurrency => "concurrency",
            Self::Slices => "slices",
        }
    }
}

const _: () = assert!(COUNT == 5, "a measure for every lane");

/// What the moves add up to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Moves.
    pub moves: usize,
    /// Bytes that are copied.
    pub bytes: u64,
    /// Bytes that any plan to the same effect would have to copy.
    pub bytes_at_least: u64,
    /// What it costs, by the price list.
    pub money: f64,
    /// When the last move has ended.
    pub ends_at: Timestamp,
    /// Moves that were left for the next plan, because one plan may only have so
    /// many or so many bytes.
    pub put_off: usize,
    /// Shards over a limit, before.
    pub over_before: usize,
    /// Shards over a limit, after.
    pub over_after: usize,
    /// The fullest shard's share of its capacity, before.
    pub fullest_before: f64,
    /// The fullest shard's share of its capacity, after.
    pub fullest_after: f64,
    /// Slices on shards that are not in the fleet: they were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strays: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A shard before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardLoad {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// What is used of it now.
    pub before: Filling,
    /// What will be, after the last move.
    pub after: Filling,
    /// The share of its capacity that may be used.
    pub limit: f64,
    /// The share to which it is relieved or filled.
    pub goal: f64,
}

/// What is used of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filling {
    /// In every dimension.
    pub load: Resources,
    /// How many slices.
    pub slices: u64,
    /// What it is fullest of.
    pub measure: Measure,
    /// The share of the capacity used of that.
    pub share: f64,
}

/// Shards that would have to be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// How many.
    pub shards: usize,
    /// Where.
    pub region: RegionId,
    /// With which tags.
    pub zones: Vec<ZoneId>,
    /// Of the capacity of this one, if there is one to go by.
    #[serde(
        rename = "likeShardID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub like: Option<ShardId>,
    /// How many slices they are for.
    pub slices: usize,
    /// What those use.
    pub demand: Resources,
}

/// A shard that stays over its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unhelped {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// What there is still too much of.
    pub measure: Measure,
    /// The share of the capacity that will be used.
    pub share: f64,
    /// The share that may be.
    pub limit: f64,
    /// Why, the weightiest reason first.
    pub why: Vec<WhyNot>,
}

/// Why a shard is not helped, or not enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum WhyNot {
    /// It is down: nothing can be copied from it.
    Down,
    /// It is drained, and what must leave it cannot: see there.
    Drains,
    /// A slice is larger than any shard that may hold it: it must be split.
    TooBig {
        /// Which.
        slice: SliceId,
        /// The share of this shard's capacity that it uses.
        share: f64,
    },
    /// Slices would go, and no shard that may hold them has the room.
    NoRoom {
        /// How many.
        slices: usize,
    },
    /// Slices could go, and it would still be over its limit without them.
    NotEnough {
        /// How many.
        slices: usize,
    },
    /// Slices are pinned to it.
    Pinned {
        /// How many.
        slices: usize,
    },
    /// Their tenants' dial says no.
    Dialled {
        /// How many.
        slices: usize,
    },
    /// Slices were placed or moved a short time ago.
    Settling {
        /// How many.
        slices: usize,
        /// When the first of them may be moved.
        until: Timestamp,
    },
    /// Slices have a poll that opens, runs or closes.
    Frozen {
        /// How many.
        slices: usize,
        /// When the first of them may be moved.
        until: Timestamp,
    },
    /// Slices are on their way already.
    Moving {
        /// How many.
        slices: usize,
    },
    /// Moves of before are bringing slices to it.
    Arriving {
        /// How many.
        slices: usize,
    },
    /// Slices of closed tenants wait to be purged.
    Closed {
        /// How many.
        slices: usize,
    },
    /// It is over its limit without any slice that could be moved.
    OwnLoad {
        /// The share of the capacity that is used for no slice in particular.
        share: f64,
    },
    /// The plan may have no more moves or bytes; the next one goes on.
    PutOff,
}

/// Slices that must leave a shard and cannot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// What keeps them, in words.
    pub why: String,
    /// How many they are.
    pub slices: usize,
    /// Some of them.
    pub examples: Vec<SliceId>,
}
