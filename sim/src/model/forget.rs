//! What no longer matters is forgotten, so that worlds that differ only in that
//! are one. Each of these holds for the protocol as it is; with a rule broken
//! nothing is forgotten.
//!
//! - **A letter that comes to nothing from now on**, whenever and however often
//!   it arrives, is as good as lost, and its sender is free to look again.
//!   [`is_spent`] says which those are; that it stays so whatever else a shard
//!   is told is tried for every fence in the test below.
//! - **A belief below a shard's epoch.** A shard takes a vote at its own epoch
//!   only, and that never falls.
//!
//! The other test tries a small space with and without: what the record, the
//! shards and the clients can come to is the same.

use super::small::{self, Fence, Op, Order};
use super::world::{Work, World};

/// Forgets it.
pub(super) fn forget(world: &mut World) {
    let known = *world;
    let spent = |work: &Work| is_spent(&known, work);
    for worker in &mut world.workers {
        worker.letter = worker.letter.filter(|work| !spent(work));
        // Who has read a record without a move has nothing to do.
        worker.seen = worker.seen.filter(|route| route.moving.is_some());
    }
    for stray in &mut world.strays {
        *stray = stray.filter(|work| !spent(work));
    }
    for (number, shard) in known.shards.iter().enumerate() {
        if let Some(fence) = shard.fence {
            world.heard[number] &= u32::MAX << fence.epoch;
            world.alone[number] &= u32::MAX << fence.epoch;
        }
    }
}

/// Whether a letter comes to nothing from now on.
pub(super) fn is_spent(world: &World, work: &Work) -> bool {
    match work {
        // No record comes twice: each change spends an epoch, or is a step of a
        // move that has no way to where it was.
        Work::Swap { seen, .. } => world.route != *seen,
        Work::Tell { shard, op, order } => {
            let shard = &world.shards[usize::from(*shard)];
            let purges = matches!(op, Op::Purge(_));
            is_told(shard.fence, *op, *order) && (!purges || shard.is_empty())
                || is_late(shard.fence, Some(*op), *order)
        }
        // Rows are only ever followed by newer ones, until they are removed,
        // and then the move that brings these is over there.
        Work::Bring { shard, rows, order } => {
            let shard = &world.shards[usize::from(*shard)];
            is_late(shard.fence, None, *order)
                || small::may_import(shard.fence, *order)
                    && shard.fence.is_some_and(|fence| fence.token == order.token)
                    && !shard.lacks(rows)
        }
        // Neither the epoch nor the token of a fence falls.
        Work::Discard {
            shard,
            known,
            order,
        } => {
            let fence = world.shards[usize::from(*shard)].fence;
            is_late(fence, None, *order) || fence.is_some_and(|fence| fence.epoch > *known)
        }
    }
}

/// Whether it is as it was told.
fn is_told(fence: Option<Fence>, op: Op, order: Order) -> bool {
    fence.is_some() && small::told(fence, op, order) == fence
}

/// Whether somebody with a later token was here, or a later epoch is known.
fn is_late(fence: Option<Fence>, op: Option<Op>, order: Order) -> bool {
    fence.is_some_and(|fence| {
        let below = op.is_some_and(|op| !matches!(op, Op::Purge(_)) && op.epoch() < fence.epoch);
        order.token < fence.token || below
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use stateright::Model;

    use super::super::{Bounds, MoveModel, Rule, Shard};
    use super::*;

    /// Everything that three moves may tell a shard, each prepared at an epoch
    /// above all of the one before it, by two workers.
    fn orders() -> Vec<(Op, Order)> {
        let mut all = Vec::new();
        for (id, prepared) in [(0, 2), (1, 6), (4, 10)] {
            for lease in 1..=2 {
                let order = Order {
                    id,
                    token: (prepared, lease),
                };
                all.push((Op::Prepare(prepared), order));
                all.push((Op::Purge(prepared), order));
                for epoch in prepared + 1..prepared + 4 {
                    let fresh = [
                        Op::Ready(epoch),
                        Op::Seal(epoch),
                        Op::Reinstate(epoch),
                        Op::Activate(epoch),
                        Op::Retire(epoch),
                        Op::Purge(epoch),
                    ];
                    all.extend(fresh.map(|op| (op, order)));
                }
            }
        }
        all
    }

    /// Every fence that a shard can come to by them, from one of these.
    fn reachable(from: Vec<Option<Fence>>, orders: &[(Op, Order)]) -> BTreeSet<Option<Fence>> {
        let mut open = from;
        let mut known: BTreeSet<_> = open.iter().copied().collect();
        while let Some(fence) = open.pop() {
            for (op, order) in orders {
                let then = small::told(fence, *op, *order);
                if then.is_some() && known.insert(then) {
                    open.push(then);
                }
            }
        }
        known
    }

    #[test]
    fn what_is_spent_comes_to_nothing_for_ever() {
        let founded = Fence {
            epoch: 1,
            holding: small::Held::Owner,
            id: None,
            token: (0, 0),
        };
        let orders = orders();
        let fences = reachable(vec![None, Some(founded)], &orders);
        assert!(fences.len() > 50, "{}", fences.len());
        for fence in fences {
            let later = reachable(vec![fence], &orders);
            for (op, order) in &orders {
                if !is_told(fence, *op, *order) && !is_late(fence, Some(*op), *order) {
                    continue;
                }
                for then in &later {
                    let changed = small::told(*then, *op, *order);
                    let nothing = changed.is_none() || changed == *then;
                    assert!(nothing, "{op:?} {order:?} at {fence:?}, then {then:?}");
                }
            }
        }
    }

    /// What record, shards and clients can come to.
    fn reached(forgets: bool) -> HashSet<(small::Route, [Shard; 2], [u8; 2])> {
        let bounds = Bounds {
            clients: 1,
            choices: 2,
            workers: 2,
            watchman: false,
            torn: false,
            moves: 1,
            retreats: 0,
            strays: 1,
            repairs: 1,
            give_ups: 0,
            leaves: 0,
            sync: false,
        };
        let mut model = MoveModel::new(bounds, Rule::Kept);
        model.forgets = forgets;
        let mut open = model.init_states();
        let mut known: HashSet<World> = open.iter().copied().collect();
        while let Some(world) = open.pop() {
            for next in model.next_states(&world) {
                if known.insert(next) {
                    open.push(next);
                }
            }
        }
        let seen = |world: &World| (world.route, world.shards, world.acknowledged);
        known.iter().map(seen).collect()
    }

    #[test]
    fn nothing_is_missed_by_forgetting() {
        let (with, without) = (reached(true), reached(false));
        assert!(with.len() > 100, "{}", with.len());
        assert!(with == without, "{} and {}", with.len(), without.len());
    }
}
