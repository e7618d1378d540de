//! The fleet while a plan is made: loads as they are after the moves chosen so
//! far. Every move that is chosen fits where it goes at that moment, so the
//! order of choosing is an order in which the plan can be carried out.

use std::collections::HashMap;

use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;
use ballast_domain::placement::ShardView;
use ballast_domain::shard::ShardState;

use super::amount::Amount;
use super::input::{Dial, Fleet, Slice};
use super::places::Classes;
use super::report::Cause;
use super::terms::Terms;

/// The place of a slice whose shard is not in the fleet.
pub(super) const NOWHERE: u32 = u32::MAX;

/// How full a shard may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Goal,
    Limit,
}

/// A shard, and what is on it.
pub(super) struct Place {
    pub(super) view: ShardView,
    /// Its place in the fleet's list.
    pub(super) input: usize,
    pub(super) before: Amount,
    pub(super) load: Amount,
    pub(super) limit: Amount,
    pub(super) goal: Amount,
    /// Slices that moves of before are bringing to it.
    pub(super) arriving: usize,
}

impl Place {
    pub(super) fn ceiling(&self, level: Level) -> &Amount {
        match level {
            Level::Goal => &self.goal,
            Level::Limit => &self.limit,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.view.state == ShardState::Active
    }

    /// Whether it is to be relieved: over its limit, and in service. A shard
    /// that drains is left by all anyway, and nothing can be copied from one
    /// that is down.
    pub(super) fn is_in_trouble(&self) -> bool {
        self.is_active() && !self.load.within(&self.limit)
    }
}

/// One move that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) slice: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) cause: Cause,
    /// The slice has been moved before, to a place that was meant for a while.
    again: bool,
}

/// Why a slice is not moved to help others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Closed,
    Moving,
    Dial(Dial),
    Pinned,
    Settling(Timestamp),
    Frozen(Timestamp),
}

pub(super) struct World<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) terms: &'a Terms,
    /// In the order of their ids, as placement has them.
    pub(super) places: Vec<Place>,
    pub(super) demand: Vec<Amount>,
    /// The hash of each slice's name.
    pub(super) hash: Vec<u64>,
    /// The place of each slice now.
    pub(super) at: Vec<u32>,
    pub(super) moved: Vec<bool>,
    pub(super) steps: Vec<Step>,
    pub(super) classes: Classes<'a>,
    /// How often room may yet be made in this round.
    pub(super) room_tries: u32,
    index: HashMap<&'a ShardId, u32>,
    /// The slices that were on each place at first, one place after the other.
    residents: Vec<u32>,
    residents_from: Vec<u32>,
}

impl<'a> World<'a> {
    pub(super) fn new(fleet: &'a Fleet, terms: &'a Terms) -> Self {
        let (places, index) = places(fleet);
        let mut world = Self {
            fleet,
            terms,
            demand: Vec::with_capacity(fleet.slices.len()),
            hash: fleet.slices.iter().map(Slice::hash).collect(),
            at: Vec::with_capacity(fleet.slices.len()),
            moved: vec![false; fleet.slices.len()],
            steps: Vec::new(),
            classes: Classes::default(),
            room_tries: 0,
            residents: Vec::new(),
            residents_from: Vec::new(),
            places,
            index,
        };
        world.count();
        world
    }

    fn count(&mut self) {
        let mut sizes = vec![0u32; self.places.len() + 1];
        for slice in &self.fleet.slices {
            let amount = Amount::of_slice(&slice.demand);
            let at = self.place_of(&slice.shard_id).unwrap_or(NOWHERE);
            if let Some(place) = self.places.get_mut(at as usize) {
                place.load = place.load.plus(&amount);
                sizes[at as usize + 1] += 1;
            }
            if let Some(to) = slice.moving_to.as_ref().and_then(|to| self.place_of(to))
                && to != at
            {
                let place = &mut self.places[to as usize];
                place.load = place.load.plus(&amount);
                place.arriving += 1;
            }
            self.demand.push(amount);
            self.at.push(at);
        }
        for place in &mut self.places {
            place.before = place.load;
            place.view.slices = place.load.0[super::amount::COUNT].unsigned_abs();
        }
        for at in 1..sizes.len() {
            sizes[at] += sizes[at - 1];
        }
        let mut next = sizes.clone();
        self.residents = vec![0; sizes.last().map_or(0, |all| *all as usize)];
        for (slice, at) in self.at.iter().enumerate() {
            if *at != NOWHERE {
                let slot = &mut next[*at as usize];
                self.residents[*slot as usize] = slice as u32;
                *slot += 1;
            }
        }
        self.residents_from = sizes;
    }

    pub(super) fn place_of(&self, shard: &ShardId) -> Option<u32> {
        self.index.get(shard).copied()
    }

    /// The slices that were on a shard at first and have not been moved.
    pub(super) fn residents(&self, place: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.first_residents(place).iter().copied();
        first.filter(|slice| !self.moved[*slice as usize])
    }

