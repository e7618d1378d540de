//! The fleet while a plan is being made: the loads after the migrations chosen so far.
//! Every migration fits its target at the moment it is chosen, so the plan can be executed
//! in the order of choosing.

use std::collections::HashMap;

use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;
use ballast_domain::placement::PlacementShard;
use ballast_domain::shard::ShardState;

use super::amount::Amount;
use super::input::{Dial, FleetSnapshot, PlanSlice};
use super::report::MigrationCause;
use super::targets::Classes;
use super::terms::PlanTerms;

/// The shard index of a slice whose shard is not in the fleet.
pub(super) const NO_SHARD: u32 = u32::MAX;

/// The level up to which a shard may be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Goal,
    Limit,
}

/// A shard and its planned load.
pub(super) struct ShardDraft {
    pub(super) view: PlacementShard,
    /// Its index in the fleet's list.
    pub(super) input: usize,
    pub(super) before: Amount,
    pub(super) load: Amount,
    pub(super) limit: Amount,
    pub(super) goal: Amount,
    /// Slices that running migrations are moving to it.
    pub(super) arriving: usize,
}

impl ShardDraft {
    pub(super) fn ceiling(&self, level: Level) -> &Amount {
        match level {
            Level::Goal => &self.goal,
            Level::Limit => &self.limit,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.view.state == ShardState::Active
    }

    /// Whether it needs relief: active and over its limit. All slices leave a draining shard
    /// anyway, and nothing can be copied from one that is down.
    pub(super) fn is_overloaded(&self) -> bool {
        self.is_active() && !self.load.within(&self.limit)
    }
}

/// A chosen migration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DraftMove {
    pub(super) slice: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) cause: MigrationCause,
    /// The slice was moved before in this plan, to a temporary shard.
    again: bool,
}

/// Why a slice is not moved to relieve a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveBlocker {
    Closed,
    OutOfScope,
    Moving,
    Dial(Dial),
    Pinned,
    Settling(Timestamp),
    Frozen(Timestamp),
}

pub(super) struct PlanDraft<'a> {
    pub(super) fleet: &'a FleetSnapshot,
    pub(super) terms: &'a PlanTerms,
    /// In the order of their IDs, as in placement.
    pub(super) places: Vec<ShardDraft>,
    pub(super) demand: Vec<Amount>,
    /// The hash of each slice's name.
    pub(super) hash: Vec<u64>,
    /// The current shard index of each slice.
    pub(super) at: Vec<u32>,
    pub(super) moved: Vec<bool>,
    pub(super) steps: Vec<DraftMove>,
    pub(super) classes: Classes<'a>,
    /// Remaining attempts to make room in this round.
    pub(super) room_tries: u32,
    index: HashMap<&'a ShardId, u32>,
    /// The slices that were on each shard at first, shard by shard.
    residents: Vec<u32>,
    residents_from: Vec<u32>,
}

