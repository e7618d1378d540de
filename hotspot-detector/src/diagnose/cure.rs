//! Causes of hotspots, and cures.

use ballast_domain::tenant::SliceId;
use ballast_domain::{KeyId, RegionId, ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::load::ItemName;
use crate::resources::Dimension;

/// The cause of hotspots.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "cause")]
pub enum HotspotCause {
    /// A key floods the shard.
    AbusiveKey {
        /// Its ID.
        key: KeyId,
        /// Its tenant.
        tenant: TenantId,
        /// Its share of the shard's calls.
        share: f64,
        /// The share of its calls that is rejected.
        refused: f64,
    },
    /// A counter is at the limit of its lanes.
    HotCounter {
        /// Its ID.
        item: ItemName,
        /// Votes per second.
        votes: f64,
        /// Its lanes.
        lanes: u16,
    },
    /// A counter has more lanes than it needs.
    CoolCounter {
        /// Its ID.
        item: ItemName,
        /// Votes per second.
        votes: f64,
        /// Its lanes.
        lanes: u16,
    },
    /// A counter's lanes are filled unevenly.
    SkewedLanes {
        /// Its ID.
        item: ItemName,
        /// The largest deviation of a lane from the mean.
        skew: f64,
    },
    /// One tenant is most of the load, or more than a shard can hold.
    HotTenant {
        /// Its ID.
        slice: SliceId,
        /// Its fullest dimension.
        dimension: Dimension,
        /// Its share of the shard's capacity in that dimension.
        share: f64,
    },
    /// One tenant uses more than its fair share of a shard that is not overloaded.
    UnfairTenant {
        /// Its ID.
        slice: SliceId,
        /// Its fullest dimension.
        dimension: Dimension,
        /// Its share of the shard's capacity in that dimension.
        share: f64,
    },
    /// Several tenants together.
    WarmTenants {
        /// How many have a noticeable load.
        tenants: usize,
        /// The fullest dimension.
        dimension: Dimension,
    },
    /// A whole region is too full.
    RegionFull {
        /// Its ID.
        region: RegionId,
        /// Its fullest dimension.
        dimension: Dimension,
        /// Its fill in that dimension.
        fill: f64,
        /// Whether the other regions are full too.
        whole_fleet: bool,
    },
    /// Writes wait although the load is low.
    SickShard {
        /// The share of the time that they wait.
        wait: f64,
        /// The shard's fill.
        fill: f64,
    },
    /// It has not lasted long enough.
    Spike {
        /// How long it has lasted, in milliseconds.
        lasted_ms: u64,
    },
    /// A rule fired, but the load is within the limits.
    #[serde(rename = "borne")]
    WithinLimits {
        /// The load as a share of the limit.
        fill: f64,
    },
    /// No measurement explains it.
    Unexplained,
}

/// A cure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "cure")]
pub enum Cure {
    /// Limit the calls of a key.
    Throttle {
        /// Its ID.
        key: KeyId,
        /// Its tenant.
        tenant: TenantId,
        /// Calls per second.
        to: f64,
    },
    /// Change the number of lanes of a poll's counters.
    Lanes {
        /// Its ID.
        item: ItemName,
        /// How many it has.
        from: u16,
        /// How many it should have.
        to: u16,
    },
    /// Move slices to other shards.
    Move {
        /// The source shard.
        from: ShardId,
        /// The slices, each with a possible target.
        slices: Vec<SlicePlacement>,
        /// Their bytes stored.
        bytes: f64,
        /// The expected duration, in milliseconds.
        price_ms: u64,
    },
    /// Split a tenant.
    Split {
        /// Its ID.
        slice: SliceId,
        /// The source shard.
        from: ShardId,
        /// The number of parts.
        parts: u32,
        /// The expected duration, in milliseconds.
        price_ms: u64,
    },
    /// Add shards.
    AddShards {
        /// Where.
        region: RegionId,
        /// How many.
        count: u32,
    },
    /// Wait for the hotspot to pass.
    Wait {
        /// When to check again at the latest.
        until: Timestamp,
    },
    /// Ballast has no cure.
    Nothing,
}

/// A slice and a possible target. The planner makes the final choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlicePlacement {
    /// The slice.
    pub slice: SliceId,
    /// A shard with room for it.
    pub to: ShardId,
}

impl HotspotCause {
    /// A short name for tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::AbusiveKey { .. } => "abusive key",
            Self::HotCounter { .. } => "hot counter",
            Self::CoolCounter { .. } => "cool counter",
            Self::SkewedLanes { .. } => "skewed lanes",
            Self::HotTenant { .. } => "hot tenant",
            Self::UnfairTenant { .. } => "unfair tenant",
            Self::WarmTenants { .. } => "warm tenants",
            Self::RegionFull {
                whole_fleet: true, ..
            } => "full fleet",
            Self::RegionFull { .. } => "full region",
            Self::SickShard { .. } => "sick shard",
            Self::Spike { .. } => "spike",
            Self::WithinLimits { .. } => "borne",
            Self::Unexplained => "unexplained",
        }
    }
}

impl Cure {
    /// A short name for tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Throttle { .. } => "throttle",
            Self::Lanes { from, to, .. } if to > from => "more lanes",
            Self::Lanes { .. } => "fewer lanes",
            Self::Move { .. } => "move",
            Self::Split { .. } => "split",
            Self::AddShards { .. } => "add shards",
            Self::Wait { .. } => "wait",
            Self::Nothing => "nothing",
        }
    }

    /// Whether it is an action.
    #[must_use]
    pub fn acts(&self) -> bool {
        !matches!(self, Self::Wait { .. } | Self::Nothing)
    }

    /// Whether it copies data.
    #[must_use]
    pub fn moves_data(&self) -> bool {
        matches!(self, Self::Move { .. } | Self::Split { .. })
    }

    /// The slices that it moves.
    #[must_use]
    pub fn slices(&self) -> Vec<&SliceId> {
        match self {
            Self::Move { slices, .. } => slices.iter().map(|placed| &placed.slice).collect(),
            Self::Split { slice, .. } => vec![slice],
            _ => Vec::new(),
        }
    }

    /// The tenant that it splits.
    #[must_use]
    pub fn splits(&self) -> Option<&TenantId> {
        match self {
            Self::Split { slice, .. } => Some(&slice.tenant_id),
            _ => None,
        }
    }

    /// Whether both act on the same subject. A split acts on the tenant, because its slices get
    /// new numbers.
    #[must_use]
    pub fn same_subject(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Throttle { key: a, .. }, Self::Throttle { key: b, .. }) => a == b,
            (Self::Lanes { item: a, .. }, Self::Lanes { item: b, .. }) => a.is_of_same_poll(b),
            (Self::AddShards { region: a, .. }, Self::AddShards { region: b, .. }) => a == b,
            _ => match self.splits().or(other.splits()) {
                Some(tenant) => [self, other]
                    .iter()
                    .all(|cure| cure.slices().iter().any(|slice| slice.tenant_id == *tenant)),
                None => self
                    .slices()
                    .iter()
                    .any(|slice| other.slices().contains(slice)),
            },
        }
    }
}
