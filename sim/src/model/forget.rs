//! Drops state that no longer matters, so that worlds that differ only in it are the
//! same. This is only valid for the protocol as shipped; with a rule broken nothing is
//! dropped.
//!
//! - **Spent messages**, which have no effect whenever and however often they arrive, are
//!   as good as lost, and their senders can act again. [`is_spent`] identifies them. A
//!   test below shows, for every reachable fence, that they stay without effect.
//! - **Beliefs below a shard's epoch.** A shard accepts a vote only at its own epoch,
//!   which never decreases.
//!
//! The other test explores a small space with and without dropping, and compares the
//! reachable states of the record, the shards and the clients.

use super::small::{self, ModelCommand, ModelFence, ModelToken};
use super::world::{Message, ModelWorld};

/// Drops state that no longer matters.
pub(super) fn forget(world: &mut ModelWorld) {
    let known = *world;
    let spent = |work: &Message| is_spent(&known, work);
    for worker in &mut world.workers {
        worker.message = worker.message.filter(|work| !spent(work));
        // A worker that read a record without a migration has nothing to do.
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

/// Whether a message has no effect from now on.
pub(super) fn is_spent(world: &ModelWorld, work: &Message) -> bool {
    match work {
        // No record occurs twice: each update takes a new epoch, or advances a
        // migration irreversibly.
        Message::UpdateRecord { seen, .. } => world.route != *seen,
        Message::Command { shard, op, order } => {
            let shard = &world.shards[usize::from(*shard)];
            let purges = matches!(op, ModelCommand::Purge(_));
            is_done(shard.fence, *op, *order) && (!purges || shard.is_empty())
                || is_late(shard.fence, Some(*op), *order)
        }
        // Rows are only replaced by newer ones until they are removed, and then the
        // shard no longer accepts this migration's rows.
        Message::Import { shard, rows, order } => {
            let shard = &world.shards[usize::from(*shard)];
            is_late(shard.fence, None, *order)
                || small::may_import(shard.fence, *order)
                    && shard.fence.is_some_and(|fence| fence.token == order.token)
                    && !shard.lacks(rows)
        }
        // Neither the epoch nor the token of a fence decreases.
        Message::Discard {
            shard,
            known,
            order,
        } => {
            let fence = world.shards[usize::from(*shard)].fence;
            is_late(fence, None, *order) || fence.is_some_and(|fence| fence.epoch > *known)
        }
    }
}

/// Whether the command was applied already.
fn is_done(fence: Option<ModelFence>, op: ModelCommand, order: ModelToken) -> bool {
    fence.is_some() && small::apply_command(fence, op, order) == fence
}

/// Whether the shard knows a later token or a later epoch.
fn is_late(fence: Option<ModelFence>, op: Option<ModelCommand>, order: ModelToken) -> bool {
    fence.is_some_and(|fence| {
        let below =
            op.is_some_and(|op| !matches!(op, ModelCommand::Purge(_)) && op.epoch() < fence.epoch);
        order.token < fence.token || below
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use stateright::Model;

    use super::super::{BrokenRule, MigrationModel, ModelBounds, ModelShard};
    use super::*;

    /// Every command that two workers of three migrations may send a shard, each
    /// migration prepared at an epoch above all epochs of the one before it.
    fn orders() -> Vec<(ModelCommand, ModelToken)> {
        let mut all = Vec::new();
        for (id, prepared) in [(0, 2), (1, 6), (4, 10)] {
            for lease in 1..=2 {
                let order = ModelToken {
                    id,
                    token: (prepared, lease),
                };
                all.push((ModelCommand::Prepare(prepared), order));
                all.push((ModelCommand::Purge(prepared), order));
                for epoch in prepared + 1..prepared + 4 {
                    let fresh = [
                        ModelCommand::Ready(epoch),
                        ModelCommand::Seal(epoch),
                        ModelCommand::Reinstate(epoch),
                        ModelCommand::Activate(epoch),
                        ModelCommand::Retire(epoch),
                        ModelCommand::Purge(epoch),
                    ];
                    all.extend(fresh.map(|op| (op, order)));
                }
            }
        }
        all
    }

    /// Every fence that is reachable by these commands, from one of these fences.
    fn reachable(
        from: Vec<Option<ModelFence>>,
        orders: &[(ModelCommand, ModelToken)],
    ) -> BTreeSet<Option<ModelFence>> {
        let mut open = from;
        let mut known: BTreeSet<_> = open.iter().copied().collect();
        while let Some(fence) = open.pop() {
            for (op, order) in orders {
                let then = small::apply_command(fence, *op, *order);
                if then.is_some() && known.insert(then) {
                    open.push(then);
                }
            }
        }
        known
    }

    #[test]
    fn spent_messages_stay_without_effect() {
        let founded = ModelFence {
            epoch: 1,
            holding: small::ModelHolding::Owner,
            id: None,
            token: (0, 0),
        };
        let orders = orders();
        let fences = reachable(vec![None, Some(founded)], &orders);
        assert!(fences.len() > 50, "{}", fences.len());
        for fence in fences {
            let later = reachable(vec![fence], &orders);
            for (op, order) in &orders {
                if !is_done(fence, *op, *order) && !is_late(fence, Some(*op), *order) {
                    continue;
                }
                for then in &later {
                    let changed = small::apply_command(*then, *op, *order);
                    let nothing = changed.is_none() || changed == *then;
                    assert!(nothing, "{op:?} {order:?} at {fence:?}, then {then:?}");
                }
            }
        }
    }

    /// The reachable states of record, shards and clients.
    fn reached(forgets: bool) -> HashSet<(small::ModelRoute, [ModelShard; 2], [u8; 2])> {
        let bounds = ModelBounds {
            clients: 1,
            choices: 2,
            workers: 2,
            reconciler: false,
            torn: false,
            moves: 1,
            retreats: 0,
            strays: 1,
            repairs: 1,
            abandonments: 0,
            leaves: 0,
            sync: false,
        };
        let mut model = MigrationModel::new(bounds, BrokenRule::None);
        model.forgets = forgets;
        let mut open = model.init_states();
        let mut known: HashSet<ModelWorld> = open.iter().copied().collect();
        while let Some(world) = open.pop() {
            for next in model.next_states(&world) {
                if known.insert(next) {
                    open.push(next);
                }
            }
        }
        let seen = |world: &ModelWorld| (world.route, world.shards, world.acknowledged);
        known.iter().map(seen).collect()
    }

    #[test]
    fn nothing_is_missed_by_forgetting() {
        let (with, without) = (reached(true), reached(false));
        assert!(with.len() > 100, "{}", with.len());
        assert!(with == without, "{} and {}", with.len(), without.len());
    }
}
