//! The effects of messages and votes that arrive, on the record and the shards.

use super::act::{is_abandoning, is_put_off, is_turned};
use super::happen::MigrationModel;
use super::rules::BrokenRule;
use super::small::{
    self, ModelCommand, ModelFence, ModelHolding, ModelPhase, ModelRoute, ModelToken, ShardNumber,
};
use super::world::{Message, ModelRow, ModelRows, ModelShard, ModelWorld};

impl MigrationModel {
    /// Delivers a message. A refused message changes nothing.
    pub(super) fn deliver(&self, world: &mut ModelWorld, work: &Message) {
        match work {
            Message::UpdateRecord { seen, then } => {
                if world.route == *seen || self.rule == BrokenRule::SwapWithoutCompare {
                    self.swap(world, *then);
                }
            }
            Message::Command { shard, op, order } => {
                self.apply_command(&mut world.shards[usize::from(*shard)], *op, *order);
            }
            Message::Import { shard, rows, order } => {
                let owns = *shard == world.route.owner || world.is_lost(usize::from(*shard));
                let shard = &mut world.shards[usize::from(*shard)];
                self.import(shard, rows, *order);
                if self.bounds.abandonments > 0 && !owns {
                    // The copy has these rows, so abandoning the owner keeps them.
                    for (kept, row) in world.kept.iter_mut().zip(&shard.rows) {
                        *kept = row.choice.max(*kept);
                    }
                }
            }
            Message::Discard {
                shard,
                known,
                order,
            } => {
                let shard = &mut world.shards[usize::from(*shard)];
                let order = self.effective_token(*order, shard);
                let may = match self.rule {
                    BrokenRule::DiscardAtAnyTime => small::may_import(shard.fence, order),
                    _ => small::may_discard(shard.fence, *known, order),
                };
                if may {
                    shard.rows = ModelRows::default();
                }
            }
        }
    }

    /// Replaces the record, which routers then can read.
    pub(super) fn swap(&self, world: &mut ModelWorld, mut then: ModelRoute) {
        let before = world.route;
        if is_turned(&before, &then) {
            world.left.moves = world.left.moves.saturating_sub(1);
        }
        if is_put_off(&before, &then) {
            world.left.retreats = world.left.retreats.saturating_sub(1);
        }
        if then.moving.is_none() {
            self.record_leftover(world, &before);
        }
        self.break_record(&before, &mut then);
        world.route = then;
        if is_abandoning(&before, &then) {
            world.left.abandonments = world.left.abandonments.saturating_sub(1);
        }
        match then.owner != before.owner {
            true if then.gives_up() => abandon(world, before.owner, &then),
            true => self.protect_acknowledged(world),
            false => {}
        }
        let (owner, epoch) = self.published(&then);
        world.heard[usize::from(owner)] |= 1 << epoch;
        if world.route.is_alone() {
            world.alone[usize::from(owner)] |= 1 << epoch;
        }
    }

    /// At the end of a migration, records a copy that is left to be removed later, if
    /// one is there or can still arrive.
    fn record_leftover(&self, world: &mut ModelWorld, before: &ModelRoute) {
        let Some(moving) = before.moving.filter(|moving| !moving.gives_up) else {
            return;
        };
        let (shard, epoch) = match moving.phase {
            ModelPhase::Aborting => (moving.to, before.spent),
            _ => (moving.from, before.epoch),
        };
        let known = world.shards[usize::from(shard)].fence;
        let gone = match self.rule {
            BrokenRule::LeftoverNotTracked => {
                known.is_none_or(|fence| fence.holding == ModelHolding::Gone)
            }
            _ => known
                .is_some_and(|fence| fence.holding == ModelHolding::Gone && fence.epoch >= epoch),
        };
        if !gone && world.left.leaves > 0 {
            world.left.leaves -= 1;
            world.behind = Some((shard, epoch));
        }
    }

    /// A router copies what it read from one shard to the other, which accepts rows only
    /// for the migration that it keeps the copy for; then the router acknowledges the
    /// writes that wait. (If the router knew another migration it would be refused, so
    /// only the copy's own migration is tried.)
    pub(super) fn mirror(&self, world: &mut ModelWorld, shard: usize) {
        let rows = world.shards[shard].rows;
        let copy = &mut world.shards[1 - shard];
        let Some(fence) = copy.fence else { return };
        let taken = match (self.rule, fence.id) {
            (BrokenRule::MirrorAnywhere, _) => true,
            (_, Some(id)) => {
                let token = fence.token;
                small::may_import(copy.fence, ModelToken { id, token })
            }
            (_, None) => false,
        };
        if !taken {
            return;
        }
        self.merge(copy, &rows);
        for (voter, row) in rows.iter().enumerate() {
            let acknowledged = &mut world.acknowledged[voter];
            *acknowledged = row.choice.max(*acknowledged);
        }
        if self.bounds.abandonments > 0 {
            for (kept, row) in world.kept.iter_mut().zip(&rows) {
                *kept = row.choice.max(*kept);
            }
        }
    }

