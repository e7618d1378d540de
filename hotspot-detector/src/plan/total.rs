//! What a plan adds up to: bytes, money, loads before and after, and the bytes
//! that no plan could do without.

use std::collections::HashSet;

use super::amount::Amount;
use super::cover::{Item, at_least};
use super::leave::Must;
use super::report::{Move, ShardLoad, Totals};
use super::room::item;
use super::why_not::{filling, worst};
use super::world::{Level, NOWHERE, Place, World};

const GIB: f64 = (1u64 << 30) as f64;

/// The shards that change or are over their limit.
pub(super) fn shards(world: &World<'_>) -> Vec<ShardLoad> {
    (0u32..)
        .zip(&world.places)
        .filter(|(_, place)| place.before != place.load || !place.load.within(&place.limit))
        .map(|(at, place)| {
            let shard = &world.fleet.shards[place.input];
            ShardLoad {
                shard_id: shard.id().clone(),
                before: filling(world, at, &place.before),
                after: filling(world, at, &place.load),
                limit: shard.limit,
                goal: shard.goal,
            }
        })
        .collect()
}

pub(super) fn totals(
    world: &World<'_>,
    moves: &[Move],
    put_off: usize,
    bytes_at_least: u64,
) -> Totals {
    let prices = &world.terms.prices;
    let money = moves.iter().map(|step| {
        let across = if step.across_regions {
            prices.per_gib_across_regions
        } else {
            0.0
        };
        prices.per_move + step.bytes as f64 / GIB * (prices.per_gib + across)
    });
    let over = |load: fn(&Place) -> &Amount| {
        let places = world.places.iter();
        places
            .filter(|place| !load(place).within(&place.limit))
            .count()
    };
    let fullest = |load: fn(&Place) -> &Amount| {
        let places = (0u32..).zip(&world.places);
        places
            .map(|(at, place)| worst(world, at, load(place)).1)
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
            .unwrap_or(world.fleet.at),
        put_off,
        over_before: over(|place| &place.before),
        over_after: over(|place| &place.load),
        fullest_before: fullest(|place| &place.before),
        fullest_after: fullest(|place| &place.load),
        strays: world.at.iter().filter(|at| **at == NOWHERE).count(),
    }
}

/// The bytes that any plan would have to copy that brings each shard as far as
/// this one does: those that had to leave and left, and for each shard that was
/// relieved, as if its last slice could leave in part. Whether there is room
/// elsewhere is not even asked.
pub(super) fn bytes_at_least(world: &World<'_>, musts: &[Must]) -> u64 {
    let bytes = |slice: u32| world.fleet.slices[slice as usize].bytes;
    let musts: HashSet<u32> = musts.iter().map(|must| must.slice).collect();
    let went = musts.iter().filter(|slice| world.moved[**slice as usize]);
    let went: u64 = went.map(|slice| bytes(*slice)).sum();
    let mut relieved = 0.0;
    for (place, at) in world.places.iter().zip(0u32..) {
        let was_in_trouble = place.is_active() && !place.before.within(&place.limit);
        if !was_in_trouble || place.is_in_trouble() {
            continue;
        }
        let level = if place.load.within(&place.goal) {
            Level::Goal
        } else {
            Level::Limit
        };
        let mut excess = place.before.above(place.ceiling(level));
        let mut items = Vec::new();
        for slice in world.first_residents(at).iter().copied() {
            if musts.contains(&slice) {
                // It has been counted, and takes its part of the load along.
                let without = excess.minus(&world.demand[slice as usize]);
                excess = without.above(&Amount::default());
            } else if world.is_held(slice).is_none() {
                let cost = bytes(slice);
                items.push(Item {
                    cost,
                    ..item(world, slice)
                });
            }
        }
        // Bytes are whole; a little less, for the dust of dividing.
        relieved += (at_least(&items, &excess) * (1.0 - 1e-9)).ceil();
    }
    went.saturating_add(relieved as u64)
}
