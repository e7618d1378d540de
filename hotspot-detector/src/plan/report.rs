//! The plan: immutable, stamped with the revision it was made from, and complete: the
//! executor has no choices left.

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::{RegionId, ShardId, ZoneId};
use ballast_domain::tenant::SliceId;

use super::amount::COUNT;
use crate::resources::{Dimension, Resources};

/// The version of the format.
pub const PLAN_VERSION: u32 = 1;

/// Migrations with their reasons, schedule, price and effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The version of this format.
    pub version: u32,
    /// The revision of the registry that it was made from.
    pub revision: u64,
    /// The moment that it was made from.
    pub made_at: Timestamp,
    /// The migrations, in an order in which each fits when it begins.
    pub moves: Vec<PlannedMigration>,
    /// Their totals.
    pub totals: Totals,
    /// The shards that change or are over their limit.
    pub shards: Vec<ShardEffect>,
    /// The shards to add, by kind.
    pub missing: Vec<MissingShards>,
    /// The shards that stay over their limit, each with the reasons.
    pub unhelped: Vec<UnrelievedShard>,
    /// Slices that must leave their shard but cannot, by shard and reason.
    pub waiting: Vec<BlockedSlices>,
}

/// A planned migration of one slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedMigration {
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
    /// Its reason.
    pub cause: MigrationCause,
    /// Whether the target is in another region.
    pub across_regions: bool,
    /// Why it needs approval, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_approval: Option<String>,
    /// Shards that outscore the target by weight. They are stored with the slice, so that
    /// placement does not move it back.
    #[serde(
        rename = "passedOverShardIDs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub passed_over: Vec<ShardId>,
    /// The migrations of this plan (by index, from 0) that must have ended first, because
    /// they make the room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<u32>,
    /// The length of the longest chain of migrations that must have ended first.
    pub wave: u32,
    /// When it begins at the earliest.
    pub begins_at: Timestamp,
    /// When it is copied and cut over.
    pub cutover_at: Timestamp,
    /// When the source's room is freed.
    pub ends_at: Timestamp,
}

/// Why a slice is moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum MigrationCause {
    /// Its shard is over a limit.
    Relief {
        /// The measure that is over the limit.
        measure: Measure,
        /// The share of the capacity used.
        share: f64,
        /// The limit.
        limit: f64,
    },
    /// Its shard is no longer allowed to hold it.
    Leave {
        /// The reason as text.
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
    /// It moves to a temporary shard, because slices wait for each other's room.
    Aside {
        /// Its final target.
        #[serde(rename = "thenShardID")]
        then: ShardId,
    },
    /// The target outscores its shard, because a shard was added or a weight changed.
    Weights,
}

/// The measures that have limits.
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
    /// Concurrent calls.
    Concurrency,
    /// Slices: its density.
    Slices,
}

impl Measure {
    pub(super) fn from_lane(lane: usize) -> Self {
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

const _: () = assert!(COUNT == 5, "one measure per lane");

/// The totals of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Number of migrations.
    pub moves: usize,
    /// Bytes copied.
    pub bytes: u64,
    /// A lower bound of the bytes copied by any plan with the same effect.
    pub bytes_at_least: u64,
    /// The cost according to the price list.
    pub money: f64,
    /// When the last migration ends.
    pub ends_at: Timestamp,
    /// Migrations left for the next plan because of the limits on a plan's size.
    pub put_off: usize,
    /// Shards over a limit, before.
    pub over_before: usize,
    /// Shards over a limit, after.
    pub over_after: usize,
    /// The fullest shard's share of its capacity, before.
    pub fullest_before: f64,
    /// The fullest shard's share of its capacity, after.
    pub fullest_after: f64,
    /// Slices ignored because their shard is not in the fleet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strays: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A shard's load before and after the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardEffect {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its load now.
    pub before: ShardFill,
    /// Its load after the last migration.
    pub after: ShardFill,
    /// Its capacity.
    #[serde(default)]
    pub capacity: Resources,
    /// The limit, as a share of its capacity.
    pub limit: f64,
    /// The goal, as a share of its capacity.
    pub goal: f64,
}

/// A shard's load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardFill {
    /// The load in every dimension.
    pub load: Resources,
    /// Number of slices.
    pub slices: u64,
    /// The fullest measure.
    pub measure: Measure,
    /// The share of the capacity used in that measure.
    pub share: f64,
}

/// Shards to add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingShards {
    /// How many.
    pub shards: usize,
    /// Where.
    pub region: RegionId,
    /// Their zones.
    pub zones: Vec<ZoneId>,
    /// The existing shard whose capacity they should have, if there is one.
    #[serde(
        rename = "likeShardID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub like: Option<ShardId>,
    /// Number of slices they are for.
    pub slices: usize,
    /// The load of those slices.
    pub demand: Resources,
}

/// A shard that stays over its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnrelievedShard {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The measure that stays over its limit.
    pub measure: Measure,
    /// The share of the capacity used after the plan.
    pub share: f64,
    /// The share that may be.
    pub limit: f64,
    /// The reasons, most important first.
    pub why: Vec<NoReliefReason>,
}

/// Why a shard is not relieved, or not enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum NoReliefReason {
    /// It is down: nothing can be copied from it.
    Down,
    /// It is draining, and some slices cannot leave.
    Drains,
    /// A slice is larger than any shard that may hold it: it must be split.
    TooBig {
        /// Which.
        slice: SliceId,
        /// The share of this shard's capacity that it uses.
        share: f64,
    },
    /// Slices could move, but no eligible shard has room.
    NoRoom {
        /// How many.
        slices: usize,
    },
    /// Slices could move, but it would still be over its limit without them.
    NotEnough {
        /// How many.
        slices: usize,
    },
    /// Slices are pinned to it.
    Pinned {
        /// How many.
        slices: usize,
    },
    /// The plan is for other shards only.
    OutOfScope {
        /// How many slices the shard has.
        slices: usize,
    },
    /// Their tenants' dial forbids it.
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
    /// Slices are frozen around a poll's opening or closing.
    Frozen {
        /// How many.
        slices: usize,
        /// When the first of them may be moved.
        until: Timestamp,
    },
    /// Slices are moving already.
    Moving {
        /// How many.
        slices: usize,
    },
    /// Running migrations are moving slices to it.
    Arriving {
        /// How many.
        slices: usize,
    },
    /// Slices of closed tenants wait to be purged.
    Closed {
        /// How many.
        slices: usize,
    },
    /// It is over its limit without any slice.
    OwnLoad {
        /// The share of the capacity used outside of slices.
        share: f64,
    },
    /// The plan is at its maximum size; the next plan continues.
    PutOff,
}

/// Slices that must leave a shard but cannot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedSlices {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The reason as text.
    pub why: String,
    /// Number of slices.
    pub slices: usize,
    /// Example slices.
    pub examples: Vec<SliceId>,
}
