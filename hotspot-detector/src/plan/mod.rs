//! The planner: moves the fewest bytes such that every shard is under its limits in every
//! dimension, or says how many shards are missing.
//!
//! ```text
//!   fleet + terms ─► required moves ─► overloaded shards ─► order ─► schedule ─► plan
//!                    drain, rules,     cheapest set,        what      windows,
//!                    pins              best score in        waits     pace
//! ```
//! Pure: a function of the [`FleetSnapshot`], at one revision and one moment, and the
//! [`PlanTerms`].
//!
//! * A slice's target is chosen by placement's rules and scores among the shards that have
//!   room, so planner and placement never disagree.
//! * A shard is overloaded above its *limit*; it is relieved to its *goal*, and targets are
//!   filled up to theirs. So a shard that was just relieved or filled is not overloaded
//!   again immediately, and recently placed or moved slices stay: planning again right
//!   after a plan finds nothing to do.
//! * Every chosen migration fits at the moment it is chosen, so the plan can be executed in
//!   that order; [`order`] finds which ones can run concurrently.
//! * Shards that cannot be relieved are in the plan too, with the reasons.

mod amount;
mod apply;
mod cover;
mod draft;
mod input;
mod leave;
mod missing;
mod order;
mod relief;
mod report;
mod room;
mod schedule;
mod targets;
mod terms;
mod text;
mod total;
mod weights;
mod why_not;

pub use input::{Dial, FleetSnapshot, GOAL_DEFAULT, LIMIT_DEFAULT, PlanShard, PlanSlice};
pub use report::{
    BlockedSlices, Measure, MigrationCause, MissingShards, NoReliefReason, PLAN_VERSION, Plan,
    PlannedMigration, ShardEffect, ShardFill, Totals, UnrelievedShard,
};
pub use terms::{Approval, MigrationPace, PlanTerms, Prices, TimeSpan};

use draft::{DraftMove, PlanDraft};

/// The most planning rounds; each but the last finds a migration.
const ROUNDS_MAX: usize = 32;
/// How often room is made in one round: for the few slices without another target, not for
/// a full fleet.
const ROOM_TRIES: u32 = 500;

/// Plans for a fleet.
#[must_use]
pub fn plan(fleet: &FleetSnapshot, terms: &PlanTerms) -> Plan {
    let mut draft = PlanDraft::new(fleet, terms);
    let required = leave::required_moves(&mut draft);
    // Repeat until nothing is found: relieving one shard may make the room that another
    // one needs.
    for _ in 0..ROUNDS_MAX {
        let before = draft.steps.len();
        draft.room_tries = ROOM_TRIES;
        leave::leave(&mut draft, &required);
        relief::relieve_all(&mut draft);
        if terms.follow_weights {
            weights::follow_weights(&mut draft);
        }
        if draft.steps.len() == before {
            break;
        }
    }
    let put_off = limit_size(&mut draft);
    let bytes_at_least = total::bytes_at_least(&draft, &required);
    let steps = std::mem::take(&mut draft.steps);
    let moves = moves(&mut draft, &steps);
    let missing = if put_off == 0 {
        missing::missing(&mut draft, &required)
    } else {
        Vec::new()
    };
    Plan {
        version: PLAN_VERSION,
        revision: fleet.revision,
        made_at: fleet.at,
        totals: total::totals(&draft, &moves, put_off, bytes_at_least),
        shards: total::shards(&draft),
        missing,
        unhelped: why_not::unhelped(&mut draft, put_off),
        waiting: why_not::waiting(&mut draft, &required, put_off),
        moves,
    }
}

/// Drops the migrations beyond the plan's maximum size; the next plan has them. Returns
/// how many.
fn limit_size(draft: &mut PlanDraft<'_>) -> usize {
    let mut bytes = 0u64;
    let within = |step: &&DraftMove| {
        bytes = bytes.saturating_add(draft.fleet.slices[step.slice as usize].bytes);
        bytes <= draft.terms.bytes_max
    };
    let within_limit = draft
        .steps
        .iter()
        .take(draft.terms.moves_max)
        .take_while(within)
        .count();
    let put_off = draft.steps.len() - within_limit;
    draft.undo_to(within_limit);
    put_off
}

fn moves(draft: &mut PlanDraft<'_>, steps: &[DraftMove]) -> Vec<PlannedMigration> {
    let order = order::order(draft, steps);
    let times = schedule::schedule(draft, steps, &order);
    let waits = order.waits_for.into_iter().zip(order.waves);
    let rest = waits.zip(times);
    steps
        .iter()
        .zip(rest)
        .map(|(step, ((waits_for, wave), times))| {
            let slice = &draft.fleet.slices[step.slice as usize];
            let view = |at: u32| &draft.places[at as usize].view;
            let (from, to) = (view(step.from).clone(), view(step.to).clone());
            let across_regions = from.region != to.region;
            let aside = matches!(step.cause, MigrationCause::Aside { .. });
            PlannedMigration {
                slice: slice.id.clone(),
                bytes: slice.bytes,
                cause: step.cause.clone(),
                needs_approval: needs_approval(draft.terms, slice.bytes, across_regions),
                passed_over: if aside {
                    Vec::new()
                } else {
                    draft.passed_over(step.slice, step.to)
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

fn needs_approval(terms: &PlanTerms, bytes: u64, across_regions: bool) -> Option<String> {
    let Approval {
        every_move,
        bytes_over,
        across_regions: regions,
    } = terms.approval;
    if every_move {
        Some("every migration needs approval".to_owned())
    } else if regions && across_regions {
        Some("it moves to another region".to_owned())
    } else {
        bytes_over
            .filter(|most| bytes > *most)
            .map(|most| format!("it copies more than {}", text::bytes(most)))
    }
}
