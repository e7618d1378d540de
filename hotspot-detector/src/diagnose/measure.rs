//! What a cure is judged by: of lanes how busy the busiest is, of new shards how
//! full the region is, of all others how full the shard is.

use ballast_domain::{RegionId, ShardId};

use super::cure::Cure;
use super::facts::Fleet;
use super::memory::PastCure;
use super::settings::Settings;
use crate::load::{Book, ItemName, Window};
use crate::resources::{Dimension, Resources};

/// What is measured now of what a cure was for.
pub(super) fn measured(past: &PastCure, book: &Book, settings: &Settings) -> Option<f64> {
    let shard = past.shards.first()?;
    match &past.cure {
        Cure::Lanes { item, .. } => lane(book, shard, item, settings),
        Cure::AddShards { region, .. } => region_fill(&Fleet::new(book), region).map(|it| it.1),
        _ => {
            let view = book.view(book.shard(shard)?, Window::Short)?;
            Some(view.fill()?.1)
        }
    }
}

/// How busy the lanes of a poll's busiest item are; not at all when nobody votes
/// on it any more.
fn lane(book: &Book, shard: &ShardId, item: &ItemName, settings: &Settings) -> Option<f64> {
    let shard = book.shard(shard)?;
    let view = book.view(shard, Window::Short)?;
    let items = book.items(shard, Window::Short, &view);
    let of_poll = items.iter().filter(|it| it.name.is_of_same_poll(item));
    let busiest = of_poll.map(|it| it.lane_votes()).fold(0.0, f64::max);
    Some(busiest / settings.lane_votes_max.max(f64::MIN_POSITIVE))
}

/// How full a region is in all, where there is least left.
pub(super) fn region_fill(fleet: &Fleet<'_>, region: &RegionId) -> Option<(Dimension, f64)> {
    let (mut used, mut capacity) = (Resources::default(), Resources::default());
    let mut any = false;
    for (_, facts) in fleet.takers(region) {
        any = true;
        let here = facts.book.capacity();
        capacity += *here;
        for dimension in Dimension::ALL {
            // What a shard uses without a limit says nothing of the region's.
            if here[dimension] > 0.0 {
                used[dimension] += facts.short.used[dimension];
            }
        }
    }
    any.then(|| used.fill(&capacity))
}
