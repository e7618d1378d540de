//! The measurement that a cure is judged by: the busiest lane for lane changes, the
//! region's fill for new shards, the shard's fill for all others.

use ballast_domain::{RegionId, ShardId};

use super::cure::Cure;
use super::facts::MeasuredFleet;
use super::memory::CureRecord;
use super::settings::DiagnosisSettings;
use crate::load::{ItemName, LoadHistory, Window};
use crate::resources::{Dimension, Resources};

/// The current measurement for judging a cure.
pub(super) fn measured(
    past: &CureRecord,
    history: &LoadHistory,
    settings: &DiagnosisSettings,
) -> Option<f64> {
    let shard = past.shards.first()?;
    match &past.cure {
        Cure::Lanes { item, .. } => lane(history, shard, item, settings),
        Cure::AddShards { region, .. } => {
            region_fill(&MeasuredFleet::new(history), region).map(|it| it.1)
        }
        _ => {
            let view = history.view(history.shard(shard)?, Window::Short)?;
            Some(view.fill()?.1)
        }
    }
}

/// The lane load of a poll's busiest item; 0 if it gets no votes.
fn lane(
    history: &LoadHistory,
    shard: &ShardId,
    item: &ItemName,
    settings: &DiagnosisSettings,
) -> Option<f64> {
    let shard = history.shard(shard)?;
    let view = history.view(shard, Window::Short)?;
    let items = history.items(shard, Window::Short, &view);
    let of_poll = items.iter().filter(|it| it.name.is_of_same_poll(item));
    let busiest = of_poll.map(|it| it.lane_votes()).fold(0.0, f64::max);
    Some(busiest / settings.lane_votes_max.max(f64::MIN_POSITIVE))
}

/// The fill of a whole region in its fullest dimension.
pub(super) fn region_fill(
    fleet: &MeasuredFleet<'_>,
    region: &RegionId,
) -> Option<(Dimension, f64)> {
    let (mut used, mut capacity) = (Resources::default(), Resources::default());
    let mut any = false;
    for (_, facts) in fleet.takers(region) {
        any = true;
        let here = facts.history.capacity();
        capacity += *here;
        for dimension in Dimension::ALL {
            // A shard without a limit says nothing about the region's fill.
            if here[dimension] > 0.0 {
                used[dimension] += facts.short.used[dimension];
            }
        }
    }
    any.then(|| used.fill(&capacity))
}
