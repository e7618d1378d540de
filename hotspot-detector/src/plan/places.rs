//! Where a slice goes: to the highest of placement's own scores among the
//! shards that placement's own rules allow and that have room in every
//! dimension.

use std::collections::HashMap;

use ballast_domain::id::{RegionId, ShardId, ZoneId};
use ballast_domain::placement::{allowed, draw, score};
use ballast_domain::residency::Standing;

use super::amount::LANES;
use super::world::{Level, World};

/// How many sorts of slices are remembered at a time: what each may be on costs
/// a list of shards.
const CLASSES_MAX: usize = 2_048;

/// What decides where slices may be; those that have it in common share a list.
type Key<'a> = (&'a RegionId, &'static str, &'a [RegionId], &'a [ZoneId]);

/// The shards that slices of each sort may be on.
#[derive(Default)]
pub(super) struct Classes<'a> {
    by_key: HashMap<Key<'a>, usize>,
    lists: Vec<Allowed>,
}

/// The shards that may hold a slice once they have room.
#[derive(Default)]
pub(super) struct Allowed {
    pub(super) home: Vec<u32>,
    pub(super) secondary: Vec<u32>,
}

impl Allowed {
    pub(super) fn has(&self, place: u32) -> bool {
        self.home.binary_search(&place).is_ok() || self.secondary.binary_search(&place).is_ok()
    }
}

impl<'a> World<'a> {
    /// The shards that may hold a slice.
    pub(super) fn allowed(&mut self, slice: u32) -> &Allowed {
        let class = self.class_of(slice);
        &self.classes.lists[class]
    }

    fn class_of(&mut self, slice: u32) -> usize {
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
            match allowed(&place.view, &subject) {
                Some(Standing::Home) => list.home.push(at),
                Some(Standing::Secondary) => list.secondary.push(at),
                _ => {}
            }
        }
        self.classes.lists.push(list);
        let class = self.classes.lists.len() - 1;
        self.classes.by_key.insert(key, class);
        class
    }

    /// The shard that a slice goes to: home before secondary, then by score,
    /// where a shard that is filling up counts with a part of its weight, as
    /// for any slice that is placed anew.
    pub(super) fn best_place(&mut self, slice: u32, level: Level) -> Option<u32> {
        let class = self.class_of(slice);
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
            // An upper bound of the score, as in placement: it spares most
            // shards their logarithm and their room being looked at.
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

    /// The shards that would win the slice by weight alone from the one it goes
    /// to. They are kept with it, so that placement does not call it back.
    pub(super) fn passed_over(&mut self, slice: u32, to: u32) -> Vec<ShardId> {
        let hash = self.hash[slice as usize];
        let class = self.class_of(slice);
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

    /// The allowed shards for a slice, the highest score first, whatever room
    /// they have.
    pub(super) fn by_score(&mut self, slice: u32, at_most: usize) -> Vec<u32> {
        let hash = self.hash[slice as usize];
        let from = self.at[slice as usize];
        let class = self.class_of(slice);
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

    /// Whether a slice is too big for every shard that may hold it, were that
    /// one empty.
    pub(super) fn is_too_big(&mut self, slice: u32) -> bool {
        let amount = self.demand[slice as usize];
        let class = self.class_of(slice);
        let list = &self.classes.lists[class];
        let mut shards = list.home.iter().chain(&list.secondary);
        !shards.any(|at| {
            let place = &self.places[*at as usize];
            (0..LANES).all(|lane| amount.0[lane] <= place.limit.0[lane])
        })
    }
}
