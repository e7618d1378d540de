//! What can be hot, and what can be done about it.

use ballast_domain::tenant::SliceId;
use ballast_domain::{KeyId, RegionId, ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::load::ItemName;
use crate::resources::Dimension;

/// What is really hot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "cause")]
pub enum Cause {
    /// A key floods the shard.
    AbusiveKey {
        /// Which.
        key: KeyId,
        /// Whose.
        tenant: TenantId,
        /// Its share of the shard's calls.
        share: f64,
        /// How many of its calls are refused.
        refused: f64,
    },
    /// A counter's lanes take as much as they can.
    HotCounter {
        /// Which.
        item: ItemName,
        /// Votes per second.
        votes: f64,
        /// Its lanes.
        lanes: u16,
    },
    /// A counter has more lanes than it needs.
    CoolCounter {
        /// Which.
        item: ItemName,
        /// Votes per second.
        votes: f64,
        /// Its lanes.
        lanes: u16,
    },
    /// A counter's lanes are filled unevenly.
    SkewedLanes {
        /// Which.
        item: ItemName,
        /// How far the farthest lane is from the mean.
        skew: f64,
    },
    /// One tenant is most of the load, or all that a shard can bear.
    HotTenant {
        /// Which.
        slice: SliceId,
        /// Where it uses most.
        dimension: Dimension,
        /// Its share of the shard's capacity there.
        share: f64,
    },
    /// One tenant has more than its part of a shard that can bear it.
    UnfairTenant {
        /// Which.
        slice: SliceId,
        /// Where it uses most.
        dimension: Dimension,
        /// Its share of the shard's capacity there.
        share: f64,
    },
    /// Several tenants together.
    WarmTenants {
        /// How many use something worth naming.
        tenants: usize,
        /// Where they use most.
        dimension: Dimension,
    },
    /// Every shard of a region is warm.
    RegionFull {
        /// Which.
        region: RegionId,
        /// Where there is least left.
        dimension: Dimension,
        /// How full the region is there.
        fill: f64,
        /// Whether the other regions are as full.
        whole_fleet: bool,
    },
    /// Writes wait although there is little load.
    SickShard {
        /// How much of the time they wait.
        wait: f64,
        /// How full the shard is.
        fill: f64,
    },
    /// It has not lasted long enough to be more.
    Spike {
        /// How long it has lasted, in milliseconds.
        lasted_ms: u64,
    },
    /// A rule calls it hot, and it is less than what is too much.
    Borne {
        /// How much of what can be borne it is.
        fill: f64,
    },
    /// It is slow, and no load explains it.
    Unexplained,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "cure")]
pub enum Cure {
    /// Let a key through only so often.
    Throttle {
        /// Which.
        key: KeyId,
        /// Whose.
        tenant: TenantId,
        /// Calls per second.
        to: f64,
    },
    /// Give a poll's counters so many lanes; more or fewer.
    Lanes {
        /// Which.
        item: ItemName,
        /// How many it has.
        from: u16,
        /// How many it should have.
        to: u16,
    },
    /// Move slices away.
    Move {
        /// From here.
        from: ShardId,
        /// Which, each with a shard that could take it.
        slices: Vec<Placed>,
        /// What they store.
        bytes: f64,
        /// How long it takes, in milliseconds.
        price_ms: u64,
    },
    /// Cut a tenant into parts.
    Split {
        /// Which.
        slice: SliceId,
        /// From here.
        from: ShardId,
        /// Into so many.
        parts: u32,
        /// How long it takes, in milliseconds.
        price_ms: u64,
    },
    /// Add shards.
    AddShards {
        /// Where.
        region: RegionId,
        /// How many.
        count: u32,
    },
    /// Let it pass.
    Wait {
        /// When to look again at the latest.
        until: Timestamp,
    },
    /// Nothing that Ballast can do helps.
    Nothing,
}

/// A slice, and where it could go. The planner has the last word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placed {
    /// Which.
    pub slice: SliceId,
    /// A shard with room for it.
    pub to: ShardId,
}

impl Cause {
    /// One word for it, for tables.
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
            Self::Borne { .. } => "borne",
            Self::Unexplained => "unexplained",
        }
    }
}

impl Cure {
    /// One word for it, for tables.
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

    /// Whether it does something.
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

    /// The tenant that it cuts into parts.
    #[must_use]
    pub fn splits(&self) -> Option<&TenantId> {
        match self {
            Self::Split { slice, .. } => Some(&slice.tenant_id),
            _ => None,
        }
    }

    /// Whether it is done to the same thing. A split is done to the tenant: its
    /// slices have other numbers afterwards.
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
