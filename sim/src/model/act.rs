//! What workers do next: the product decides it from what they observe.

use ballast_migration_engine::protocol::MigrationIntent;

use super::happen::MigrationModel;
use super::rules::BrokenRule;
use super::small::{
    self, ModelAction, ModelCommand, ModelFence, ModelHolding, ModelMigration, ModelObservation,
    ModelPhase, ModelRoute, ModelToken, ShardNumber,
};
use super::world::{Message, ModelRow, ModelRows, ModelWorld};

/// The intents that a worker can have, at any observation.
const INTENTS: [MigrationIntent; 5] = [
    MigrationIntent::Proceed,
    MigrationIntent::Postpone,
    MigrationIntent::RollBack,
    MigrationIntent::Finish,
    MigrationIntent::AbandonOwner,
];

impl MigrationModel {
    /// Every message that a worker may send next.
    pub(super) fn acts(&self, world: &ModelWorld, worker: usize) -> Vec<Message> {
        let mut works: Vec<Message> = Vec::new();
        for intent in INTENTS {
            for close in [true, false] {
                let work = self.next_message(world, worker, intent, close);
                works.extend(work.filter(|work| !works.contains(work)));
            }
        }
        works.extend(self.repairs(world, worker));
        works.extend(self.relaxes(world, worker));
        works.extend(self.leaves(world, worker));
        works.extend(
            self.message_to_abandoned(world)
                .filter(|_| !self.is_reconciler(worker)),
        );
        works.extend(self.removes(world).filter(|_| !self.is_reconciler(worker)));
        works
    }

    /// The message that tells an abandoned shard, which a worker may send at any time.
    pub(super) fn message_to_abandoned(&self, world: &ModelWorld) -> Option<Message> {
        let (shard, _) = world.lost?;
        let fence = world.shards[usize::from(shard)].fence;
        let op = match (self.rule, fence?.holding) {
            (BrokenRule::AbandonedCopyPurged, ModelHolding::Retired) => {
                ModelCommand::Purge(world.route.epoch)
            }
            _ => small::command_for_abandoned(fence, world.route.epoch)?,
        };
        let back = world.route.moving.map(|moving| moving.id);
        let back = back.or(world.route.last.map(|(id, _)| id))?;
        let id = match fence?.holding {
            ModelHolding::Importing => fence?.id?,
            _ => back,
        };
        let token = fence?.token;
        Some(Message::Command {
            shard,
            op,
            order: ModelToken { id, token },
        })
    }

    /// The update that ends a migration without removing its copy, as if the copy's shard
    /// were unreachable. The owner has to know that it owns the slice.
    fn leaves(&self, world: &ModelWorld, worker: usize) -> Option<Message> {
        let seen = world.workers[worker].seen.unwrap_or(world.route);
        let owner = world.shards[usize::from(seen.owner)].fence?;
        let knows = owner.holding == ModelHolding::Owner && owner.epoch == seen.epoch;
        let may = world.left.leaves > 0 && !seen.gives_up() && !self.is_reconciler(worker);
        let then = seen.released().filter(|_| may && knows)?;
        Some(Message::UpdateRecord { seen, then })
    }

    /// The message that removes a copy that was left, which a worker may send at any time.
    pub(super) fn removes(&self, world: &ModelWorld) -> Option<Message> {
        let (shard, epoch) = world.behind?;
        let fence = world.shards[usize::from(shard)].fence;
        let op = match fence {
            Some(fence) if fence.holding == ModelHolding::Retired && fence.epoch <= epoch => {
                ModelCommand::Purge(epoch)
            }
            fence => small::command_for_abandoned(fence, epoch)?,
        };
        let id = fence.and_then(|fence| fence.id).unwrap_or_default();
        let token = fence.map_or((0, 0), |fence| fence.token);
        let order = ModelToken { id, token };
        Some(Message::Command { shard, op, order })
    }

    /// The message that discards a damaged copy, which any worker may send after any
    /// observation in phase `Copying`.
    fn repairs(&self, world: &ModelWorld, worker: usize) -> Option<Message> {
        let route = world.workers[worker].seen.unwrap_or(world.route);
        let moving = route.moving?;
        let copies = moving.phase == ModelPhase::Copying && !self.is_reconciler(worker);
        (copies && world.left.repairs > 0).then_some(Message::Discard {
            shard: moving.to,
            known: route.spent,
            order: token_of_worker(&moving, worker),
        })
    }

