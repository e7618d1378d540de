//! The migration protocol: a pure function from what a worker observed to its
//! next action.
//!
//! ```text
//!   record (route.rs)  ┐
//!   source's fence     ├──► next_action ──► one action: update the record, send
//!   target's fence     ┘                    a shard a command, copy, wait, or end
//! ```
//! A worker keeps no state between two actions. It reads the record and both
//! fences, calls [`next_action`], performs the one action it returns, and reads
//! again. A crash between any two lines is therefore the same as an observation
//! without an action.
//!
//! Every effect is guarded where it happens: the record by compare-and-swap, a
//! shard by its fence. A stale observation, or a worker that was declared dead
//! but still runs, does no harm. The model checker (`sim`) explores exactly this
//! code.

pub mod goal;
pub mod recut;
pub mod route;

use ballast_domain::moving::{ActiveMigration, MigrationId, MigrationPhase, SliceRoute};
use ballast_domain::tenant::Epoch;
use ballast_vote_shard::shard::{Fence, Holding};

/// What the worker wants from the migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MigrationIntent {
    /// Bring the slice to its target.
    Proceed,
    /// Do not cut over now: unseal the source so that it takes votes, and keep
    /// copying.
    Postpone,
    /// Leave the slice on its source, or bring it back there.
    RollBack,
    /// End the window.
    Finish,
    /// Bring the slice back although its owner is permanently gone. Writes that
    /// only the owner has are lost.
    AbandonOwner,
}

/// What a worker observed. Each part may have been read at a different moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedMigration<S> {
    /// The slice's record.
    pub route: SliceRoute<S>,
    /// The source's fence for the slice.
    pub source: Option<Fence>,
    /// The target's fence for the slice.
    pub target: Option<Fence>,
    /// While the source takes writes: the target is close enough behind it to
    /// seal. While the source is sealed: both sides have the same count and digest.
    pub equal: bool,
    /// What the worker wants.
    pub intent: MigrationIntent,
}

/// A command to a shard, which changes its fence for the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FenceCommand {
    /// Start importing the slice at this epoch, keeping what was already imported.
    Prepare(Epoch),
    /// From now on only add rows, never discard them: what is compared next is
    /// what the target will own.
    Ready(Epoch),
    /// Stop taking writes.
    Seal(Epoch),
    /// Own the slice again, at this newer epoch, with the data from before.
    Reinstate(Epoch),
    /// Own what was imported.
    Activate(Epoch),
    /// Stop owning the slice, and keep its data as a copy.
    Retire(Epoch),
    /// Remove the slice's data, and remember the slice as gone at this epoch or a
    /// later one.
    Purge(Epoch),
}

/// The next action of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProtocolAction<S> {
    /// Replace the observed record with this one, by compare-and-swap.
    UpdateRecord(Box<SliceRoute<S>>),
    /// Send a shard a command.
    SendCommand(S, FenceCommand),
    /// Copy from the source what the target lacks.
    CopyData,
    /// The window is open: compare reads until the intent changes.
    Watch,
    /// The migration has ended.
    Ended {
        /// Whether the slice is on its target.
        moved: bool,
    },
    /// The record does not know the migration: it was never claimed, or a later
    /// one has replaced it.
    Unknown,
}

/// Returns the next action for a migration.
pub fn next_action<S: Clone + PartialEq>(
    id: &MigrationId,
    observed: &ObservedMigration<S>,
) -> ProtocolAction<S> {
    let route = &observed.route;
    let Some(moving) = route.active_migration(id) else {
        return match &route.last {
            Some(last) if last.migration_id == *id => ProtocolAction::Ended { moved: last.moved },
            _ => ProtocolAction::Unknown,
        };
    };
    // Only a reverse migration can abandon its source: its target has everything
    // from before the forward migration.
    let (abandons, intent) = match observed.intent {
        // The record has already decided it, whatever the intent is.
        _ if moving.gives_up => (true, MigrationIntent::Finish),
        MigrationIntent::AbandonOwner if id.is_back() => (true, MigrationIntent::Finish),
        MigrationIntent::AbandonOwner => (true, MigrationIntent::RollBack),
        intent => (false, intent),
    };
    let step = PhaseStep {
        id,
        observed,
        moving,
        abandons,
        intent,
    };
    match moving.phase {
        MigrationPhase::Copying => step.while_copying(),
        MigrationPhase::Sealing { epoch } => step.while_sealing(epoch),
        MigrationPhase::Window => step.in_window(),
        MigrationPhase::Cleaning => step.while_cleaning(),
        MigrationPhase::Aborting => step.while_aborting(),
    }
}

