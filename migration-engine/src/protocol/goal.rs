//! What one run of a worker aims at, and how that becomes an intent of the
//! protocol. Pure: the worker only reads, asks these functions, and acts.

use ballast_domain::moving::MigrationPhase;
use ballast_domain::tenant::Epoch;

use super::{FenceCommand, MigrationIntent, ObservedMigration, ProtocolAction};

/// How far a worker takes a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkGoal {
    /// The target is prepared.
    Prepared,
    /// The target owns the slice, and both shards know it.
    CutOver,
    /// The source's copy is removed.
    Finished,
    /// Before the cutover: the migration is aborted and undone. After it: the
    /// reverse migration is claimed, and the shard that the slice left is prepared.
    ReverseStarted,
    /// The slice is where it was before the migration.
    RolledBack,
    /// A reverse migration that has started is cancelled: the slice stays where it
    /// is, and the copy that the reverse migration made is removed.
    ReverseCancelled,
}

/// How a worker learns whether both sides are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EqualityCheck {
    /// By comparing both sides; the source is sealed at this epoch.
    Compare(Epoch),
    /// From the phase and the goal alone.
    Assume(bool),
}

impl WorkGoal {
    /// Returns the intent for the forward or the reverse migration. With
    /// `postpone` a cutover that takes too long is not carried out.
    #[must_use]
    pub fn to_intent(self, is_reverse: bool, postpone: bool) -> MigrationIntent {
        match (self, is_reverse) {
            (Self::CutOver, _) | (Self::RolledBack, true) if postpone => MigrationIntent::Postpone,
            // The reverse migration itself runs forward, to its end.
            (Self::RolledBack, true) | (Self::Finished, _) => MigrationIntent::Finish,
            (Self::Prepared | Self::CutOver, _) | (Self::ReverseStarted, true) => {
                MigrationIntent::Proceed
            }
            (Self::ReverseStarted | Self::RolledBack | Self::ReverseCancelled, _) => {
                MigrationIntent::RollBack
            }
        }
    }

    /// Returns how to learn whether both sides are equal. A copy that is not
    /// sealed counts as close enough to seal once the goal is beyond preparing:
    /// the steps have copied before.
    #[must_use]
    pub fn equality_check<S>(self, observed: &ObservedMigration<S>) -> EqualityCheck {
        match observed.route.moving.as_ref().map(|moving| moving.phase) {
            Some(MigrationPhase::Sealing { epoch }) if super::is_drained(observed) => {
                EqualityCheck::Compare(epoch)
            }
            Some(MigrationPhase::Sealing { .. }) => EqualityCheck::Assume(false),
            _ => EqualityCheck::Assume(!matches!(self, Self::Prepared | Self::ReverseStarted)),
        }
    }

    /// Whether the goal is reached before the migration itself has ended.
    #[must_use]
    pub fn is_reached<S>(self, observed: &ObservedMigration<S>) -> bool {
        let Some(moving) = observed.route.moving.as_ref() else {
            return false;
        };
        let goal = match (self, moving.migration_id.is_back()) {
            (Self::ReverseStarted, true) => Self::Prepared,
            (goal, _) => goal,
        };
        match (goal, moving.phase) {
            (Self::Prepared, MigrationPhase::Copying) => {
                super::is_importing(&observed.target, moving.prepared, &moving.migration_id)
            }
            // Beyond preparing.
            (Self::Prepared, _) => observed.target.is_some(),
            // In the window the shards still need their commands: `Watch` says
            // that they have them.
            (Self::CutOver, phase) => phase == MigrationPhase::Cleaning,
            _ => false,
        }
    }
}

/// Whether the slice takes writes again, judging by the next action: after the
/// cutover everything but activating the target comes later than that.
#[must_use]
pub fn is_write_pause_over<S>(phase: MigrationPhase, next: &ProtocolAction<S>) -> bool {
    let is_cut_over = matches!(phase, MigrationPhase::Window | MigrationPhase::Cleaning);
    is_cut_over
        && !matches!(
            next,
            ProtocolAction::SendCommand(_, FenceCommand::Activate(_))
        )
}

/// Whether the source takes writes again, judging by the next action: a worker that
/// postpones the cutover stops before this one.
#[must_use]
pub fn is_source_reinstated<S>(phase: MigrationPhase, next: &ProtocolAction<S>) -> bool {
    match next {
        ProtocolAction::UpdateRecord(_) => phase == MigrationPhase::Copying,
        ProtocolAction::SendCommand(_, FenceCommand::Reinstate(_)) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cutover_is_postponed() {
        let goals = [
            (WorkGoal::Prepared, [false, false]),
            (WorkGoal::CutOver, [true, true]),
            (WorkGoal::Finished, [false, false]),
            (WorkGoal::ReverseStarted, [false, false]),
            (WorkGoal::RolledBack, [false, true]),
            (WorkGoal::ReverseCancelled, [false, false]),
        ];
        for (goal, postponed) in goals {
            let is_source_reinstated = [false, true]
                .map(|is_reverse| goal.to_intent(is_reverse, true) == MigrationIntent::Postpone);
            assert_eq!(is_source_reinstated, postponed, "{goal:?}");
        }
    }

    #[test]
    fn a_rollback_runs_its_reverse_migration_to_the_end() {
        let intents =
            [false, true].map(|is_reverse| WorkGoal::RolledBack.to_intent(is_reverse, false));
        assert_eq!(
            intents,
            [MigrationIntent::RollBack, MigrationIntent::Finish]
        );
        let intents =
            [false, true].map(|is_reverse| WorkGoal::ReverseStarted.to_intent(is_reverse, false));
        assert_eq!(
            intents,
            [MigrationIntent::RollBack, MigrationIntent::Proceed]
        );
    }
}