    /// The update that ends synchronous acknowledgement, which any worker may send.
    fn relaxes(&self, world: &ModelWorld, worker: usize) -> Option<Message> {
        let seen = world.workers[worker].seen.unwrap_or(world.route);
        let then = seen.relaxed().filter(|_| !self.is_reconciler(worker))?;
        Some(Message::UpdateRecord { seen, then })
    }

    fn is_reconciler(&self, worker: usize) -> bool {
        self.bounds.reconciler && worker + 1 == usize::from(self.bounds.workers)
    }

    /// The next message of a worker with this intent, which finds the target close
    /// enough behind the source, or not.
    pub(super) fn next_message(
        &self,
        world: &ModelWorld,
        worker: usize,
        intent: MigrationIntent,
        close: bool,
    ) -> Option<Message> {
        let route = world.workers[worker].seen.unwrap_or(world.route);
        let moving = route.moving?;
        let (from, to) = (usize::from(moving.from), usize::from(moving.to));
        let (source, target) = (&world.shards[from], &world.shards[to]);
        let equal = match moving.phase {
            ModelPhase::Sealing(_) => self.finds_equal(&source.rows, &target.rows),
            _ => close,
        };
        let abandons = intent == MigrationIntent::AbandonOwner;
        if abandons && (world.left.abandonments == 0 || !self.may_abandon(&moving)) {
            return None;
        }
        // The abandoned owner is not read.
        let is_back = small::is_back(moving.id);
        let (no_source, no_target) = (abandons && is_back, abandons && !is_back);
        let target_seen = self.observed_target(&moving, target.fence);
        let seen = ModelObservation {
            route,
            source: source.fence.filter(|_| !no_source),
            target: target_seen.filter(|_| !no_target),
            equal,
            intent,
        };
        let step = self.break_action(world, &seen, small::next_action(&seen));
        if !self.is_within(world, &route, &step) {
            return None;
        }
        let mut order = token_of_worker(&moving, worker);
        if self.is_reconciler(worker) {
            // The reconciler only undoes a seal and tells the owner, and uses a token
            // that does not lock out the worker.
            let does = match step {
                ModelAction::UpdateRecord(_) => matches!(moving.phase, ModelPhase::Sealing(_)),
                ModelAction::SendCommand(_, op) => {
                    matches!(op, ModelCommand::Reinstate(_) | ModelCommand::Activate(_))
                }
                _ => false,
            };
            if intent != MigrationIntent::Postpone || !does {
                return None;
            }
            let fences = [source.fence, target.fence].into_iter().flatten();
            let highest = fences.map(|fence| fence.token).max().unwrap_or_default();
            order.token = highest.max((moving.prepared, 0));
        }
        let bring = |shard: ShardNumber, rows: ModelRows| {
            let lacks = world.shards[usize::from(shard)].lacks(&rows);
            let work = Message::Import { shard, rows, order };
            // Skip an import that brings nothing new.
            lacks.then_some(work)
        };
        match step {
            ModelAction::UpdateRecord(then) => Some(Message::UpdateRecord { seen: route, then }),
            ModelAction::SendCommand(shard, op) => Some(Message::Command { shard, op, order }),
            ModelAction::CopyData => bring(moving.to, self.copied_rows(&source.rows)),
            // During the window new rows are streamed back.
            ModelAction::Watch => bring(moving.from, target.rows),
            ModelAction::Nothing => None,
        }
    }

    /// Whether the migration is in a phase in which its owner can be abandoned.
    fn may_abandon(&self, moving: &ModelMigration) -> bool {
        match moving.phase {
            ModelPhase::Window => !small::is_back(moving.id),
            ModelPhase::Copying | ModelPhase::Sealing(_) => {
                small::is_back(moving.id) || self.rule == BrokenRule::AbandonForward
            }
            ModelPhase::Aborting | ModelPhase::Cleaning => false,
        }
    }

    /// The target's fence as the worker observes it.
    fn observed_target(
        &self,
        moving: &ModelMigration,
        fence: Option<ModelFence>,
    ) -> Option<ModelFence> {
        match (self.rule, moving.phase) {
            (BrokenRule::ReadySkipped, ModelPhase::Sealing(epoch)) => {
                fence.map(|fence| ModelFence { epoch, ..fence })
            }
            _ => fence,
        }
    }

    /// Whether the bounds allow this action.
    fn is_within(&self, world: &ModelWorld, route: &ModelRoute, step: &ModelAction) -> bool {
        let ModelAction::UpdateRecord(then) = step else {
            return true;
        };
        if is_abandoning(route, then) && world.left.abandonments == 0 {
            return false;
        }
        if is_turned(route, then) {
            return world.left.moves > 0;
        }
        !is_put_off(route, then) || world.left.retreats > 0
    }

