//! The planner: the fewest bytes moved so that every shard is under its limits
//! in every dimension — or how many shards are missing.
//!
//! ```text
//!   fleet + terms ─► who must leave ─► who is in trouble ─► order ─► schedule ─► plan
//!                    drain, rules,     cheapest set out,    what      windows,
//!                    pins              best score in        waits     pace
//! ```
//! Pure: a function of the [`Fleet`], at one revision and one moment, and the
//! [`Terms`].
//!
//! * Where a slice goes is placement's own verdict (its rules, its score) among
//!   the shards that have room. So the two never disagree.
//! * A shard is in trouble above its *limit*; it is relieved to its *goal*, and
//!   others are filled to theirs. So a shard that was just relieved or filled is
//!   not in trouble again at once, and a slice that was just placed or moved is
//!   left alone: planning twice gives nothing the second time.
//! * Every choice fits at the moment it is made, so the choices in their order
//!   can be carried out; [`order`] finds what of it can go on at the same time.
//! * What cannot be helped is in the plan too, with the reason.

mod amount;
mod apply;
mod cover;
mod input;
mod leave;
mod missing;
mod order;
mod places;
mod relief;
mod report;
mod room;
mod schedule;
mod terms;
mod text;
mod total;
mod weights;
mod why_not;
mod world;

pub use input::{Dial, Fleet, GOAL_DEFAULT, LIMIT_DEFAULT, Shard, Slice};
pub use report::{
    Cause, Filling, Measure, Missing, Move, PLAN_VERSION, Plan, ShardLoad, Totals, Unhelped,
    Waiting, WhyNot,
};
pub use terms::{Approval, Pace, Prices, Span, Terms};

use world::{Step, World};

/// The most rounds of looking again; each but the last finds a move.
const ROUNDS_MAX: usize = 32;
/// How often room is made in one round: it is for the few that can go nowhere
/// else, not for a fleet that is full.
const ROOM_TRIES: u32 = 500;

/// Plans for a fleet.
#[must_use]
pub fn plan(fleet: &Fleet, terms: &Terms) -> Plan {
    let mut world = World::new(fleet, terms);
    let musts = leave::musts(&mut world);
    // Again and again until nothing is found: room that one shard's relief made
    // may be what another one lacked.
    for _ in 0..ROUNDS_MAX {
        let before = world.steps.len();
        world.room_tries = ROOM_TRIES;
        leave::leave(&mut world, &musts);
        relief::relieve_all(&mut world);
        if terms.follow_weights {
            weights::follow_weights(&mut world);
        }
        if world.steps.len() == before {
            break;
        }
    }
    let put_off = cut(&mut world);
    let bytes_at_least = total::bytes_at_least(&world, &musts);
    let steps = std::mem::take(&mut world.steps);
    let moves = moves(&mut world, &steps);
    let missing = if put_off == 0 {
        missing::missing(&mut world, &musts)
    } else {
        Vec::new()
    };
    Plan {
        version: PLAN_VERSION,
        revision: fleet.revision,
        made_at: fleet.at,
        totals: total::totals(&world, &moves, put_off, bytes_at_least),
        shards: total::shards(&world),
        missing,
        unhelped: why_not::unhelped(&mut world, put_off),
        waiting: why_not::waiting(&mut world, &musts, put_off),
        moves,
    }
}

/// Leaves for the next plan what is more than one plan may have; how many that
/// is.
fn cut(world: &mut World<'_>) -> usize {
    let mut bytes = 0u64;
    let within = |step: &&Step| {
        bytes = bytes.saturating_add(world.fleet.slices[step.slice as usize].bytes);
        bytes <= world.terms.bytes_max
    };
    let kept = world
        .steps
        .iter()
        .take(world.terms.moves_max)
        .take_while(within)
        .count();
    let put_off = world.steps.len() - kept;
    world.undo_to(kept);
    put_off
}

fn moves(world: &mut World<'_>, steps: &[Step]) -> Vec<Move> {
    let order = order::order(world, steps);
    let times = schedule::schedule(world, steps, &order);
    let waits = order.waits_for.into_iter().zip(order.waves);
    let rest = waits.zip(times);
    steps
        .iter()
        .zip(rest)
        .map(|(step, ((waits_for, wave), times))| {
            let slice = &world.fleet.slices[step.slice as usize];
            let view = |at: u32| &world.places[at as usize].view;
            let (from, to) = (view(step.from).clone(), view(step.to).clone());
            let across_regions = from.region != to.region;
            let aside = matches!(step.cause, Cause::Aside { .. });
            Move {
                slice: slice.id.clone(),
                bytes: slice.bytes,
                cause: step.cause.clone(),
                needs_approval: needs_approval(world.terms, slice.bytes, across_regions),
                passed_over: if aside {
                    Vec::new()
                } else {
                    world.passed_over(step.slice, step.to)
                },
                from: from.id,
                to: to.id,
                across_regions,
                waits_for,
                wave,
                begins_at: times.begins_at,
                cutover_at: times.cutover_at,
                ends_at: times.ends_at,
            }
        })
        .collect()
}

fn needs_approval(terms: &Terms, bytes: u64, across_regions: bool) -> Option<String> {
    let Approval {
        every_move,
        bytes_over,
        across_regions: regions,
    } = terms.approval;
    if every_move {
        Some("every move needs it".to_owned())
    } else if regions && across_regions {
        Some("it goes to another region".to_owned())
    } else {
        bytes_over
            .filter(|most| bytes > *most)
            .map(|most| format!("it copies more than {}", text::bytes(most)))
    }
}
