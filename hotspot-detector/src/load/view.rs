//! The measurements of a window, as rates and levels.

use std::sync::Arc;

use ballast_domain::poll::lanes::LaneSpread;
use ballast_domain::{KeyId, RegionId, TenantId};

use super::flow::Flow;
use super::latency::Sketch;
use super::sample::{IoWait, ItemName};
use crate::resources::{Dimension, Resources};

/// A shard over one window.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardWindow {
    /// Its region.
    pub region: RegionId,
    /// Its capacity.
    pub capacity: Resources,
    /// How much of the window was measured, in milliseconds.
    pub measured_ms: u64,
    /// Its load; unknown dimensions are 0.
    pub used: Resources,
    /// Calls and bytes per second.
    pub flow: Flow,
    /// Whether the bytes stored are known.
    pub knows_storage: bool,
    /// Whether the concurrent calls are known.
    pub knows_concurrency: bool,
    /// The share of the time that writes waited.
    pub io_wait: Option<IoWait>,
    /// Vote latencies.
    pub vote_latency: Sketch,
    /// Query latencies.
    pub query_latency: Sketch,
}

impl ShardWindow {
    /// The share of its capacity used, in its fullest dimension; `None` if no capacity is
    /// known.
    #[must_use]
    pub fn fill(&self) -> Option<(Dimension, f64)> {
        let limited = Dimension::ALL.iter().any(|d| self.capacity[*d] > 0.0);
        limited.then(|| self.used.fill(&self.capacity))
    }

    /// Its pressure: the higher of its fill and its I/O wait.
    #[must_use]
    pub fn pressure(&self) -> Option<f64> {
        let fill = self.fill().map(|(_, share)| share);
        let wait = self.io_wait.map(|wait| wait.share());
        match (fill, wait) {
            (Some(fill), Some(wait)) => Some(fill.max(wait)),
            (known, None) | (None, known) => known,
        }
    }

    /// The share of one dimension's capacity used.
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
pub struct SliceWindow {
    /// Its load.
    pub used: Resources,
    /// Errors per second.
    pub errors: f64,
    /// Throttles per second.
    pub throttles: f64,
}

impl SliceWindow {
    /// The share of its shard's capacity that it uses, in its fullest dimension.
    #[must_use]
    pub fn share(&self, shard: &ShardWindow) -> Option<f64> {
        let limited = Dimension::ALL.iter().any(|d| shard.capacity[*d] > 0.0);
        limited.then(|| self.used.fill(&shard.capacity).1)
    }

    /// Its share of the shard's load, in the dimension where it is highest.
    #[must_use]
    pub fn share_of_use(&self, shard: &ShardWindow) -> f64 {
        self.used.fill(&shard.used).1.min(1.0)
    }
}

/// An API key over one window.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyWindow {
    /// The key's ID.
    pub key: KeyId,
    /// Its tenant.
    pub tenant: TenantId,
    /// Calls per second, successful or not.
    pub calls: f64,
    /// Rejected calls per second.
    pub refused: f64,
}

/// An item's counter over one window.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemWindow {
    /// Its name.
    pub name: ItemName,
    /// Votes per second.
    pub votes: f64,
    /// Its total votes, by lane.
    pub lanes: Arc<[u64]>,
}

impl ItemWindow {
    /// Votes per second per lane.
    #[must_use]
    pub fn lane_votes(&self) -> f64 {
        self.votes / self.lanes.len().max(1) as f64
    }

    /// How evenly the lanes are filled.
    #[must_use]
    pub fn spread(&self) -> LaneSpread {
        LaneSpread::from_lanes(self.lanes.to_vec())
    }
}