    fn finds_equal(&self, source: &ModelRows, target: &ModelRows) -> bool {
        let there = |rows: &ModelRows| rows.map(|row| row.is_some());
        match self.rule {
            BrokenRule::PositionBeforeSeal => true,
            BrokenRule::RequestsNotCopied | BrokenRule::CountInsteadOfDigest => {
                there(source) == there(target)
            }
            _ => source == target,
        }
    }

    fn copied_rows(&self, rows: &ModelRows) -> ModelRows {
        match self.rule {
            // Without its request ids a repeated vote looks new.
            BrokenRule::RequestsNotCopied => rows.map(|row| ModelRow { choice: 0, ..row }),
            _ => *rows,
        }
    }

    /// Applies a broken rule to an action.
    fn break_action(
        &self,
        world: &ModelWorld,
        seen: &ModelObservation,
        step: ModelAction,
    ) -> ModelAction {
        let Some(moving) = seen.route.moving else {
            return step;
        };
        let is_swap = matches!(step, ModelAction::UpdateRecord(_));
        match (self.rule, moving.phase) {
            (BrokenRule::UnsealWithoutAbort, ModelPhase::Sealing(epoch))
                if seen.intent == MigrationIntent::RollBack =>
            {
                ModelAction::SendCommand(moving.from, ModelCommand::Reinstate(epoch + 1))
            }
            (
                BrokenRule::PublishBeforeCommit | BrokenRule::ActivateBeforeCommit,
                ModelPhase::Sealing(epoch),
            ) if is_swap
                && !matches!(
                    seen.intent,
                    MigrationIntent::RollBack | MigrationIntent::Postpone
                )
                && world.shards[usize::from(moving.to)].holding() != Some(ModelHolding::Owner) =>
            {
                ModelAction::SendCommand(moving.to, ModelCommand::Activate(epoch))
            }
            (BrokenRule::SealBeforeRecord, ModelPhase::Copying)
                if is_swap
                    && seen.intent != MigrationIntent::RollBack
                    && seen.source.map(|fence| fence.holding) == Some(ModelHolding::Owner) =>
            {
                ModelAction::SendCommand(moving.from, ModelCommand::Seal(seen.route.spent + 1))
            }
            (BrokenRule::AbandonForward, ModelPhase::Copying | ModelPhase::Sealing(_))
                if seen.intent == MigrationIntent::AbandonOwner && !small::is_back(moving.id) =>
            {
                abandon_forward(seen, &moving)
            }
            (BrokenRule::AbortAfterCommit, ModelPhase::Window)
                if is_swap && seen.intent == MigrationIntent::RollBack =>
            {
                let mut then = seen.route;
                then.spent += 1;
                then.epoch = then.spent;
                then.owner = moving.from;
                then.moving = Some(ModelMigration {
                    phase: ModelPhase::Aborting,
                    ..moving
                });
                ModelAction::UpdateRecord(then)
            }
            _ => step,
        }
    }
}

/// A forward migration that abandons its source before the target has everything.
fn abandon_forward(seen: &ModelObservation, moving: &ModelMigration) -> ModelAction {
    let ModelPhase::Sealing(epoch) = moving.phase else {
        return small::next_action(&ModelObservation {
            intent: MigrationIntent::Proceed,
            equal: true,
            ..*seen
        });
    };
    let mut then = seen.route;
    (then.owner, then.epoch) = (moving.to, epoch);
    then.moving = Some(ModelMigration {
        gives_up: true,
        phase: ModelPhase::Window,
        ..*moving
    });
    ModelAction::UpdateRecord(then)
}

/// The token of a worker's commands.
fn token_of_worker(moving: &ModelMigration, worker: usize) -> ModelToken {
    let lease = u8::try_from(worker + 1).unwrap_or(u8::MAX);
    ModelToken {
        id: moving.id,
        token: (moving.prepared, lease),
    }
}

/// Whether the update starts a reverse migration.
pub(super) fn is_turned(before: &ModelRoute, after: &ModelRoute) -> bool {
    let ids = (
        before.moving.map(|one| one.id),
        after.moving.map(|one| one.id),
    );
    matches!(ids, (Some(before), Some(after)) if before != after)
}

/// Whether the update abandons the owner.
pub(super) fn is_abandoning(before: &ModelRoute, after: &ModelRoute) -> bool {
    after.gives_up() && !before.gives_up()
}

/// Whether the update postpones a seal.
pub(super) fn is_put_off(before: &ModelRoute, after: &ModelRoute) -> bool {
    matches!(before.phase(), Some(ModelPhase::Sealing(_)))
        && after.phase() == Some(ModelPhase::Copying)
}
