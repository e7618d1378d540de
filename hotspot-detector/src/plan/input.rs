//! The planner's input: shards with capacities and slices with loads, at one revision.

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::{RegionId, ShardId, ZoneId};
use ballast_domain::placement::{PlacementSubject, slice_hash};
use ballast_domain::residency::Residency;
use ballast_domain::shard;
use ballast_domain::tenant::{Pin, SliceId};

pub use ballast_domain::tenant::Dial;

use crate::resources::Resources;

/// The whole fleet at one revision of the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetSnapshot {
    /// The revision that shards and slices were read at.
    pub revision: u64,
    /// When that was.
    pub at: Timestamp,
    /// The shards, in any order.
    pub shards: Vec<PlanShard>,
    /// The slices, in any order.
    pub slices: Vec<PlanSlice>,
}

/// A shard and its capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanShard {
    /// Its registry record: region, zones, weight, state, density.
    #[serde(flatten)]
    pub record: shard::Shard,
    /// Its capacity; a dimension of 0 has no limit.
    pub capacity: Resources,
    /// Load that belongs to no slice.
    #[serde(default)]
    pub overhead: Resources,
    /// The share of its capacity above which it is overloaded.
    pub limit: f64,
    /// The share of its capacity to which it is relieved and up to which it is filled. Below
    /// the limit, so that a shard that was just relieved or filled is not overloaded again
    /// immediately.
    pub goal: f64,
    /// Concurrent migrations into it; the general pace applies if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_in_max: Option<u32>,
    /// Concurrent migrations out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_out_max: Option<u32>,
}

/// The default limit: 80 %, as the requirements ask.
pub const LIMIT_DEFAULT: f64 = 0.80;
/// The default goal.
pub const GOAL_DEFAULT: f64 = 0.70;

impl PlanShard {
    /// A shard with this capacity and the default limits.
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

/// A slice and its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanSlice {
    /// Which slice.
    #[serde(flatten)]
    pub id: SliceId,
    /// The shard it is on.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its load.
    pub demand: Resources,
    /// The bytes that a migration of it copies.
    pub bytes: u64,
    /// Its tenant's home region.
    pub home_region: RegionId,
    /// Its tenant's residency policy.
    pub residency: Residency,
    /// The zones it requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneId>,
    /// The operator's pin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Box<Pin>>,
    /// Which automatic actions its tenant allows.
    #[serde(default)]
    pub dial: Dial,
    /// Whether the plan may move it; a plan may be for some shards only.
    pub in_scope: bool,
    /// When it was placed or last moved.
    pub placed_at: Timestamp,
    /// Shards that it passed over when it was placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<ShardId>,
    /// The target of its running migration. Until that has ended the slice counts on both
    /// shards.
    #[serde(
        rename = "movingToShardID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub moving_to: Option<ShardId>,
    /// Its tenant is closed: it stays until it is purged.
    #[serde(default)]
    pub closed: bool,
}

impl PlanSlice {
    /// The slice as placement's subject.
    #[must_use]
    pub fn subject(&self) -> PlacementSubject {
        PlacementSubject {
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
