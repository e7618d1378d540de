//! What is planned for: shards with what they have, slices with what they use,
//! all at one revision.

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::{RegionId, ShardId, ZoneId};
use ballast_domain::placement::{Subject, slice_hash};
use ballast_domain::residency::Residency;
use ballast_domain::shard;
use ballast_domain::tenant::{Pin, SliceId};

pub use ballast_domain::tenant::Dial;

use crate::resources::Resources;

/// The whole fleet at one revision of the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// The revision that shards and slices were read at.
    pub revision: u64,
    /// When that was.
    pub at: Timestamp,
    /// The shards, in any order.
    pub shards: Vec<Shard>,
    /// The slices, in any order.
    pub slices: Vec<Slice>,
}

/// A shard and what it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shard {
    /// As the registry has it: region, zones, weight, state, density.
    #[serde(flatten)]
    pub record: shard::Shard,
    /// What it has in every dimension; a dimension of 0 has no limit.
    pub capacity: Resources,
    /// What it uses for no slice in particular.
    #[serde(default)]
    pub overhead: Resources,
    /// The share of its capacity above which it is in trouble.
    pub limit: f64,
    /// The share of its capacity to which it is relieved, and up to which it
    /// is given more. Below the limit, so that a shard that was just relieved
    /// or filled is not in trouble again at the next breath.
    pub goal: f64,
    /// Moves that may come in at a time; without it, the pace of all applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_in_max: Option<u32>,
    /// Moves that may go out at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_out_max: Option<u32>,
}

/// The limit when nothing else is said: the user's own 80 %.
pub const LIMIT_DEFAULT: f64 = 0.80;
/// The goal when nothing else is said.
pub const GOAL_DEFAULT: f64 = 0.70;

impl Shard {
    /// A shard with this capacity and the usual limits.
    #[must_use]
    pub fn new(record: shard::Shard, capacity: Resources) -> Self {
        Self {
            record,
            capacity,
            overhead: Resources::default(),
            limit: LIMIT_DEFAULT,
            goal: GOAL_DEFAULT,
            moves_in_max: None,
            moves_out_max: None,
        }
    }

    /// Which shard.
    #[must_use]
    pub fn id(&self) -> &ShardId {
        &self.record.shard_id
    }
}

/// A slice and what it uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// Which slice.
    #[serde(flatten)]
    pub id: SliceId,
    /// The shard it is on.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// What it uses there.
    pub demand: Resources,
    /// The bytes that a move of it copies.
    pub bytes: u64,
    /// Its tenant's home.
    pub home_region: RegionId,
    /// Where else it may be.
    pub residency: Residency,
    /// The tags it requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneId>,
    /// Where an operator wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Box<Pin>>,
    /// What may be done to it without asking.
    #[serde(default)]
    pub dial: Dial,
    /// When it was placed where it is, or last moved.
    pub placed_at: Timestamp,
    /// Shards that it passed over when it was placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<ShardId>,
    /// The shard that a move is taking it to. Until that has ended it counts
    /// on both.
    #[serde(
        rename = "movingToShardID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub moving_to: Option<ShardId>,
    /// Its tenant is closed: it waits where it is to be purged.
    #[serde(default)]
    pub closed: bool,
}

impl Slice {
    /// The slice as placement sees it.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject {
            tenant_id: self.id.tenant_id.clone(),
            slice: self.id.slice,
            hash: self.hash(),
            home_region: self.home_region.clone(),
            residency: self.residency.clone(),
            zones: self.zones.clone(),
            pin: self.pin.as_deref().cloned(),
            current: Some(self.shard_id.clone()),
            passed_over: self.passed_over.clone(),
            closed: self.closed,
        }
    }

    pub(super) fn hash(&self) -> u64 {
        slice_hash(&self.id.tenant_id, self.id.slice)
    }
}
