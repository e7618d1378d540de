//! Relief of a shard that is over its limit.
//!
//! ```text
//!   to the goal, others filled to their goal ─► to the limit, others filled to
//!   their limit ─► as far as it goes, others giving way
//! ```

use std::collections::HashSet;

use super::amount::Amount;
use super::cover::{Item, can_cover, cover};
use super::report::Cause;
use super::room::{make_room, movable};
use super::why_not::worst;
use super::world::{Level, World};

/// How often a set is chosen anew because some of it found no place.
const ROUNDS: usize = 12;
/// It is not when more than one in so many found none: the fleet is too full
/// for another choice to fare better.
const MOST_FOUND_ONE: usize = 4;
/// After how many slices in a row without a place no more are tried.
const IN_VAIN_MAX: usize = 100;
/// For how many slices of one shard room is made elsewhere.
const ROOM_TRIES: usize = 16;

/// Relieves every shard in trouble, the worst first.
pub(super) fn relieve_all(world: &mut World<'_>) {
    let mut troubled: Vec<(f64, u32)> = world
        .places
        .iter()
        .zip(0u32..)
        .filter(|(place, _)| place.is_in_trouble())
        .map(|(place, at)| (place.load.share_of(&place.limit), at))
        .collect();
    troubled.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.cmp(&two.1)));
    for (_, at) in troubled {
        // Room that another made may have filled or relieved it meanwhile.
        if world.places[at as usize].is_in_trouble() {
            relieve(world, at);
        }
    }
}

fn relieve(world: &mut World<'_>, at: u32) {
    let cause = relief_cause(world, at);
    let all = could_go(world, at);
    // Were it over its limit even without all that may go, moving will not help.
    if !can_cover(&all, &excess(world, at, Level::Limit)) {
        return;
    }
    let room = world.most_room();
    let candidates: Vec<Item> = all
        .iter()
        .filter(|item| item.amount.within(&room))
        .copied()
        .collect();
    for level in [Level::Goal, Level::Limit] {
        if to_level(world, at, level, candidates.clone(), &cause) {
            return;
        }
    }
    as_far_as_it_goes(world, at, &candidates, &cause);
    if world.places[at as usize].is_in_trouble() {
        others_give_way(world, at, &all, &cause);
    }
}

/// Whether a shard would be under its limit without all that may go.
pub(super) fn would_help(world: &mut World<'_>, at: u32) -> bool {
    let all = could_go(world, at);
    can_cover(&all, &excess(world, at, Level::Limit))
}

/// What may go and could be held elsewhere, had it the room.
pub(super) fn could_go(world: &mut World<'_>, at: u32) -> Vec<Item> {
    let mut all = movable(world, at);
    all.retain(|item| !is_too_big(world, at, item));
    all
}

/// Whether no shard could hold it. Only what fills most of its own is looked at.
fn is_too_big(world: &mut World<'_>, at: u32, item: &Item) -> bool {
    let share = item.amount.share_of(&world.places[at as usize].limit);
    share > 0.5 && world.is_too_big(item.slice)
}

fn excess(world: &World<'_>, at: u32, level: Level) -> Amount {
    let place = &world.places[at as usize];
    place.load.above(place.ceiling(level))
}

fn relief_cause(world: &World<'_>, at: u32) -> Cause {
    let (measure, share, limit) = worst(world, at, &world.places[at as usize].load);
    Cause::Relief {
        measure,
        share,
        limit,
    }
}

/// All of it, or nothing.
fn to_level(
    world: &mut World<'_>,
    at: u32,
    level: Level,
    mut candidates: Vec<Item>,
    cause: &Cause,
) -> bool {
    let excess = excess(world, at, level);
    if !excess.within(&world.all_room(level)) {
        return false;
    }
    for _ in 0..ROUNDS {
        let Some(mut chosen) = cover(&candidates, &excess) else {
            return false;
        };
        large_first(world, at, &mut chosen);
        let mark = world.steps.len();
        let mut without_place = HashSet::new();
        for item in &chosen {
            match world.best_place(item.slice, level) {
                Some(to) => world.commit(item.slice, to, cause.clone()),
                None => {
                    without_place.insert(item.slice);
                }
            }
        }
        if without_place.is_empty() {
            return true;
        }
        world.undo_to(mark);
        if without_place.len() * MOST_FOUND_ONE > chosen.len().max(MOST_FOUND_ONE) {
            return false;
        }
        candidates.retain(|item| !without_place.contains(&item.slice));
    }
    false
}

fn large_first(world: &World<'_>, at: u32, items: &mut [Item]) {
    let limit = &world.places[at as usize].limit;
    items.sort_by(|one, two| {
        let share = |item: &Item| item.amount.share_of(limit);
        let order = share(two).total_cmp(&share(one));
        order.then(one.tie.cmp(&two.tie))
    });
}

/// One after the other, the most relief per byte first, while it is over its
/// limit.
fn as_far_as_it_goes(world: &mut World<'_>, at: u32, candidates: &[Item], cause: &Cause) {
    let mut in_vain = 0;
    for item in by_use(candidates, &excess(world, at, Level::Limit)) {
        let left = excess(world, at, Level::Limit);
        if left.is_zero() || in_vain == IN_VAIN_MAX {
            return;
        }
        if !helps(&item, &left) {
            continue;
        }
        match world.best_place(item.slice, Level::Limit) {
            Some(to) => {
                world.commit(item.slice, to, cause.clone());
                in_vain = 0;
            }
            None => in_vain += 1,
        }
    }
}

/// As before, where others give way to what found no place.
fn others_give_way(world: &mut World<'_>, at: u32, all: &[Item], cause: &Cause) {
    let mut tries = ROOM_TRIES;
    for item in by_use(all, &excess(world, at, Level::Limit)) {
        let left = excess(world, at, Level::Limit);
        if left.is_zero() || tries == 0 || world.room_tries == 0 {
            return;
        }
        if helps(&item, &left) && !world.moved[item.slice as usize] {
            tries -= 1;
            make_room(world, item.slice, cause);
        }
    }
}

fn helps(item: &Item, left: &Amount) -> bool {
    let both = item.amount.0.iter().zip(left.0);
    both.into_iter().any(|(gives, left)| *gives > 0 && left > 0)
}

fn by_use(items: &[Item], excess: &Amount) -> Vec<Item> {
    let rating = |item: &Item| {
        let lanes = item.amount.0.iter().zip(excess.0);
        let gives: f64 = lanes
            .filter(|(_, over)| *over > 0)
            .map(|(gives, over)| (*gives).min(over) as f64 / over as f64)
            .sum();
        gives / item.cost.max(1) as f64
    };
    let mut rated: Vec<(f64, &Item)> = items.iter().map(|item| (rating(item), item)).collect();
    rated.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.tie.cmp(&two.1.tie)));
    rated.into_iter().map(|(_, item)| *item).collect()
}
