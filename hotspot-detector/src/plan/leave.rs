//! Slices that must leave their shard: it drains, its region or zones no longer fit, or an
//! operator pinned the slice elsewhere.

use std::collections::{BTreeMap, HashMap};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use ballast_domain::placement::vetoes;
use ballast_domain::shard::ShardState;

use super::draft::{Level, NO_SHARD, PlanDraft};
use super::report::MigrationCause;
use super::room::make_room;

/// A slice that must leave.
pub(super) struct RequiredMove {
    pub(super) slice: u32,
    /// The shard that it is pinned to, if it is.
    pub(super) to: Option<u32>,
}

/// Every slice that must leave the shard it is on.
pub(super) fn required_moves(draft: &mut PlanDraft<'_>) -> Vec<RequiredMove> {
    let fleet = draft.fleet;
    let mut found = Vec::new();
    for (slice, id) in fleet.slices.iter().zip(0u32..) {
        let at = draft.at[id as usize];
        if at == NO_SHARD || slice.closed || !slice.in_scope {
            continue;
        }
        let pinned = slice
            .pin
            .as_ref()
            .and_then(|pin| draft.shard_index(&pin.shard_id))
            .filter(|to| draft.allowed(id).contains(*to));
        if let Some(to) = pinned {
            if to != at {
                found.push(RequiredMove {
                    slice: id,
                    to: Some(to),
                });
            }
            continue;
        }
        let place = &draft.places[at as usize];
        // Fast path: nearly every slice is in its home region and requires no zone.
        let suits = slice.zones.is_empty() && slice.home_region == place.view.region;
        if place.is_active() && (suits || draft.allowed(id).contains(at)) {
            continue;
        }
        found.push(RequiredMove {
            slice: id,
            to: None,
        });
    }
    found
}

/// Whether a slice that must leave can be moved at all.
fn can_go(draft: &PlanDraft<'_>, required_move: &RequiredMove) -> bool {
    let from = &draft.places[draft.at[required_move.slice as usize] as usize];
    !draft.moved[required_move.slice as usize]
        && from.view.state != ShardState::Down
        && draft.leave_blocker(required_move.slice).is_none()
}

/// Finds targets for the slices that must leave, as far as possible.
pub(super) fn leave(draft: &mut PlanDraft<'_>, required: &[RequiredMove]) {
    let (mut pinned, mut free): (Vec<&RequiredMove>, Vec<&RequiredMove>) = required
        .iter()
        .filter(|required_move| can_go(draft, required_move))
        .partition(|required_move| required_move.to.is_some());
    // By name, so that the order of the input does not matter.
    pinned.sort_by_cached_key(|required_move| draft.hash[required_move.slice as usize]);
    follow_pins(draft, &pinned);
    // Largest first: large slices find no room later.
    free.sort_by_cached_key(|required_move| {
        let place = &draft.places[draft.at[required_move.slice as usize] as usize];
        let share = draft.demand[required_move.slice as usize].share_of(&place.limit);
        let tie = draft.hash[required_move.slice as usize];
        (std::cmp::Reverse((share * 1e9) as u64), tie)
    });
    let room = draft.most_room();
    for required_move in free {
        let amount = draft.demand[required_move.slice as usize];
        if !amount.within(&room) {
            continue;
        }
        let cause = leave_cause(draft, required_move.slice);
        let to = draft
            .best_target(required_move.slice, Level::Goal)
            .or_else(|| draft.best_target(required_move.slice, Level::Limit));
        match to {
            Some(to) => draft.commit(required_move.slice, to, cause),
            None => {
                make_room(draft, required_move.slice, &cause);
            }
        }
    }
}

fn leave_cause(draft: &PlanDraft<'_>, slice: u32) -> MigrationCause {
    let view = &draft.places[draft.at[slice as usize] as usize].view;
    let subject = draft.fleet.slices[slice as usize].subject();
    let why: Vec<String> = vetoes(view, &subject)
        .into_iter()
        .map(|veto| veto.message)
        .collect();
    MigrationCause::Leave {
        why: format!("{} {}", view.id, why.join(" and ")),
    }
}

