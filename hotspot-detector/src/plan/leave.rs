//! Slices that must leave: their shard drains, stands in a region or carries
//! tags that no longer suit them, or an operator pinned them elsewhere.

use std::collections::{BTreeMap, HashMap};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use ballast_domain::placement::vetoes;
use ballast_domain::shard::ShardState;

use super::report::Cause;
use super::room::make_room;
use super::world::{Level, NOWHERE, World};

/// A slice that must leave.
pub(super) struct Must {
    pub(super) slice: u32,
    /// The one shard that it is to go to, if it is pinned.
    pub(super) to: Option<u32>,
}

/// Every slice that must leave the shard it is on.
pub(super) fn musts(world: &mut World<'_>) -> Vec<Must> {
    let fleet = world.fleet;
    let mut found = Vec::new();
    for (slice, id) in fleet.slices.iter().zip(0u32..) {
        let at = world.at[id as usize];
        if at == NOWHERE || slice.closed {
            continue;
        }
        let pinned = slice
            .pin
            .as_ref()
            .and_then(|pin| world.place_of(&pin.shard_id))
            .filter(|to| world.allowed(id).has(*to));
        if let Some(to) = pinned {
            if to != at {
                found.push(Must {
                    slice: id,
                    to: Some(to),
                });
            }
            continue;
        }
        let place = &world.places[at as usize];
        // Nearly every slice is at home and wants no tag.
        let suits = slice.zones.is_empty() && slice.home_region == place.view.region;
        if place.is_active() && (suits || world.allowed(id).has(at)) {
            continue;
        }
        found.push(Must {
            slice: id,
            to: None,
        });
    }
    found
}

/// Whether a slice that must leave can be moved at all.
fn can_go(world: &World<'_>, must: &Must) -> bool {
    let from = &world.places[world.at[must.slice as usize] as usize];
    !world.moved[must.slice as usize]
        && from.view.state != ShardState::Down
        && world.is_kept(must.slice).is_none()
}

/// Finds places for those that must leave, as far as there are any.
pub(super) fn leave(world: &mut World<'_>, musts: &[Must]) {
    let (mut pinned, mut free): (Vec<&Must>, Vec<&Must>) = musts
        .iter()
        .filter(|must| can_go(world, must))
        .partition(|must| must.to.is_some());
    // By name, so that the order of listing plays no part.
    pinned.sort_by_cached_key(|must| world.hash[must.slice as usize]);
    follow_pins(world, &pinned);
    // The large ones first: they are the ones that find no room later.
    free.sort_by_cached_key(|must| {
        let place = &world.places[world.at[must.slice as usize] as usize];
        let share = world.demand[must.slice as usize].share_of(&place.limit);
        let tie = world.hash[must.slice as usize];
        (std::cmp::Reverse((share * 1e9) as u64), tie)
    });
    let room = world.most_room();
    for must in free {
        let amount = world.demand[must.slice as usize];
        if !amount.within(&room) {
            continue;
        }
        let cause = leaves(world, must.slice);
        let to = world
            .best_place(must.slice, Level::Goal)
            .or_else(|| world.best_place(must.slice, Level::Limit));
        match to {
            Some(to) => world.commit(must.slice, to, cause),
            None => {
                make_room(world, must.slice, &cause);
            }
        }
    }
}

fn leaves(world: &World<'_>, slice: u32) -> Cause {
    let view = &world.places[world.at[slice as usize] as usize].view;
    let subject = world.fleet.slices[slice as usize].subject();
    let why: Vec<String> = vetoes(view, &subject)
        .into_iter()
        .map(|veto| veto.message)
        .collect();
    Cause::Leave {
        why: format!("{} {}", view.id, why.join(" and ")),
    }
}

/// Moves pinned slices to where they are pinned. Those that wait for each
/// other's room go round a third shard, if one has the room meanwhile.
fn follow_pins(world: &mut World<'_>, pinned: &[&Must]) {
    advance(world, pinned);
    let stuck: Vec<&Must> = pinned
        .iter()
        .copied()
        .filter(|must| !world.moved[must.slice as usize])
        .collect();
    for ring in rings(world, &stuck) {
        step_aside(world, &ring);
    }
    advance(world, &stuck);
    for must in stuck {
        if !world.moved[must.slice as usize]
            && let Some(to) = must.to
        {
            let cause = pin_cause(world, must.slice);
            super::room::make_room_at(world, must.slice, to, &cause);
        }
    }
}

/// Moves whatever fits, until nothing more does.
fn advance(world: &mut World<'_>, pinned: &[&Must]) {
    loop {
        let before = world.steps.len();
        for must in pinned {
            if let Some(to) = must.to
                && !world.moved[must.slice as usize]
                && world.fits(must.slice, to, Level::Limit)
            {
                let cause = pin_cause(world, must.slice);
                world.commit(must.slice, to, cause);
            }
        }
        if world.steps.len() == before {
            return;
        }
    }
}

fn pin_cause(world: &World<'_>, slice: u32) -> Cause {
    let pin = world.fleet.slices[slice as usize].pin.as_ref();
    Cause::Pin {
        actor: pin.map(|pin| pin.actor.to_string()).unwrap_or_default(),
    }
}

/// The groups of slices that wait for each other: those between shards of which
/// each can be reached from each along what is wanted.
fn rings<'m>(world: &World<'_>, stuck: &[&'m Must]) -> Vec<Vec<&'m Must>> {
    let mut wanted: DiGraph<u32, ()> = DiGraph::new();
    let mut nodes = HashMap::new();
    for must in stuck {
        if let Some(to) = must.to {
            let ends = [world.at[must.slice as usize], to].map(|shard| {
                let node = nodes.entry(shard);
                *node.or_insert_with(|| wanted.add_node(shard))
            });
            wanted.update_edge(ends[0], ends[1], ());
        }
    }
    let mut ring_of = HashMap::new();
    for (ring, shards) in tarjan_scc(&wanted).into_iter().enumerate() {
        if shards.len() > 1 {
            ring_of.extend(shards.into_iter().map(|node| (wanted[node], ring)));
        }
    }
    let mut rings: BTreeMap<usize, Vec<&Must>> = BTreeMap::new();
    for must in stuck {
        let from = ring_of.get(&world.at[must.slice as usize]);
        let to = must.to.and_then(|to| ring_of.get(&to));
        if let (Some(from), Some(to)) = (from, to)
            && from == to
        {
            rings.entry(*from).or_default().push(must);
        }
    }
    rings.into_values().collect()
}

/// Lets the cheapest of a ring that can step aside do so, until the others have
/// passed. All of them arrive, or nothing is done.
fn step_aside(world: &mut World<'_>, ring: &[&Must]) {
    let mut by_cost = ring.to_vec();
    by_cost.sort_by_key(|must| (world.cost(must.slice), world.hash[must.slice as usize]));
    for first in by_cost {
        let (Some(home), Some(aside)) = (first.to, world.best_place(first.slice, Level::Limit))
        else {
            continue;
        };
        let mark = world.steps.len();
        let then = world.places[home as usize].view.id.clone();
        world.commit(first.slice, aside, Cause::Aside { then });
        advance(world, ring);
        let others_passed = ring.iter().all(|must| world.moved[must.slice as usize]);
        if others_passed && world.fits(first.slice, home, Level::Limit) {
            let cause = pin_cause(world, first.slice);
            world.commit(first.slice, home, cause);
            return;
        }
        world.undo_to(mark);
    }
}
