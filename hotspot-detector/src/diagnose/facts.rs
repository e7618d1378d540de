//! The fleet as a diagnosis needs it: every shard's load and room.

use std::collections::BTreeMap;

use ballast_domain::tenant::SliceId;
use ballast_domain::{RegionId, ShardId};

use crate::load::ShardBook;
use crate::load::{Book, ShardView, Window};
use crate::resources::{Dimension, Resources};

/// One shard that was measured.
pub(super) struct ShardFacts<'a> {
    pub(super) book: &'a ShardBook,
    /// Whether it was measured of late; if not, the long window stands in.
    pub(super) is_fresh: bool,
    pub(super) short: ShardView,
    pub(super) long: Option<ShardView>,
    /// The more of both windows, in every dimension: what it must be able to
    /// bear.
    pub(super) load: Resources,
}

/// All shards that were measured.
pub(super) struct Fleet<'a> {
    pub(super) book: &'a Book,
    pub(super) shards: BTreeMap<&'a ShardId, ShardFacts<'a>>,
    /// Those of which too little is known.
    unseen: Vec<(&'a ShardId, &'a RegionId)>,
}

fn most(short: &ShardView, long: Option<&ShardView>) -> Resources {
    let mut load = short.used;
    for dimension in Dimension::ALL {
        let before = long.map_or(0.0, |long| long.used[dimension]);
        load[dimension] = load[dimension].max(before);
    }
    load
}

impl<'a> Fleet<'a> {
    pub(super) fn new(book: &'a Book) -> Self {
        let mut fleet = Self {
            book,
            shards: BTreeMap::new(),
            unseen: Vec::new(),
        };
        for (name, shard) in book.shards() {
            let (short, long) = (
                book.view(shard, Window::Short),
                book.view(shard, Window::Long),
            );
            let is_fresh = short.is_some();
            match short.or_else(|| long.clone()) {
                Some(short) => {
                    let load = most(&short, long.as_ref());
                    let facts = ShardFacts {
                        book: shard,
                        is_fresh,
                        short,
                        long,
                        load,
                    };
                    fleet.shards.insert(name, facts);
                }
                None => fleet.unseen.push((name, shard.region())),
            }
        }
        fleet
    }

    /// A shard of a region of which nothing is known: it may have room.
    pub(super) fn unseen_in(&self, region: &RegionId) -> Option<&'a ShardId> {
        let unseen = self.unseen.iter().find(|(_, at)| *at == region);
        unseen.map(|(name, _)| *name)
    }

    /// The slices of a shard with what they use now, the largest first.
    pub(super) fn slices(
        &self,
        shard: &ShardFacts<'_>,
        by: Dimension,
    ) -> Vec<(SliceId, Resources)> {
        let mut slices: Vec<_> = self
            .book
            .slices(shard.book, Window::Short, &shard.short)
            .map(|(slice, view)| (slice.clone(), view.used))
            .collect();
        slices.sort_by(|a, b| b.1[by].total_cmp(&a.1[by]).then_with(|| a.0.cmp(&b.0)));
        slices
    }

    /// The shards of a region that take slices.
    pub(super) fn takers<'b>(
        &'b self,
        region: &'b RegionId,
    ) -> impl Iterator<Item = (&'a ShardId, &'b ShardFacts<'a>)> {
        let shards = self.shards.iter().map(|(name, facts)| (*name, facts));
        shards.filter(move |(_, facts)| facts.book.region() == region && facts.book.takes_slices())
    }
}

/// The dimensions in which a load is more than a level of a capacity.
pub(super) fn over(load: &Resources, capacity: &Resources, level: f64) -> Vec<Dimension> {
    let is_over = |d: &Dimension| capacity[*d] > 0.0 && load[*d] > capacity[*d] * level;
    Dimension::ALL.into_iter().filter(is_over).collect()
}

/// Whether a load is within a level of a capacity in every dimension.
pub(super) fn fits(load: &Resources, capacity: &Resources, level: f64) -> bool {
    over(load, capacity, level).is_empty()
}