/// Moves pinned slices to their pinned shards. Slices that wait for each other's room go via
/// a third shard, if one has room.
fn follow_pins(draft: &mut PlanDraft<'_>, pinned: &[&RequiredMove]) {
    advance(draft, pinned);
    let stuck: Vec<&RequiredMove> = pinned
        .iter()
        .copied()
        .filter(|required_move| !draft.moved[required_move.slice as usize])
        .collect();
    for ring in rings(draft, &stuck) {
        step_aside(draft, &ring);
    }
    advance(draft, &stuck);
    for required_move in stuck {
        if !draft.moved[required_move.slice as usize]
            && let Some(to) = required_move.to
        {
            let cause = pin_cause(draft, required_move.slice);
            super::room::make_room_at(draft, required_move.slice, to, &cause);
        }
    }
}

/// Moves every pinned slice that fits, until none does.
fn advance(draft: &mut PlanDraft<'_>, pinned: &[&RequiredMove]) {
    loop {
        let before = draft.steps.len();
        for required_move in pinned {
            if let Some(to) = required_move.to
                && !draft.moved[required_move.slice as usize]
                && draft.fits(required_move.slice, to, Level::Limit)
            {
                let cause = pin_cause(draft, required_move.slice);
                draft.commit(required_move.slice, to, cause);
            }
        }
        if draft.steps.len() == before {
            return;
        }
    }
}

fn pin_cause(draft: &PlanDraft<'_>, slice: u32) -> MigrationCause {
    let pin = draft.fleet.slices[slice as usize].pin.as_ref();
    MigrationCause::Pin {
        actor: pin.map(|pin| pin.actor.to_string()).unwrap_or_default(),
    }
}

/// The groups of slices that wait for each other: the strongly connected components of the
/// graph of required moves between shards.
fn rings<'m>(draft: &PlanDraft<'_>, stuck: &[&'m RequiredMove]) -> Vec<Vec<&'m RequiredMove>> {
    let mut wanted: DiGraph<u32, ()> = DiGraph::new();
    let mut nodes = HashMap::new();
    for required_move in stuck {
        if let Some(to) = required_move.to {
            let ends = [draft.at[required_move.slice as usize], to].map(|shard| {
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
    let mut rings: BTreeMap<usize, Vec<&RequiredMove>> = BTreeMap::new();
    for required_move in stuck {
        let from = ring_of.get(&draft.at[required_move.slice as usize]);
        let to = required_move.to.and_then(|to| ring_of.get(&to));
        if let (Some(from), Some(to)) = (from, to)
            && from == to
        {
            rings.entry(*from).or_default().push(required_move);
        }
    }
    rings.into_values().collect()
}

/// Moves the cheapest slice of a ring to a temporary shard until the others have moved.
/// Either all of the ring arrives, or nothing is changed.
fn step_aside(draft: &mut PlanDraft<'_>, ring: &[&RequiredMove]) {
    let mut by_cost = ring.to_vec();
    by_cost.sort_by_key(|required_move| {
        (
            draft.cost(required_move.slice),
            draft.hash[required_move.slice as usize],
        )
    });
    for first in by_cost {
        let (Some(home), Some(aside)) = (first.to, draft.best_target(first.slice, Level::Limit))
        else {
            continue;
        };
        let mark = draft.steps.len();
        let then = draft.places[home as usize].view.id.clone();
        draft.commit(first.slice, aside, MigrationCause::Aside { then });
        advance(draft, ring);
        let others_passed = ring
            .iter()
            .all(|required_move| draft.moved[required_move.slice as usize]);
        if others_passed && draft.fits(first.slice, home, Level::Limit) {
            let cause = pin_cause(draft, first.slice);
            draft.commit(first.slice, home, cause);
            return;
        }
        draft.undo_to(mark);
    }
}
