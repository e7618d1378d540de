//! Slices that placement would rather have elsewhere: a shard was added, or a
//! weight changed. They move only if that is wanted, and only where there is
//! room up to the goal.

use ballast_domain::placement::{self, Why, decide};

use super::amount::COUNT;
use super::report::Cause;
use super::world::{Level, NOWHERE, World};

/// Moves what another shard outscores its holder for.
pub(super) fn follow_weights(world: &mut World<'_>) {
    let fleet = world.fleet;
    let mut then = placement_fleet(world);
    for (slice, id) in fleet.slices.iter().zip(0u32..) {
        if world.at[id as usize] == NOWHERE
            || world.moved[id as usize]
            || world.is_held(id).is_some()
        {
            continue;
        }
        let verdict = decide(&then, &slice.subject());
        let (Why::HighestScore, Some(shard)) = (verdict.why, &verdict.shard_id) else {
            continue;
        };
        let Some(to) = world.place_of(shard) else {
            continue;
        };
        if !world.fits(id, to, Level::Goal) {
            continue;
        }
        let from = world.at[id as usize];
        world.commit(id, to, Cause::Weights);
        for at in [from, to] {
            let place = &world.places[at as usize];
            if let Some(view) = then.get_mut(&place.view.id) {
                view.slices = place.load.0[COUNT].unsigned_abs();
            }
        }
    }
}

fn placement_fleet(world: &World<'_>) -> placement::Fleet {
    let views = world.places.iter().map(|place| {
        let mut view = place.view.clone();
        view.slices = place.load.0[COUNT].unsigned_abs();
        view
    });
    placement::Fleet::new(views.collect())
}