/// An active migration and what a worker observed of it.
struct PhaseStep<'a, S> {
    id: &'a MigrationId,
    observed: &'a ObservedMigration<S>,
    moving: &'a ActiveMigration<S>,
    /// Whether the owner is abandoned, by the record or by the intent.
    abandons: bool,
    intent: MigrationIntent,
}

impl<S: Clone + PartialEq> PhaseStep<'_, S> {
    fn while_copying(&self) -> ProtocolAction<S> {
        let (id, route) = (self.id, &self.observed.route);
        if self.intent == MigrationIntent::RollBack {
            return update_record(route::abort(route, id));
        }
        // After a retreat the source is still sealed.
        if !self.abandons && !is_owner(&self.observed.source, route.epoch) {
            return self.send_source(FenceCommand::Reinstate(route.epoch));
        }
        let prepared = self.moving.prepared;
        if !is_importing(&self.observed.target, prepared, id) {
            return self.send_target(FenceCommand::Prepare(prepared));
        }
        match self.observed.equal || self.abandons {
            false => ProtocolAction::CopyData,
            true => update_record(route::seal(route, id)),
        }
    }

    fn while_sealing(&self, epoch: Epoch) -> ProtocolAction<S> {
        let (id, observed) = (self.id, self.observed);
        let route = &observed.route;
        match self.intent {
            MigrationIntent::RollBack => return update_record(route::abort(route, id)),
            MigrationIntent::Postpone => return update_record(route::retreat(route, id)),
            MigrationIntent::Proceed | MigrationIntent::Finish | MigrationIntent::AbandonOwner => {}
        }
        // Before the seal, so that it does not lengthen the write pause.
        if !is_holding(&observed.target, Holding::Importing, epoch, id) {
            return self.send_target(FenceCommand::Ready(epoch));
        }
        if self.abandons {
            return update_record(route::commit_without_source(route, id));
        }
        if !is_holding(&observed.source, Holding::Sealed, epoch, id) {
            // The source can still be sealed at an earlier epoch: after a retreat, a
            // worker that wanted to abandon the owner sealed again without
            // reinstating it. Reinstate it first.
            return self.send_source(match is_owner(&observed.source, route.epoch) {
                true => FenceCommand::Seal(epoch),
                false => FenceCommand::Reinstate(route.epoch),
            });
        }
        match observed.equal {
            false => ProtocolAction::CopyData,
            true => update_record(route::commit(route, id)),
        }
    }

    fn in_window(&self) -> ProtocolAction<S> {
        let (id, observed) = (self.id, self.observed);
        let (route, epoch) = (&observed.route, observed.route.epoch);
        // An owner that is about to be abandoned need not know that it owns the slice.
        let is_lost = self.abandons && !self.moving.gives_up && !id.is_back();
        if !is_lost && !is_holding(&observed.target, Holding::Owner, epoch, id) {
            return self.send_target(FenceCommand::Activate(epoch));
        }
        // The source was abandoned: the slice cannot return there, and its copy
        // there is kept.
        if self.moving.gives_up {
            return update_record(route::release(route, id));
        }
        if !is_holding(&observed.source, Holding::Retired, epoch, id) {
            return self.send_source(FenceCommand::Retire(epoch));
        }
        match self.intent {
            MigrationIntent::Finish | MigrationIntent::AbandonOwner => {
                update_record(route::clean(route, id))
            }
            MigrationIntent::RollBack if is_lost => {
                update_record(route::reverse_without_owner(route, id, &id.way_back()))
            }
            MigrationIntent::RollBack => update_record(route::reverse(route, id, &id.way_back())),
            MigrationIntent::Proceed | MigrationIntent::Postpone => ProtocolAction::Watch,
        }
    }

    fn while_cleaning(&self) -> ProtocolAction<S> {
        let route = &self.observed.route;
        if !self.moving.gives_up && !is_gone(&self.observed.source, route.epoch) {
            return self.send_source(FenceCommand::Purge(route.epoch));
        }
        update_record(route::release(route, self.id))
    }

    fn while_aborting(&self) -> ProtocolAction<S> {
        let (observed, prepared) = (self.observed, self.moving.prepared);
        let route = &observed.route;
        if !is_owner(&observed.source, route.epoch) {
            return self.send_source(FenceCommand::Reinstate(route.epoch));
        }
        if !is_gone(&observed.target, prepared) {
            return self.send_target(FenceCommand::Purge(prepared));
        }
        update_record(route::release(route, self.id))
    }

    fn send_source(&self, command: FenceCommand) -> ProtocolAction<S> {
        ProtocolAction::SendCommand(self.moving.from.clone(), command)
    }

    fn send_target(&self, command: FenceCommand) -> ProtocolAction<S> {
        ProtocolAction::SendCommand(self.moving.to.clone(), command)
    }
}

