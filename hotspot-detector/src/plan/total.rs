//! A plan's totals: bytes, money, loads before and after, and a lower bound of the bytes.

use std::collections::HashSet;

use super::amount::Amount;
use super::cover::{CoverItem, at_least};
use super::draft::{Level, NO_SHARD, PlanDraft, ShardDraft};
use super::leave::RequiredMove;
use super::report::{PlannedMigration, ShardEffect, Totals};
use super::room::item;
use super::why_not::{filling, worst};

const GIB: f64 = (1u64 << 30) as f64;

/// The shards that change or are over their limit.
pub(super) fn shards(draft: &PlanDraft<'_>) -> Vec<ShardEffect> {
    (0u32..)
        .zip(&draft.places)
        .filter(|(_, place)| place.before != place.load || !place.load.within(&place.limit))
        .map(|(at, place)| {
            let shard = &draft.fleet.shards[place.input];
            ShardEffect {
                shard_id: shard.id().clone(),
                before: filling(draft, at, &place.before),
                after: filling(draft, at, &place.load),
                capacity: shard.capacity,
                limit: shard.limit,
                goal: shard.goal,
            }
        })
        .collect()
}

pub(super) fn totals(
    draft: &PlanDraft<'_>,
    moves: &[PlannedMigration],
    put_off: usize,
    bytes_at_least: u64,
) -> Totals {
    let prices = &draft.terms.prices;
    let money = moves.iter().map(|step| {
        let across = if step.across_regions {
            prices.per_gib_across_regions
        } else {
            0.0
        };
        prices.per_move + step.bytes as f64 / GIB * (prices.per_gib + across)
    });
    let over = |load: fn(&ShardDraft) -> &Amount| {
        let places = draft.places.iter();
        places
            .filter(|place| !load(place).within(&place.limit))
            .count()
    };
    let fullest = |load: fn(&ShardDraft) -> &Amount| {
        let places = (0u32..).zip(&draft.places);
        places
            .map(|(at, place)| worst(draft, at, load(place)).1)
            .fold(0.0, f64::max)
    };
    Totals {
        moves: moves.len(),
        bytes: moves.iter().map(|step| step.bytes).sum(),
        bytes_at_least,
        money: money.sum(),
        ends_at: moves
            .iter()
            .map(|step| step.ends_at)
            .max()
            .unwrap_or(draft.fleet.at),
        put_off,
        over_before: over(|place| &place.before),
        over_after: over(|place| &place.load),
        fullest_before: fullest(|place| &place.before),
        fullest_after: fullest(|place| &place.load),
        strays: draft.at.iter().filter(|at| **at == NO_SHARD).count(),
    }
}

/// A lower bound of the bytes for any plan with the same effect: the slices that had to
/// leave, and for each relieved shard the fractional relaxation of its covering problem.
/// Room on targets is ignored.
pub(super) fn bytes_at_least(draft: &PlanDraft<'_>, required: &[RequiredMove]) -> u64 {
    let bytes = |slice: u32| draft.fleet.slices[slice as usize].bytes;
    let required: HashSet<u32> = required
        .iter()
        .map(|required_move| required_move.slice)
        .collect();
    let went = required
        .iter()
        .filter(|slice| draft.moved[**slice as usize]);
    let went: u64 = went.map(|slice| bytes(*slice)).sum();
    let mut relieved = 0.0;
    for (place, at) in draft.places.iter().zip(0u32..) {
        let was_in_trouble = place.is_active() && !place.before.within(&place.limit);
        if !was_in_trouble || place.is_overloaded() {
            continue;
        }
        let level = if place.load.within(&place.goal) {
            Level::Goal
        } else {
            Level::Limit
        };
        let mut excess = place.before.above(place.ceiling(level));
        let mut items = Vec::new();
        for slice in draft.first_residents(at).iter().copied() {
            if required.contains(&slice) {
                // It is counted already, and its load leaves with it.
                let without = excess.minus(&draft.demand[slice as usize]);
                excess = without.above(&Amount::default());
            } else if draft.help_blocker(slice).is_none() {
                let cost = bytes(slice);
                items.push(CoverItem {
                    cost,
                    ..item(draft, slice)
                });
            }
        }
        // Bytes are whole; slightly less, because of rounding errors.
        relieved += (at_least(&items, &excess) * (1.0 - 1e-9)).ceil();
    }
    went.saturating_add(relieved as u64)
}
