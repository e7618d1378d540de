//! Whether a region as a whole has too little, and how many shards are missing.

use ballast_domain::RegionId;

use super::facts::Fleet;
use crate::load::ShardView;
use crate::resources::{Dimension, Resources};

/// A region in which there is too little of something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Full {
    pub(super) dimension: Dimension,
    /// How full it is there.
    pub(super) fill: f64,
    /// How full it was over the long window.
    pub(super) fill_long: f64,
    /// Shards that are missing.
    pub(super) missing: u32,
    /// Shards that it has.
    pub(super) shards: usize,
}

/// Whether a region is too full in some dimension even if its load were spread
/// evenly over its shards.
pub(super) fn full(fleet: &Fleet<'_>, region: &RegionId, level: f64) -> Option<Full> {
    let shards: Vec<_> = fleet.takers(region).map(|(_, facts)| facts).collect();
    let mut capacity = Resources::default();
    let (mut short, mut long) = (Resources::default(), Resources::default());
    for facts in &shards {
        let used = |view: &ShardView| limited(view.used, facts.book.capacity());
        capacity += *facts.book.capacity();
        short += used(&facts.short);
        long += facts.long.as_ref().map_or(used(&facts.short), used);
    }
    let (dimension, fill) = short.fill(&capacity);
    if shards.is_empty() || fill <= level {
        return None;
    }
    let one = capacity[dimension] / shards.len() as f64;
    let missing = (short[dimension] / level - capacity[dimension]) / one;
    Some(Full {
        dimension,
        fill,
        fill_long: long[dimension] / capacity[dimension],
        missing: (missing.ceil() as u32).max(1),
        shards: shards.len(),
    })
}

/// What is used where there is a limit: the use of a shard without one says
/// nothing about the region's.
fn limited(mut used: Resources, capacity: &Resources) -> Resources {
    for dimension in Dimension::ALL {
        if capacity[dimension] <= 0.0 {
            used[dimension] = 0.0;
        }
    }
    used
}