/// Returns the command for a shard that was abandoned or left with a copy at this epoch, once
/// the shard answers again. The shard may believe that it owns the slice and must
/// stop taking votes; its data is kept. `None` when its fence already says so.
pub fn command_for_abandoned(fence: &Option<Fence>, epoch: Epoch) -> Option<FenceCommand> {
    let Some(fence) = fence else {
        // The slice never reached it, or its disk was replaced. Leave a tombstone
        // that refuses commands still in flight.
        return Some(FenceCommand::Purge(epoch));
    };
    match fence.holding {
        Holding::Owner if epoch > fence.epoch => Some(FenceCommand::Seal(epoch)),
        Holding::Sealed if epoch >= fence.epoch => Some(FenceCommand::Retire(epoch)),
        // It never owned the slice and has no data of its own.
        Holding::Importing if epoch >= fence.epoch => Some(FenceCommand::Purge(epoch)),
        // Gone since an earlier migration: raise the tombstone's epoch, so that it
        // also refuses commands of this one.
        Holding::Gone if epoch > fence.epoch => Some(FenceCommand::Purge(epoch)),
        // It knows already, or a later migration brought the slice back to it.
        _ => None,
    }
}

/// Whether the source is sealed at the record's epoch and the target no longer
/// discards rows. Only then does an equal digest on both sides prove anything.
pub fn is_drained<S>(observed: &ObservedMigration<S>) -> bool {
    observed.route.moving.as_ref().is_some_and(|moving| {
        matches!(moving.phase, MigrationPhase::Sealing { epoch }
            if is_holding(&observed.source, Holding::Sealed, epoch, &moving.migration_id)
                && is_holding(&observed.target, Holding::Importing, epoch, &moving.migration_id))
    })
}

/// Whether a shard imports the slice for this migration: at the epoch it was
/// prepared at, or at the later epoch of a postponed seal.
pub fn is_importing(fence: &Option<Fence>, prepared: Epoch, id: &MigrationId) -> bool {
    fence.as_ref().is_some_and(|fence| {
        fence.holding == Holding::Importing
            && fence.epoch >= prepared
            && fence.migration_id.as_ref() == Some(id)
    })
}

/// The token of a worker's commands. A shard refuses tokens below the highest one
/// it has accepted for a slice. Later migrations have higher tokens; within one
/// migration, later leases do.
pub fn command_token(prepared: Epoch, lease: u64) -> u64 {
    const LEASES: u64 = 1 << 20;
    prepared.0 * LEASES + lease.min(LEASES - 1)
}

fn update_record<S>(changed: Result<SliceRoute<S>, route::TransitionError>) -> ProtocolAction<S> {
    // The caller has checked the phase, so the transition is never refused.
    changed.map_or(ProtocolAction::Unknown, |route| {
        ProtocolAction::UpdateRecord(Box::new(route))
    })
}

fn is_holding(fence: &Option<Fence>, holding: Holding, epoch: Epoch, id: &MigrationId) -> bool {
    fence.as_ref().is_some_and(|fence| {
        fence.holding == holding && fence.epoch == epoch && fence.migration_id.as_ref() == Some(id)
    })
}

fn is_owner(fence: &Option<Fence>, epoch: Epoch) -> bool {
    fence
        .as_ref()
        .is_some_and(|fence| fence.holding == Holding::Owner && fence.epoch == epoch)
}

/// Whether the data is gone and the tombstone refuses every command up to this
/// epoch.
fn is_gone(fence: &Option<Fence>, epoch: Epoch) -> bool {
    fence
        .as_ref()
        .is_some_and(|fence| fence.holding == Holding::Gone && fence.epoch >= epoch)
}
