//! What arrives, and what becomes of the record and of the shards.

use super::act::{is_giving_up, is_put_off, is_turned};
use super::happen::MoveModel;
use super::rules::Rule;
use super::small::{self, Fence, Held, Op, Order, Phase, Route, ShardNo};
use super::world::{Row, Rows, Shard, Work, World};

impl MoveModel {
    /// A letter arrives. What is refused changes nothing.
    pub(super) fn deliver(&self, world: &mut World, work: &Work) {
        match work {
            Work::Swap { seen, then } => {
                if world.route == *seen || self.rule == Rule::SwapWithoutCompare {
                    self.swap(world, *then);
                }
            }
            Work::Tell { shard, op, order } => {
                self.tell(&mut world.shards[usize::from(*shard)], *op, *order);
            }
            Work::Bring { shard, rows, order } => {
                let owns = *shard == world.route.owner || world.is_lost(usize::from(*shard));
                let shard = &mut world.shards[usize::from(*shard)];
                self.bring(shard, rows, *order);
                if self.bounds.give_ups > 0 && !owns {
                    // Brought to where it may be taken back to.
                    for (kept, row) in world.kept.iter_mut().zip(&shard.rows) {
                        *kept = row.choice.max(*kept);
                    }
                }
            }
            Work::Discard {
                shard,
                known,
                order,
            } => {
                let shard = &mut world.shards[usize::from(*shard)];
                let order = self.shown(*order, shard);
                let may = match self.rule {
                    Rule::DiscardAtAnyTime => small::may_import(shard.fence, order),
                    _ => small::may_discard(shard.fence, *known, order),
                };
                if may {
                    shard.rows = Rows::default();
                }
            }
        }
    }

    /// The record changes, and whoever reads it hears of it.
    pub(super) fn swap(&self, world: &mut World, mut then: Route) {
        let before = world.route;
        if is_turned(&before, &then) {
            world.left.moves = world.left.moves.saturating_sub(1);
        }
        if is_put_off(&before, &then) {
            world.left.retreats = world.left.retreats.saturating_sub(1);
        }
        if then.moving.is_none() {
            self.leave(world, &before);
        }
        self.breaks_record(&before, &mut then);
        world.route = then;
        if is_giving_up(&before, &then) {
            world.left.give_ups = world.left.give_ups.saturating_sub(1);
        }
        match then.owner != before.owner {
            true if then.gives_up() => give_up(world, before.owner, &then),
            true => self.keep(world),
            false => {}
        }
        let (owner, epoch) = self.published(&then);
        world.heard[usize::from(owner)] |= 1 << epoch;
        if world.route.is_alone() {
            world.alone[usize::from(owner)] |= 1 << epoch;
        }
    }

    /// A move is over: if a copy is still there, or may come late, it is left to be
    /// removed later.
    fn leave(&self, world: &mut World, before: &Route) {
        let Some(moving) = before.moving.filter(|moving| !moving.gives_up) else {
            return;
        };
        let (shard, epoch) = match moving.phase {
            Phase::Aborting => (moving.to, before.spent),
            _ => (moving.from, before.epoch),
        };
        let known = world.shards[usize::from(shard)].fence;
        let gone = match self.rule {
            Rule::LeftUnburied => known.is_none_or(|fence| fence.holding == Held::Gone),
            _ => known.is_some_and(|fence| fence.holding == Held::Gone && fence.epoch >= epoch),
        };
        if !gone && world.left.leaves > 0 {
            world.left.leaves -= 1;
            world.behind = Some((shard, epoch));
        }
    }