    /// The slices that were on a shard at first.
    pub(super) fn first_residents(&self, place: u32) -> &[u32] {
        let from = self.residents_from[place as usize] as usize;
        let until = self.residents_from[place as usize + 1] as usize;
        &self.residents[from..until]
    }

    /// Whether a slice fits on a shard as it is now.
    pub(super) fn fits(&self, slice: u32, to: u32, level: Level) -> bool {
        let place = &self.places[to as usize];
        place
            .load
            .fits(&self.demand[slice as usize], place.ceiling(level))
    }

    pub(super) fn commit(&mut self, slice: u32, to: u32, cause: Cause) {
        let from = self.at[slice as usize];
        let amount = self.demand[slice as usize];
        let place = &mut self.places[from as usize];
        place.load = place.load.minus(&amount);
        let place = &mut self.places[to as usize];
        place.load = place.load.plus(&amount);
        self.at[slice as usize] = to;
        let again = std::mem::replace(&mut self.moved[slice as usize], true);
        self.steps.push(Step {
            again,
            slice,
            from,
            to,
            cause,
        });
    }

    /// Takes back every step after the first `steps`.
    pub(super) fn undo_to(&mut self, steps: usize) {
        while self.steps.len() > steps {
            let Some(step) = self.steps.pop() else { return };
            let amount = self.demand[step.slice as usize];
            let place = &mut self.places[step.to as usize];
            place.load = place.load.minus(&amount);
            let place = &mut self.places[step.from as usize];
            place.load = place.load.plus(&amount);
            self.at[step.slice as usize] = step.from;
            self.moved[step.slice as usize] = step.again;
        }
    }

    /// What a move of it weighs when the cheapest is looked for.
    pub(super) fn cost(&self, slice: u32) -> u64 {
        self.fleet.slices[slice as usize]
            .bytes
            .saturating_add(self.terms.prices.bytes_per_move)
    }

    /// Why a slice is not moved, even if it must leave.
    pub(super) fn is_kept(&self, slice: u32) -> Option<Hold> {
        let slice = &self.fleet.slices[slice as usize];
        if slice.closed {
            Some(Hold::Closed)
        } else if slice.moving_to.is_some() {
            Some(Hold::Moving)
        } else if matches!(slice.dial, Dial::Pause | Dial::Stop) {
            Some(Hold::Dial(slice.dial))
        } else {
            None
        }
    }

    /// Why a slice is not moved to help others.
    pub(super) fn is_held(&self, slice: u32) -> Option<Hold> {
        if let Some(hold) = self.is_kept(slice) {
            return Some(hold);
        }
        let slice = &self.fleet.slices[slice as usize];
        if slice.dial == Dial::Essential {
            return Some(Hold::Dial(slice.dial));
        }
        if slice.pin.is_some() {
            return Some(Hold::Pinned);
        }
        let settled = slice.placed_at.plus_seconds(self.terms.settle_seconds);
        if settled > self.fleet.at {
            return Some(Hold::Settling(settled));
        }
        self.terms
            .frozen(&slice.id.tenant_id, self.fleet.at)
            .map(Hold::Frozen)
    }

    /// The room of all shards in service together, lane by lane. What is more
    /// than that cannot be placed, however it is divided.
    pub(super) fn all_room(&self, level: Level) -> Amount {
        let active = self.places.iter().filter(|place| place.is_active());
        active.fold(Amount::default(), |sum, place| {
            sum.plus(&place.ceiling(level).above(&place.load))
        })
    }

    /// The most room that any shard in service has, lane by lane. What is more
    /// than that in one lane fits nowhere, which is seen without looking.
    pub(super) fn most_room(&self) -> Amount {
        let mut most = [i64::MIN; super::amount::LANES];
        for place in self.places.iter().filter(|place| place.is_active()) {
            for (lane, most) in most.iter_mut().enumerate() {
                let room = place.limit.0[lane].saturating_sub(place.load.0[lane]);
                *most = (*most).max(room);
            }
        }
        Amount(most)
    }
}

fn places(fleet: &Fleet) -> (Vec<Place>, HashMap<&ShardId, u32>) {
    let mut order: Vec<usize> = (0..fleet.shards.len()).collect();
    order.sort_by(|one, two| fleet.shards[*one].id().cmp(fleet.shards[*two].id()));
    order.dedup_by(|one, two| fleet.shards[*one].id() == fleet.shards[*two].id());
    let place = |input: usize| {
        let shard = &fleet.shards[input];
        let slices_max = shard.record.max_slices;
        let overhead = Amount::of(&shard.overhead);
        Place {
            view: ShardView::new(&shard.record, 0),
            input,
            before: overhead,
            load: overhead,
            arriving: 0,
            limit: Amount::ceiling(&shard.capacity, shard.limit, slices_max),
            // Were the goal above the limit, the limit would be the goal.
            goal: Amount::ceiling(&shard.capacity, shard.goal.min(shard.limit), slices_max),
        }
    };
    let places: Vec<Place> = order.into_iter().map(place).collect();
    let index = places
        .iter()
        .zip(0..)
        .map(|(place, at)| (fleet.shards[place.input].id(), at))
        .collect();
    (places, index)
}
