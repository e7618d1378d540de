//! The measured fleet: every shard's load and room.

use std::collections::BTreeMap;

use ballast_domain::tenant::SliceId;
use ballast_domain::{RegionId, ShardId};

use crate::load::ShardHistory;
use crate::load::{LoadHistory, ShardWindow, Window};
use crate::resources::{Dimension, Resources};

/// One shard that was measured.
pub(super) struct ShardFacts<'a> {
    pub(super) history: &'a ShardHistory,
    /// Whether it was measured recently; if not, the long window is used instead.
    pub(super) is_fresh: bool,
    pub(super) short: ShardWindow,
    pub(super) long: Option<ShardWindow>,
    /// The higher load of both windows, per dimension.
    pub(super) load: Resources,
}

/// All shards that were measured.
pub(super) struct MeasuredFleet<'a> {
    pub(super) history: &'a LoadHistory,
    pub(super) shards: BTreeMap<&'a ShardId, ShardFacts<'a>>,
    /// Shards without enough measurements.
    unmeasured: Vec<(&'a ShardId, &'a RegionId)>,
}

fn most(short: &ShardWindow, long: Option<&ShardWindow>) -> Resources {
    let mut load = short.used;
    for dimension in Dimension::ALL {
        let before = long.map_or(0.0, |long| long.used[dimension]);
        load[dimension] = load[dimension].max(before);
    }
    load
}

impl<'a> MeasuredFleet<'a> {
    pub(super) fn new(history: &'a LoadHistory) -> Self {
        let mut fleet = Self {
            history,
            shards: BTreeMap::new(),
            unmeasured: Vec::new(),
        };
        for (name, shard) in history.shards() {
            let (short, long) = (
                history.view(shard, Window::Short),
                history.view(shard, Window::Long),
            );
            let is_fresh = short.is_some();
            match short.or_else(|| long.clone()) {
                Some(short) => {
                    let load = most(&short, long.as_ref());
                    let facts = ShardFacts {
                        history: shard,
                        is_fresh,
                        short,
                        long,
                        load,
                    };
                    fleet.shards.insert(name, facts);
                }
                None => fleet.unmeasured.push((name, shard.region())),
            }
        }
        fleet
    }

    /// An unmeasured shard of a region; it may have room.
    pub(super) fn unmeasured_in(&self, region: &RegionId) -> Option<&'a ShardId> {
        let unmeasured = self.unmeasured.iter().find(|(_, at)| *at == region);
        unmeasured.map(|(name, _)| *name)
    }

    /// The slices of a shard with their current load, largest first.
    pub(super) fn slices(
        &self,
        shard: &ShardFacts<'_>,
        by: Dimension,
    ) -> Vec<(SliceId, Resources)> {
        let mut slices: Vec<_> = self
            .history
            .slices(shard.history, Window::Short, &shard.short)
            .map(|(slice, view)| (slice.clone(), view.used))
            .collect();
        slices.sort_by(|a, b| b.1[by].total_cmp(&a.1[by]).then_with(|| a.0.cmp(&b.0)));
        slices
    }

    /// The shards of a region that accept slices.
    pub(super) fn takers<'b>(
        &'b self,
        region: &'b RegionId,
    ) -> impl Iterator<Item = (&'a ShardId, &'b ShardFacts<'a>)> {
        let shards = self.shards.iter().map(|(name, facts)| (*name, facts));
        shards.filter(move |(_, facts)| {
            facts.history.region() == region && facts.history.takes_slices()
        })
    }
}

/// The dimensions in which a load exceeds a share of the capacity.
pub(super) fn over(load: &Resources, capacity: &Resources, level: f64) -> Vec<Dimension> {
    let is_over = |d: &Dimension| capacity[*d] > 0.0 && load[*d] > capacity[*d] * level;
    Dimension::ALL.into_iter().filter(is_over).collect()
}

/// Whether a load is within a share of the capacity in every dimension.
pub(super) fn fits(load: &Resources, capacity: &Resources, level: f64) -> bool {
    over(load, capacity, level).is_empty()
}