    /// A router has carried what it read from a shard to the other one, which takes
    /// it only for the move that it is kept for; then all who wait are told. (The
    /// router's own move is the copy's, or it is refused: so the copy's is tried.)
    pub(super) fn mirror(&self, world: &mut World, shard: usize) {
        let rows = world.shards[shard].rows;
        let copy = &mut world.shards[1 - shard];
        let Some(fence) = copy.fence else { return };
        let taken = match (self.rule, fence.id) {
            (Rule::MirrorAnywhere, _) => true,
            (_, Some(id)) => {
                let token = fence.token;
                small::may_import(copy.fence, Order { id, token })
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
        if self.bounds.give_ups > 0 {
            for (kept, row) in world.kept.iter_mut().zip(&rows) {
                *kept = row.choice.max(*kept);
            }
        }
    }

    fn breaks_record(&self, before: &Route, then: &mut Route) {
        match self.rule {
            Rule::GiveUpAtOldEpoch if then.gives_up() => then.epoch = before.epoch,
            Rule::EpochReused if then.phase() == Some(Phase::Aborting) => {
                then.epoch = before.epoch;
            }
            Rule::ForsakenIsReturnedTo if is_turned(before, then) => {
                if let Some(moving) = &mut then.moving {
                    moving.gives_up = false;
                }
            }
            Rule::SpentForgotten if then.moving.is_none() => then.spent = then.epoch,
            Rule::ReverseAtOldEpoch if is_turned(before, then) => {
                then.spent = before.spent;
                if let (Some(then), Some(before)) = (&mut then.moving, before.moving) {
                    then.prepared = before.prepared;
                }
            }
            _ => {}
        }
    }

    /// What a router that asks now is told.
    fn published(&self, route: &Route) -> (ShardNo, u8) {
        match (self.rule, route.moving) {
            (Rule::PublishBeforeCommit, Some(moving)) => match moving.phase {
                Phase::Sealing(epoch) => (moving.to, epoch),
                _ => (route.owner, route.epoch),
            },
            _ => (route.owner, route.epoch),
        }
    }

    /// An order as the shard sees it.
    fn shown(&self, order: Order, shard: &Shard) -> Order {
        let known = shard.fence.map_or((0, 0), |fence| fence.token);
        let token = match self.rule {
            Rule::NoToken => order.token.max(known),
            _ => order.token,
        };
        Order { token, ..order }
    }

    fn tell(&self, shard: &mut Shard, op: Op, order: Order) {
        let order = self.shown(order, shard);
        let then = match (self.rule, op) {
            // The epoch is no newer one, so it is not asked for.
            (Rule::EpochReused, Op::Reinstate(epoch)) => shard.fence.map(|fence| Fence {
                holding: Held::Owner,
                epoch,
                ..fence
            }),
            // There is nothing to remove, so nothing is written down.
            (Rule::NoGravestone, Op::Purge(_)) if shard.fence.is_none() => None,
            (Rule::CleanupWithoutFence, Op::Purge(epoch)) => {
                let known = shard.fence.map_or(epoch, |fence| fence.epoch.max(epoch));
                Some(Fence {
                    epoch: known,
                    holding: Held::Gone,
                    id: Some(order.id),
                    token: order.token,
                })
            }
            _ => small::told(shard.fence, op, order),
        };
        if then.is_some() {
            shard.fence = then;
            if matches!(op, Op::Purge(_)) {
                shard.rows = Rows::default();
            }
        }
    }

    fn bring(&self, shard: &mut Shard, rows: &Rows, order: Order) {
        let order = self.shown(order, shard);
        if !small::may_import(shard.fence, order) {
            return;
        }
        if let Some(fence) = &mut shard.fence {
            fence.token = fence.token.max(order.token);
        }
        self.merge(shard, rows);
    }

    fn merge(&self, shard: &mut Shard, rows: &Rows) {
        for (known, row) in shard.rows.iter_mut().zip(rows) {
            let newer = known.version() < row.version() || self.rule == Rule::NoVersions;
            if row.is_some() && newer {
                *known = *row;
            }
        }
    }

    /// A vote comes to a shard; whether it is taken.
    pub(super) fn vote(&self, shard: &mut Shard, voter: usize, choice: u8, epoch: u8) -> bool {
        let sealed_above = || {
            let sealed = shard.fence.filter(|fence| fence.holding == Held::Sealed);
            sealed.is_some_and(|fence| epoch < fence.epoch)
        };
        let admitted = match self.rule {
            Rule::NoFence => matches!(shard.holding(), Some(Held::Owner | Held::Sealed)),
            Rule::SealIsNoBarrier => sealed_above() || small::admits(shard.fence, epoch),
            _ => small::admits(shard.fence, epoch),
        };
        if !admitted {
            return false;
        }
        let row = &mut shard.rows[voter];
        // It was counted before.
        if row.choice >= choice && self.rule != Rule::RetryIsNew {
            return true;
        }
        // A row without a choice has lost what tells that this voter voted.
        let is_known = row.choice > 0;
        *row = Row {
            epoch,
            choice,
            counted: row.counted + u8::from(!is_known),
        };
        true
    }
}

/// A shard is given up: whatever it took that its successor lacks counts for
/// nothing from now on; unless both sides had to have it, for then it lacks
/// nothing.
fn give_up(world: &mut World, lost: ShardNo, then: &Route) {
    let owned = matches!(
        world.shards[usize::from(lost)].holding(),
        Some(Held::Owner | Held::Sealed)
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