impl<'a> PlanDraft<'a> {
    pub(super) fn new(fleet: &'a FleetSnapshot, terms: &'a PlanTerms) -> Self {
        let (places, index) = places(fleet);
        let mut draft = Self {
            fleet,
            terms,
            demand: Vec::with_capacity(fleet.slices.len()),
            hash: fleet.slices.iter().map(PlanSlice::hash).collect(),
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
        draft.count();
        draft
    }

    fn count(&mut self) {
        let mut sizes = vec![0u32; self.places.len() + 1];
        for slice in &self.fleet.slices {
            let amount = Amount::from_slice(&slice.demand);
            let at = self.shard_index(&slice.shard_id).unwrap_or(NO_SHARD);
            if let Some(place) = self.places.get_mut(at as usize) {
                place.load = place.load.plus(&amount);
                sizes[at as usize + 1] += 1;
            }
            if let Some(to) = slice.moving_to.as_ref().and_then(|to| self.shard_index(to))
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
            if *at != NO_SHARD {
                let slot = &mut next[*at as usize];
                self.residents[*slot as usize] = slice as u32;
                *slot += 1;
            }
        }
        self.residents_from = sizes;
    }

    pub(super) fn shard_index(&self, shard: &ShardId) -> Option<u32> {
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

    pub(super) fn commit(&mut self, slice: u32, to: u32, cause: MigrationCause) {
        let from = self.at[slice as usize];
        let amount = self.demand[slice as usize];
        let place = &mut self.places[from as usize];
        place.load = place.load.minus(&amount);
        let place = &mut self.places[to as usize];
        place.load = place.load.plus(&amount);
        self.at[slice as usize] = to;
        let again = std::mem::replace(&mut self.moved[slice as usize], true);
        self.steps.push(DraftMove {
            again,
            slice,
            from,
            to,
            cause,
        });
    }

    /// Undoes every step after the first `steps`.
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

    /// The cost of moving it, for choosing the cheapest set.
    pub(super) fn cost(&self, slice: u32) -> u64 {
        self.fleet.slices[slice as usize]
            .bytes
            .saturating_add(self.terms.prices.bytes_per_move)
    }

    /// Why a slice cannot move even if it must leave its shard.
    pub(super) fn leave_blocker(&self, slice: u32) -> Option<MoveBlocker> {
        let slice = &self.fleet.slices[slice as usize];
        if slice.closed {
            Some(MoveBlocker::Closed)
        } else if !slice.in_scope {
            Some(MoveBlocker::OutOfScope)
        } else if slice.moving_to.is_some() {
            Some(MoveBlocker::Moving)
        } else if matches!(slice.dial, Dial::Pause | Dial::Stop) {
            Some(MoveBlocker::Dial(slice.dial))
        } else {
            None
        }
    }

    /// Why a slice is not moved to relieve a shard.
    pub(super) fn help_blocker(&self, slice: u32) -> Option<MoveBlocker> {
        if let Some(hold) = self.leave_blocker(slice) {
            return Some(hold);
        }
        let slice = &self.fleet.slices[slice as usize];
        if slice.dial == Dial::Essential {
            return Some(MoveBlocker::Dial(slice.dial));
        }
        if slice.pin.is_some() {
            return Some(MoveBlocker::Pinned);
        }
        let settled = slice.placed_at.plus_seconds(self.terms.settle_seconds);
        if settled > self.fleet.at {
            return Some(MoveBlocker::Settling(settled));
        }
        self.terms
            .frozen(&slice.id.tenant_id, self.fleet.at)
            .map(MoveBlocker::Frozen)
    }

    /// The total room of all active shards, per lane. More than that cannot be placed.
    pub(super) fn all_room(&self, level: Level) -> Amount {
        let active = self.places.iter().filter(|place| place.is_active());
        active.fold(Amount::default(), |sum, place| {
            sum.plus(&place.ceiling(level).above(&place.load))
        })
    }

    /// The largest room of any active shard, per lane. A slice with more than that in one
    /// lane fits nowhere; this check saves a search.
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

fn places(fleet: &FleetSnapshot) -> (Vec<ShardDraft>, HashMap<&ShardId, u32>) {
    let mut order: Vec<usize> = (0..fleet.shards.len()).collect();
    order.sort_by(|one, two| fleet.shards[*one].id().cmp(fleet.shards[*two].id()));
    order.dedup_by(|one, two| fleet.shards[*one].id() == fleet.shards[*two].id());
    let place = |input: usize| {
        let shard = &fleet.shards[input];
        let slices_max = shard.record.max_slices;
        let overhead = Amount::from_resources(&shard.overhead);
        ShardDraft {
            view: PlacementShard::new(&shard.record, 0),
            input,
            before: overhead,
            load: overhead,
            arriving: 0,
            limit: Amount::ceiling(&shard.capacity, shard.limit, slices_max),
            // The goal is never above the limit.
            goal: Amount::ceiling(&shard.capacity, shard.goal.min(shard.limit), slices_max),
        }
    };
    let places: Vec<ShardDraft> = order.into_iter().map(place).collect();
    let index = places
        .iter()
        .zip(0..)
        .map(|(place, at)| (fleet.shards[place.input].id(), at))
        .collect();
    (places, index)
}
