//! Room that is made: a slice that fits nowhere goes where others can give way,
//! each to a shard that has room for it.

use super::cover::{Item, cover};
use super::report::Cause;
use super::world::{Level, World};

/// How many shards are tried for one slice, the highest score first.
const SHARDS_TRIED: usize = 6;

/// Moves a slice to the shard where making room costs least. Whether it could.
pub(super) fn make_room(world: &mut World<'_>, slice: u32, cause: &Cause) -> bool {
    if world.room_tries == 0 || !world.demand[slice as usize].within(&world.all_room(Level::Limit))
    {
        return false;
    }
    let mut best: Option<(u64, u32)> = None;
    for to in world.by_score(slice, SHARDS_TRIED) {
        let mark = world.steps.len();
        if let Some(cost) = give_way(world, slice, to)
            && best.is_none_or(|(least, _)| cost < least)
        {
            best = Some((cost, to));
        }
        world.undo_to(mark);
    }
    best.is_some_and(|(_, to)| make_room_at(world, slice, to, cause))
}

/// Moves a slice to this shard, if others there can give way.
pub(super) fn make_room_at(world: &mut World<'_>, slice: u32, to: u32, cause: &Cause) -> bool {
    let mark = world.steps.len();
    if give_way(world, slice, to).is_none() {
        world.undo_to(mark);
        return false;
    }
    world.commit(slice, to, cause.clone());
    true
}

/// Moves away from `to` what is in the way of a slice; what that costs.
fn give_way(world: &mut World<'_>, slice: u32, to: u32) -> Option<u64> {
    let place = &world.places[to as usize];
    let excess = place
        .load
        .plus(&world.demand[slice as usize])
        .above(&place.limit);
    world.room_tries = world.room_tries.checked_sub(1)?;
    let room = world.most_room();
    let mut items = movable(world, to);
    items.retain(|item| item.amount.within(&room));
    let set = cover(&items, &excess)?;
    let reason = world.fleet.slices[slice as usize].id.clone();
    let mut cost = 0;
    for item in set {
        let aside = world.best_place(item.slice, Level::Limit)?;
        let slice = reason.clone();
        world.commit(item.slice, aside, Cause::Room { slice });
        cost += item.cost;
    }
    Some(cost)
}

/// The slices of a shard that may be moved to help others.
pub(super) fn movable(world: &World<'_>, at: u32) -> Vec<Item> {
    world
        .residents(at)
        .filter(|slice| world.is_held(*slice).is_none())
        .map(|slice| item(world, slice))
        .collect()
}

pub(super) fn item(world: &World<'_>, slice: u32) -> Item {
    Item {
        slice,
        amount: world.demand[slice as usize],
        cost: world.cost(slice),
        tie: world.hash[slice as usize],
    }
}
