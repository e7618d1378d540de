//! Part of *CleanupOldShard* and *Rollback*: ends a migration whose only remaining
//! work is to remove a copy on an unreachable shard. The copy is removed when the
//! shard answers again.

use ballast_domain::ShardId;
use ballast_domain::migration::{LeftoverCopy, LeftoverState, Migration};
use ballast_state_machines::engine::{TaskContext, TaskError};

use super::abandon::is_repeated_failure;
use super::{MigrationSteps, to_task_error, with_heartbeats};
use crate::worker::{AbandonedCopy, LeasedMigration};

/// Describes the wait of a migration that only has a copy left to remove.
pub(super) fn describe_wait(error: &TaskError) -> String {
    format!("a retry: {} (removing an unneeded copy)", error.cause)
}

/// A migration that failed in its last action.
pub(super) struct FinalStep<'a> {
    pub(super) steps: &'a MigrationSteps,
    pub(super) context: &'a TaskContext,
    pub(super) migration: &'a Migration,
    pub(super) job: &'a LeasedMigration,
    /// Whether the migration is to be undone.
    pub(super) undo: bool,
}

impl FinalStep<'_> {
    /// Ends the migration without removing the copy on this shard, if it has failed
    /// repeatedly because of this shard and nothing else is left to do.
    pub(super) async fn end_without_copy(
        &self,
        shard: &ShardId,
        error: &TaskError,
    ) -> Result<Option<(Migration, AbandonedCopy)>, TaskError> {
        let (steps, migration) = (self.steps, self.migration);
        let before = migration.waiting_for.as_deref();
        if !is_repeated_failure(error, before, shard) || steps.worker.shards().is_starting(shard) {
            return Ok(None);
        }
        let leaving = with_heartbeats(
            self.context,
            steps.worker.finish_without_copy(self.job, self.undo),
        )
        .await;
        let Some(leaving) = leaving.map_err(to_task_error)? else {
            return Ok(None);
        };
        if leaving.left.shard != *shard {
            return Ok(None);
        }
        let id = &migration.migration_id;
        tracing::warn!(%id, %shard, "leaving a copy that is removed when its shard answers again");
        let left = leaving.left.clone();
        let edit = move |migration: &mut Migration| {
            if migration.left.is_none() {
                migration.left = Some(left.clone());
                migration.left_behind = Some(LeftoverState::Away);
            }
        };
        // Before the record is freed, so that no other migration targets that shard.
        let noted = steps
            .update_record(migration, "migration.leave", edit)
            .await?;
        let released = with_heartbeats(self.context, steps.worker.release(self.job)).await;
        released.map_err(to_task_error)?;
        Ok(Some((noted, leaving)))
    }
}

/// Describes why the migration ended with a copy left.
pub(super) fn describe_left(left: &LeftoverCopy) -> String {
    let shard = &left.shard;
    format!("{shard} is unreachable: its copy is removed when it answers again")
}
