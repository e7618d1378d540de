//! Relief of a shard that is over its limit.
//!
//! ```text
//!   to the goal, targets filled to their goal ─► to the limit, targets filled to
//!   their limit ─► partial relief, making room on targets
//! ```

use std::collections::HashSet;

use super::amount::Amount;
use super::cover::{CoverItem, can_cover, cover};
use super::draft::{Level, PlanDraft};
use super::report::MigrationCause;
use super::room::{make_room, movable};
use super::why_not::worst;

/// How often a set is chosen again because some slices found no target.
const ROUNDS: usize = 12;
/// No other set is tried if more than one in this many slices found no target: the fleet is
/// too full.
const UNPLACED_DIVISOR: usize = 4;
/// Consecutive slices without a target after which partial relief stops.
const FAILURES_MAX: usize = 100;
/// Slices of one shard for which room is made elsewhere.
const ROOM_TRIES: usize = 16;

/// Relieves every overloaded shard, worst first.
pub(super) fn relieve_all(draft: &mut PlanDraft<'_>) {
    let mut overloaded: Vec<(f64, u32)> = draft
        .places
        .iter()
        .zip(0u32..)
        .filter(|(place, _)| place.is_overloaded())
        .map(|(place, at)| (place.load.share_of(&place.limit), at))
        .collect();
    overloaded.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.cmp(&two.1)));
    for (_, at) in overloaded {
        // Making room for another shard may have filled or relieved this one.
        if draft.places[at as usize].is_overloaded() {
            relieve(draft, at);
        }
    }
}

fn relieve(draft: &mut PlanDraft<'_>, at: u32) {
    let cause = relief_cause(draft, at);
    let all = movable_elsewhere(draft, at);
    // If it stays over its limit without all movable slices, moving does not help.
    if !can_cover(&all, &excess(draft, at, Level::Limit)) {
        return;
    }
    let room = draft.most_room();
    let candidates: Vec<CoverItem> = all
        .iter()
        .filter(|item| item.amount.within(&room))
        .copied()
        .collect();
    for level in [Level::Goal, Level::Limit] {
        if to_level(draft, at, level, candidates.clone(), &cause) {
            return;
        }
    }
    relieve_partially(draft, at, &candidates, &cause);
    if draft.places[at as usize].is_overloaded() {
        relieve_by_making_room(draft, at, &all, &cause);
    }
}

/// Whether a shard would be under its limit without all movable slices.
pub(super) fn would_help(draft: &mut PlanDraft<'_>, at: u32) -> bool {
    let all = movable_elsewhere(draft, at);
    can_cover(&all, &excess(draft, at, Level::Limit))
}

/// The movable slices that another shard could hold if it had room.
pub(super) fn movable_elsewhere(draft: &mut PlanDraft<'_>, at: u32) -> Vec<CoverItem> {
    let mut all = movable(draft, at);
    all.retain(|item| !is_too_big(draft, at, item));
    all
}

/// Whether no shard could hold a slice. Only checked for slices that fill most of their shard.
fn is_too_big(draft: &mut PlanDraft<'_>, at: u32, item: &CoverItem) -> bool {
    let share = item.amount.share_of(&draft.places[at as usize].limit);
    share > 0.5 && draft.is_too_big(item.slice)
}

fn excess(draft: &PlanDraft<'_>, at: u32, level: Level) -> Amount {
    let place = &draft.places[at as usize];
    place.load.above(place.ceiling(level))
}

fn relief_cause(draft: &PlanDraft<'_>, at: u32) -> MigrationCause {
    let (measure, share, limit) = worst(draft, at, &draft.places[at as usize].load);
    MigrationCause::Relief {
        measure,
        share,
        limit,
    }
}

/// Relieves a shard to a level, completely or not at all.
fn to_level(
    draft: &mut PlanDraft<'_>,
    at: u32,
    level: Level,
    mut candidates: Vec<CoverItem>,
    cause: &MigrationCause,
) -> bool {
    let excess = excess(draft, at, level);
    if !excess.within(&draft.all_room(level)) {
        return false;
    }
    for _ in 0..ROUNDS {
        let Some(mut chosen) = cover(&candidates, &excess) else {
            return false;
        };
        large_first(draft, at, &mut chosen);
        let mark = draft.steps.len();
        let mut without_place = HashSet::new();
        for item in &chosen {
            match draft.best_target(item.slice, level) {
                Some(to) => draft.commit(item.slice, to, cause.clone()),
                None => {
                    without_place.insert(item.slice);
                }
            }
        }
        if without_place.is_empty() {
            return true;
        }
        draft.undo_to(mark);
        if without_place.len() * UNPLACED_DIVISOR > chosen.len().max(UNPLACED_DIVISOR) {
            return false;
        }
        candidates.retain(|item| !without_place.contains(&item.slice));
    }
    false
}

fn large_first(draft: &PlanDraft<'_>, at: u32, items: &mut [CoverItem]) {
    let limit = &draft.places[at as usize].limit;
    items.sort_by(|one, two| {
        let share = |item: &CoverItem| item.amount.share_of(limit);
        let order = share(two).total_cmp(&share(one));
        order.then(one.tie.cmp(&two.tie))
    });
}

/// Moves slices one by one, most relief per byte first, while the shard is over its limit.
fn relieve_partially(
    draft: &mut PlanDraft<'_>,
    at: u32,
    candidates: &[CoverItem],
    cause: &MigrationCause,
) {
    let mut failures = 0;
    for item in by_use(candidates, &excess(draft, at, Level::Limit)) {
        let left = excess(draft, at, Level::Limit);
        if left.is_zero() || failures == FAILURES_MAX {
            return;
        }
        if !helps(&item, &left) {
            continue;
        }
        match draft.best_target(item.slice, Level::Limit) {
            Some(to) => {
                draft.commit(item.slice, to, cause.clone());
                failures = 0;
            }
            None => failures += 1,
        }
    }
}

/// Like [`relieve_partially`], but makes room on targets.
fn relieve_by_making_room(
    draft: &mut PlanDraft<'_>,
    at: u32,
    all: &[CoverItem],
    cause: &MigrationCause,
) {
    let mut tries = ROOM_TRIES;
    for item in by_use(all, &excess(draft, at, Level::Limit)) {
        let left = excess(draft, at, Level::Limit);
        if left.is_zero() || tries == 0 || draft.room_tries == 0 {
            return;
        }
        if helps(&item, &left) && !draft.moved[item.slice as usize] {
            tries -= 1;
            make_room(draft, item.slice, cause);
        }
    }
}

fn helps(item: &CoverItem, left: &Amount) -> bool {
    let both = item.amount.0.iter().zip(left.0);
    both.into_iter().any(|(gives, left)| *gives > 0 && left > 0)
}

fn by_use(items: &[CoverItem], excess: &Amount) -> Vec<CoverItem> {
    let rating = |item: &CoverItem| {
        let lanes = item.amount.0.iter().zip(excess.0);
        let gives: f64 = lanes
            .filter(|(_, over)| *over > 0)
            .map(|(gives, over)| (*gives).min(over) as f64 / over as f64)
            .sum();
        gives / item.cost.max(1) as f64
    };
    let mut rated: Vec<(f64, &CoverItem)> = items.iter().map(|item| (rating(item), item)).collect();
    rated.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.tie.cmp(&two.1.tie)));
    rated.into_iter().map(|(_, item)| *item).collect()
}
