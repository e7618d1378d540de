//! Slices that placement prefers elsewhere, because a shard was added or a weight changed.
//! They move only if the terms ask for it and the target has room up to its goal.

use ballast_domain::placement::{self, PlacementReason, decide};

use super::amount::COUNT;
use super::draft::{Level, NO_SHARD, PlanDraft};
use super::report::MigrationCause;

/// Moves the slices for which another shard outscores the current one.
pub(super) fn follow_weights(draft: &mut PlanDraft<'_>) {
    let fleet = draft.fleet;
    let mut then = placement_fleet(draft);
    for (slice, id) in fleet.slices.iter().zip(0u32..) {
        if draft.at[id as usize] == NO_SHARD
            || draft.moved[id as usize]
            || draft.help_blocker(id).is_some()
        {
            continue;
        }
        let verdict = decide(&then, &slice.subject());
        let (PlacementReason::HighestScore, Some(shard)) = (verdict.why, &verdict.shard_id) else {
            continue;
        };
        let Some(to) = draft.shard_index(shard) else {
            continue;
        };
        if !draft.fits(id, to, Level::Goal) {
            continue;
        }
        let from = draft.at[id as usize];
        draft.commit(id, to, MigrationCause::Weights);
        for at in [from, to] {
            let place = &draft.places[at as usize];
            if let Some(view) = then.get_mut(&place.view.id) {
                view.slices = place.load.0[COUNT].unsigned_abs();
            }
        }
    }
}

fn placement_fleet(draft: &PlanDraft<'_>) -> placement::PlacementFleet {
    let views = draft.places.iter().map(|place| {
        let mut view = place.view.clone();
        view.slices = place.load.0[COUNT].unsigned_abs();
        view
    });
    placement::PlacementFleet::new(views.collect())
}
