//! What a window holds, as rates and levels.

use std::sync::Arc;

use ballast_domain::poll::lanes::Spread;
use ballast_domain::{KeyId, RegionId, TenantId};

use super::flow::Flow;
use super::latency::Sketch;
use super::sample::{IoWait, ItemName};
use crate::resources::{Dimension, Resources};

/// A shard over one window.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardView {
    /// Where it stands.
    pub region: RegionId,
    /// What it can do.
    pub capacity: Resources,
    /// How much of the window was measured, in milliseconds.
    pub measured_ms: u64,
    /// What it uses; what is unknown is nought here.
    pub used: Resources,
    /// Per second.
    pub flow: Flow,
    /// Whether the bytes stored are known.
    pub knows_storage: bool,
    /// Whether the calls at a time are known.
    pub knows_concurrency: bool,
    /// How much of the time writes waited.
    pub io_wait: Option<IoWait>,
    /// How long votes took.
    pub vote_latency: Sketch,
    /// How long queries took.
    pub query_latency: Sketch,
}

impl ShardView {
    /// How much of its capacity is used, in the dimension where it is most;
    /// nothing if no capacity is known.
    #[must_use]
    pub fn fill(&self) -> Option<(Dimension, f64)> {
        let limited = Dimension::ALL.iter().any(|d| self.capacity[*d] > 0.0);
        limited.then(|| self.used.fill(&self.capacity))
    }

    /// How hard it works: the fullest dimension or the time writes wait,
    /// whichever is more.
    #[must_use]
    pub fn pressure(&self) -> Option<f64> {
        let fill = self.fill().map(|(_, share)| share);
        let wait = self.io_wait.map(|wait| wait.share());
        match (fill, wait) {
            (Some(fill), Some(wait)) => Some(fill.max(wait)),
            (known, None) | (None, known) => known,
        }
    }

    /// How much of one dimension's capacity is used.
    #[must_use]
    pub fn share(&self, dimension: Dimension) -> Option<f64> {
        let known = match dimension {
            Dimension::Storage => self.knows_storage,
            Dimension::Concurrency => self.knows_concurrency,
            _ => true,
        };
        let capacity = self.capacity[dimension];
        (known && capacity > 0.0).then(|| self.used[dimension] / capacity)
    }
}

/// A slice over one window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SliceView {
    /// What it uses.
    pub used: Resources,
    /// Errors per second.
    pub errors: f64,
    /// Throttles per second.
    pub throttles: f64,
}

impl SliceView {
    /// How much of a shard's capacity it uses, where that is most.
    #[must_use]
    pub fn share(&self, shard: &ShardView) -> Option<f64> {
        let limited = Dimension::ALL.iter().any(|d| shard.capacity[*d] > 0.0);
        limited.then(|| self.used.fill(&shard.capacity).1)
    }

    /// How much of what the shard uses is used by it, where that is most.
    #[must_use]
    pub fn share_of_use(&self, shard: &ShardView) -> f64 {
        self.used.fill(&shard.used).1.min(1.0)
    }
}

/// An API key over one window.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyView {
    /// Its public name.
    pub key: KeyId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Calls per second, whatever became of them.
    pub calls: f64,
    /// Refused calls per second.
    pub refused: f64,
}

/// An item's counter over one window.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemView {
    /// Which.
    pub name: ItemName,
    /// Votes per second.
    pub votes: f64,
    /// All its votes so far, by lane.
    pub lanes: Arc<[u64]>,
}

impl ItemView {
    /// Votes per second on one lane.
    #[must_use]
    pub fn lane_votes(&self) -> f64 {
        self.votes / self.lanes.len().max(1) as f64
    }

    /// How evenly the lanes are filled.
    #[must_use]
    pub fn spread(&self) -> Spread {
        Spread::of(self.lanes.to_vec())
    }
}