    /// Applies a broken rule to an update of the record.
    fn break_record(&self, before: &ModelRoute, then: &mut ModelRoute) {
        match self.rule {
            BrokenRule::AbandonAtOldEpoch if then.gives_up() => then.epoch = before.epoch,
            BrokenRule::EpochReused if then.phase() == Some(ModelPhase::Aborting) => {
                then.epoch = before.epoch;
            }
            BrokenRule::RetreatToAbandonedOwner if is_turned(before, then) => {
                if let Some(moving) = &mut then.moving {
                    moving.gives_up = false;
                }
            }
            BrokenRule::SpentForgotten if then.moving.is_none() => then.spent = then.epoch,
            BrokenRule::ReverseAtOldEpoch if is_turned(before, then) => {
                then.spent = before.spent;
                if let (Some(then), Some(before)) = (&mut then.moving, before.moving) {
                    then.prepared = before.prepared;
                }
            }
            _ => {}
        }
    }

    /// The owner and epoch that a router reads now.
    fn published(&self, route: &ModelRoute) -> (ShardNumber, u8) {
        match (self.rule, route.moving) {
            (BrokenRule::PublishBeforeCommit, Some(moving)) => match moving.phase {
                ModelPhase::Sealing(epoch) => (moving.to, epoch),
                _ => (route.owner, route.epoch),
            },
            _ => (route.owner, route.epoch),
        }
    }

    /// The token as the shard sees it.
    fn effective_token(&self, order: ModelToken, shard: &ModelShard) -> ModelToken {
        let known = shard.fence.map_or((0, 0), |fence| fence.token);
        let token = match self.rule {
            BrokenRule::NoToken => order.token.max(known),
            _ => order.token,
        };
        ModelToken { token, ..order }
    }

    fn apply_command(&self, shard: &mut ModelShard, op: ModelCommand, order: ModelToken) {
        let order = self.effective_token(order, shard);
        let then = match (self.rule, op) {
            // The epoch is not newer, so the product would refuse.
            (BrokenRule::EpochReused, ModelCommand::Reinstate(epoch)) => {
                shard.fence.map(|fence| ModelFence {
                    holding: ModelHolding::Owner,
                    epoch,
                    ..fence
                })
            }
            // There is nothing to remove, so no tombstone is written.
            (BrokenRule::NoTombstone, ModelCommand::Purge(_)) if shard.fence.is_none() => None,
            (BrokenRule::CleanupWithoutFence, ModelCommand::Purge(epoch)) => {
                let known = shard.fence.map_or(epoch, |fence| fence.epoch.max(epoch));
                Some(ModelFence {
                    epoch: known,
                    holding: ModelHolding::Gone,
                    id: Some(order.id),
                    token: order.token,
                })
            }
            _ => small::apply_command(shard.fence, op, order),
        };
        if then.is_some() {
            shard.fence = then;
            if matches!(op, ModelCommand::Purge(_)) {
                shard.rows = ModelRows::default();
            }
        }
    }

    fn import(&self, shard: &mut ModelShard, rows: &ModelRows, order: ModelToken) {
        let order = self.effective_token(order, shard);
        if !small::may_import(shard.fence, order) {
            return;
        }
        if let Some(fence) = &mut shard.fence {
            fence.token = fence.token.max(order.token);
        }
        self.merge(shard, rows);
    }

    fn merge(&self, shard: &mut ModelShard, rows: &ModelRows) {
        for (known, row) in shard.rows.iter_mut().zip(rows) {
            let newer = known.version() < row.version() || self.rule == BrokenRule::NoVersions;
            if row.is_some() && newer {
                *known = *row;
            }
        }
    }

    /// A vote arrives at a shard. Returns whether the shard accepts it.
    pub(super) fn vote(&self, shard: &mut ModelShard, voter: usize, choice: u8, epoch: u8) -> bool {
        let sealed_above = || {
            let sealed = shard
                .fence
                .filter(|fence| fence.holding == ModelHolding::Sealed);
            sealed.is_some_and(|fence| epoch < fence.epoch)
        };
        let admitted = match self.rule {
            BrokenRule::NoFence => matches!(
                shard.holding(),
                Some(ModelHolding::Owner | ModelHolding::Sealed)
            ),
            BrokenRule::SealWithoutBarrier => sealed_above() || small::admits(shard.fence, epoch),
            _ => small::admits(shard.fence, epoch),
        };
        if !admitted {
            return false;
        }
        let row = &mut shard.rows[voter];
        // It was counted already.
        if row.choice >= choice && self.rule != BrokenRule::RetryCountedAgain {
            return true;
        }
        // A row without a choice has lost the evidence that this voter voted.
        let is_known = row.choice > 0;
        *row = ModelRow {
            epoch,
            choice,
            counted: row.counted + u8::from(!is_known),
        };
        true
    }
}

/// Abandons a shard: writes that its successor lacks no longer count as acknowledged;
/// unless both sides acknowledge, because then the successor lacks nothing.
fn abandon(world: &mut ModelWorld, lost: ShardNumber, then: &ModelRoute) {
    let owned = matches!(
        world.shards[usize::from(lost)].holding(),
        Some(ModelHolding::Owner | ModelHolding::Sealed)
    );
    world.lost = Some((lost, owned));
    if then.moving.is_some_and(|moving| moving.sync) {
        return;
    }
    let truth = world.truth().rows;
    for (acknowledged, row) in world.acknowledged.iter_mut().zip(truth) {
        *acknowledged = row.choice.min(*acknowledged);
    }
}
