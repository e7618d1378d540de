//! Choosing targets: the highest placement score among the shards that placement's rules
//! allow and that have room in every dimension.

use std::collections::HashMap;

use ballast_domain::id::{RegionId, ShardId, ZoneId};
use ballast_domain::placement::{draw, region_fit_unless_vetoed, score};
use ballast_domain::residency::RegionFit;

use super::amount::LANES;
use super::draft::{Level, PlanDraft};

/// Cached classes of slices; each has a list of shards.
const CLASSES_MAX: usize = 2_048;

/// The attributes that decide which shards are allowed; slices that share them share a list.
type ClassKey<'a> = (&'a RegionId, &'static str, &'a [RegionId], &'a [ZoneId]);

/// The allowed shards of each class of slices.
#[derive(Default)]
pub(super) struct Classes<'a> {
    by_key: HashMap<ClassKey<'a>, usize>,
    lists: Vec<Allowed>,
}

/// The shards that are allowed to hold a slice, regardless of room.
#[derive(Default)]
pub(super) struct Allowed {
    pub(super) home: Vec<u32>,
    pub(super) secondary: Vec<u32>,
}

impl Allowed {
    pub(super) fn contains(&self, place: u32) -> bool {
        self.home.binary_search(&place).is_ok() || self.secondary.binary_search(&place).is_ok()
    }
}

impl<'a> PlanDraft<'a> {
    /// The shards that are allowed to hold a slice.
    pub(super) fn allowed(&mut self, slice: u32) -> &Allowed {
        let class = self.class_index(slice);
        &self.classes.lists[class]
    }

    fn class_index(&mut self, slice: u32) -> usize {
        let slice = &self.fleet.slices[slice as usize];
        let key = (
            &slice.home_region,
            slice.residency.name(),
            slice.residency.secondary_regions(),
            slice.zones.as_slice(),
        );
        if let Some(class) = self.classes.by_key.get(&key) {
            return *class;
        }
        if self.classes.lists.len() >= CLASSES_MAX {
            self.classes = Classes::default();
        }
        let subject = slice.subject();
        let mut list = Allowed::default();
        for (place, at) in self.places.iter().zip(0..) {
            match region_fit_unless_vetoed(&place.view, &subject) {
                Some(RegionFit::Home) => list.home.push(at),
                Some(RegionFit::Secondary) => list.secondary.push(at),
                _ => {}
            }
        }
        self.classes.lists.push(list);
        let class = self.classes.lists.len() - 1;
        self.classes.by_key.insert(key, class);
        class
    }

    /// The best target of a slice: home region before secondary regions, then by score. A busy
    /// shard counts with a part of its weight, as for a new slice.
    pub(super) fn best_target(&mut self, slice: u32, level: Level) -> Option<u32> {
        let class = self.class_index(slice);
        let list = &self.classes.lists[class];
        [&list.home, &list.secondary]
            .into_iter()
            .find_map(|shards| self.highest(slice, shards, level))
    }

    fn highest(&self, slice: u32, shards: &[u32], level: Level) -> Option<u32> {
        let hash = self.hash[slice as usize];
        let from = self.at[slice as usize];
        let amount = &self.demand[slice as usize];
        let mut best: Option<(u32, f64)> = None;
        for at in shards.iter().copied().filter(|at| *at != from) {
            let place = &self.places[at as usize];
            let weight = place.view.weight * place.view.pressure.preference();
            let draw = draw(hash, place.view.hash);
            // An upper bound of the score, as in placement: it saves the logarithm and the
            // room check for most shards.
            let top = best.map_or(0.0, |(_, score)| score);
            if weight <= top * (1.0 - draw) || !place.load.fits(amount, place.ceiling(level)) {
                continue;
            }
            let score = score(weight, draw);
            if best.is_none_or(|(_, top)| score > top) {
                best = Some((at, score));
            }
        }
        best.map(|(at, _)| at)
    }

    /// The shards that outscore the target by weight alone. They are stored with the slice as
    /// passed over, so that placement does not move it back.
    pub(super) fn passed_over(&mut self, slice: u32, to: u32) -> Vec<ShardId> {
        let hash = self.hash[slice as usize];
        let class = self.class_index(slice);
        let winner = &self.places[to as usize].view;
        let own = score(winner.weight, draw(hash, winner.hash));
        let list = &self.classes.lists[class];
        let peers = if list.home.binary_search(&to).is_ok() {
            &list.home
        } else {
            &list.secondary
        };
        let views = peers.iter().map(|at| &self.places[*at as usize].view);
        views
            .filter(|view| {
                let draw = draw(hash, view.hash);
                view.weight > own * (1.0 - draw) && score(view.weight, draw) > own
            })
            .filter(|view| view.id != winner.id)
            .map(|view| view.id.clone())
            .collect()
    }

    /// The allowed shards for a slice, highest score first, regardless of room.
    pub(super) fn by_score(&mut self, slice: u32, at_most: usize) -> Vec<u32> {
        let hash = self.hash[slice as usize];
        let from = self.at[slice as usize];
        let class = self.class_index(slice);
        let list = &self.classes.lists[class];
        let mut found = Vec::new();
        for shards in [&list.home, &list.secondary] {
            let mut scored: Vec<(f64, u32)> = shards
                .iter()
                .filter(|at| **at != from)
                .map(|at| {
                    let view = &self.places[*at as usize].view;
                    (score(view.weight, draw(hash, view.hash)), *at)
                })
                .collect();
            scored.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.cmp(&two.1)));
            found.extend(scored.into_iter().map(|(_, at)| at));
        }
        found.truncate(at_most);
        found
    }

    /// Whether a slice is too large for every allowed shard, even an empty one.
    pub(super) fn is_too_big(&mut self, slice: u32) -> bool {
        let amount = self.demand[slice as usize];
        let class = self.class_index(slice);
        let list = &self.classes.lists[class];
        let mut shards = list.home.iter().chain(&list.secondary);
        !shards.any(|at| {
            let place = &self.places[*at as usize];
            (0..LANES).all(|lane| amount.0[lane] <= place.limit.0[lane])
        })
    }
}
