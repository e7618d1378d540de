//! Making room: a slice that fits nowhere moves to a shard whose slices can move elsewhere.

use super::cover::{CoverItem, cover};
use super::draft::{Level, PlanDraft};
use super::report::MigrationCause;

/// Shards tried for one slice, highest score first.
const SHARDS_TRIED: usize = 6;

/// Moves a slice to the shard where making room is cheapest. Returns whether it could.
pub(super) fn make_room(draft: &mut PlanDraft<'_>, slice: u32, cause: &MigrationCause) -> bool {
    if draft.room_tries == 0 || !draft.demand[slice as usize].within(&draft.all_room(Level::Limit))
    {
        return false;
    }
    let mut best: Option<(u64, u32)> = None;
    for to in draft.by_score(slice, SHARDS_TRIED) {
        let mark = draft.steps.len();
        if let Some(cost) = clear_room(draft, slice, to)
            && best.is_none_or(|(least, _)| cost < least)
        {
            best = Some((cost, to));
        }
        draft.undo_to(mark);
    }
    best.is_some_and(|(_, to)| make_room_at(draft, slice, to, cause))
}

/// Moves a slice to this shard, if room can be made there.
pub(super) fn make_room_at(
    draft: &mut PlanDraft<'_>,
    slice: u32,
    to: u32,
    cause: &MigrationCause,
) -> bool {
    let mark = draft.steps.len();
    if clear_room(draft, slice, to).is_none() {
        draft.undo_to(mark);
        return false;
    }
    draft.commit(slice, to, cause.clone());
    true
}

/// Moves slices away from `to` until a slice fits. Returns the cost.
fn clear_room(draft: &mut PlanDraft<'_>, slice: u32, to: u32) -> Option<u64> {
    let place = &draft.places[to as usize];
    let excess = place
        .load
        .plus(&draft.demand[slice as usize])
        .above(&place.limit);
    draft.room_tries = draft.room_tries.checked_sub(1)?;
    let room = draft.most_room();
    let mut items = movable(draft, to);
    items.retain(|item| item.amount.within(&room));
    let set = cover(&items, &excess)?;
    let reason = draft.fleet.slices[slice as usize].id.clone();
    let mut cost = 0;
    for item in set {
        let aside = draft.best_target(item.slice, Level::Limit)?;
        let slice = reason.clone();
        draft.commit(item.slice, aside, MigrationCause::Room { slice });
        cost += item.cost;
    }
    Some(cost)
}

/// The slices of a shard that may be moved to relieve it.
pub(super) fn movable(draft: &PlanDraft<'_>, at: u32) -> Vec<CoverItem> {
    draft
        .residents(at)
        .filter(|slice| draft.help_blocker(*slice).is_none())
        .map(|slice| item(draft, slice))
        .collect()
}

pub(super) fn item(draft: &PlanDraft<'_>, slice: u32) -> CoverItem {
    CoverItem {
        slice,
        amount: draft.demand[slice as usize],
        cost: draft.cost(slice),
        tie: draft.hash[slice as usize],
    }
}
