//! Whether a whole region lacks capacity, and how many shards it needs.

use ballast_domain::{RegionId, ShardId, Timestamp};

use super::cure::{Cure, HotspotCause};
use super::facts::MeasuredFleet;
use super::finding::{ExpectedEffect, Finding, Rejected};
use super::settings::DiagnosisSettings;
use crate::detect::Hotspot;
use crate::format::{list, percent};
use crate::load::ShardWindow;
use crate::resources::{Dimension, Resources};

/// A region that lacks capacity in some dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FullRegion {
    pub(super) dimension: Dimension,
    /// Its fill in that dimension.
    pub(super) fill: f64,
    /// Its fill over the long window.
    pub(super) fill_long: f64,
    /// Shards that it needs in addition.
    pub(super) missing: u32,
    /// Shards that it has.
    pub(super) shards: usize,
}

/// Whether a region would be too full in some dimension even with its load spread evenly
/// over its shards.
pub(super) fn full(fleet: &MeasuredFleet<'_>, region: &RegionId, level: f64) -> Option<FullRegion> {
    let shards: Vec<_> = fleet.takers(region).map(|(_, facts)| facts).collect();
    let mut capacity = Resources::default();
    let (mut short, mut long) = (Resources::default(), Resources::default());
    for facts in &shards {
        let used = |view: &ShardWindow| limited(view.used, facts.history.capacity());
        capacity += *facts.history.capacity();
        short += used(&facts.short);
        long += facts.long.as_ref().map_or(used(&facts.short), used);
    }
    let (dimension, fill) = short.fill(&capacity);
    if shards.is_empty() || fill <= level {
        return None;
    }
    let one = capacity[dimension] / shards.len() as f64;
    let missing = (short[dimension] / level - capacity[dimension]) / one;
    Some(FullRegion {
        dimension,
        fill,
        fill_long: long[dimension] / capacity[dimension],
        missing: (missing.ceil() as u32).max(1),
        shards: shards.len(),
    })
}

/// The use in dimensions that have a limit. A shard without a limit says nothing about the
/// region's fill.
fn limited(mut used: Resources, capacity: &Resources) -> Resources {
    for dimension in Dimension::ALL {
        if capacity[dimension] <= 0.0 {
            used[dimension] = 0.0;
        }
    }
    used
}

/// The finding for a full region and its hot shards.
pub(super) fn finding(
    fleet: &MeasuredFleet<'_>,
    name: &RegionId,
    shards: Vec<(ShardId, Vec<Hotspot>)>,
    whole_fleet: bool,
    settings: &DiagnosisSettings,
    now: Timestamp,
) -> Option<Finding> {
    let full = full(fleet, name, settings.level)?;
    let dimension = full.dimension;
    let hot: Vec<_> = shards.iter().map(|(shard, _)| shard.to_string()).collect();
    Some(Finding {
        at: now,
        cause: HotspotCause::RegionFull {
            region: name.clone(),
            dimension,
            fill: full.fill,
            whole_fleet,
        },
        evidence: vec![
            format!(
                "the {} shards of {name} together are {} full ({}) in the short window and {} in the long window",
                full.shards,
                percent(full.fill),
                dimension.name(),
                percent(full.fill_long)
            ),
            format!(
                "hot shard{}: {}",
                if hot.len() == 1 { "" } else { "s" },
                list(&hot)
            ),
        ],
        cure: Cure::AddShards {
            region: name.clone(),
            count: full.missing,
        },
        expected: expected_effects(fleet, &full, &shards),
        otherwise:
            "New shards accept new tenants immediately; the next findings move existing ones. \
                    If the load keeps growing this fast, add more shards at a time."
                .to_owned(),
        rejected: vec![Rejected {
            cure: "move",
            because: format!(
                "moving will not help: with the load spread evenly, every shard would still be {} full",
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

/// The expected effects of adding the missing shards: on the whole region, then on each hot
/// shard.
fn expected_effects(
    fleet: &MeasuredFleet<'_>,
    full: &FullRegion,
    shards: &[(ShardId, Vec<Hotspot>)],
) -> Vec<ExpectedEffect> {
    let dimension = full.dimension;
    let after = full.fill * full.shards as f64 / (full.shards as f64 + f64::from(full.missing));
    let expected = shards.iter().filter_map(|(shard, _)| {
        let facts = fleet.shards.get(shard)?;
        let before = facts.short.used[dimension] / facts.history.capacity()[dimension];
        let (shard, dimension) = (shard.clone(), Some(dimension));
        Some(ExpectedEffect {
            shard,
            dimension,
            before,
            after,
        })
    });
    let first = shards.first().map(|(shard, _)| ExpectedEffect {
        shard: shard.clone(),
        dimension: Some(dimension),
        before: full.fill,
        after,
    });
    first.into_iter().chain(expected).collect()
}
