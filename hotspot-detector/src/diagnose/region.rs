//! Whether a region as a whole has too little, and how many shards are missing.

use ballast_domain::{RegionId, ShardId, Timestamp};

use super::cure::{Cause, Cure};
use super::facts::Fleet;
use super::finding::{Effect, Finding, Rejected};
use super::settings::Settings;
use crate::detect::Hotspot;
use crate::load::ShardView;
use crate::resources::{Dimension, Resources};
use crate::words::{list, percent};

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

/// What is said of a region that is too full, for its shards that are hot.
pub(super) fn finding(
    fleet: &Fleet<'_>,
    name: &RegionId,
    shards: Vec<(ShardId, Vec<Hotspot>)>,
    whole_fleet: bool,
    settings: &Settings,
    now: Timestamp,
) -> Option<Finding> {
    let full = full(fleet, name, settings.level)?;
    let dimension = full.dimension;
    let hot: Vec<_> = shards.iter().map(|(shard, _)| shard.to_string()).collect();
    let after = full.fill * full.shards as f64 / (full.shards as f64 + f64::from(full.missing));
    let expected = shards.iter().filter_map(|(shard, _)| {
        let facts = fleet.shards.get(shard)?;
        let before = facts.short.used[dimension] / facts.book.capacity()[dimension];
        let (shard, dimension) = (shard.clone(), Some(dimension));
        Some(Effect {
            shard,
            dimension,
            before,
            after,
        })
    });
    let first = shards.first().map(|(shard, _)| Effect {
        shard: shard.clone(),
        dimension: Some(dimension),
        before: full.fill,
        after,
    });
    Some(Finding {
        at: now,
        cause: Cause::RegionFull {
            region: name.clone(),
            dimension,
            fill: full.fill,
            whole_fleet,
        },
        evidence: vec![
            format!(
                "the {} shards of {name} together are {} full ({}) in the short and {} in the long window",
                full.shards,
                percent(full.fill),
                dimension.name(),
                percent(full.fill_long)
            ),
            format!("hot are {}", list(&hot)),
        ],
        cure: Cure::AddShards {
            region: name.clone(),
            count: full.missing,
        },
        expected: first.into_iter().chain(expected).collect(),
        otherwise:
            "New shards take new tenants at once; the others are moved by the next findings. \
                    If load grows as fast, add more at a time."
                .to_owned(),
        rejected: vec![Rejected {
            cure: "move",
            because: format!(
                "moving will not help, because spread evenly every shard would still be {} full",
                percent(full.fill)
            ),
        }],
        hotspots: shards
            .iter()
            .flat_map(|(_, hotspots)| hotspots.clone())
            .collect(),
        shards: shards.into_iter().map(|(shard, _)| shard).collect(),
        why_not: None,
    })
}
