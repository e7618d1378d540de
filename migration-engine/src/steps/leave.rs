//! A part of *CleanupOldShard* and of *Rollback*: a shard is away, and nothing is
//! wanted of it but to remove a copy that nobody needs. The move ends without; the
//! copy is removed when its shard answers again.

use ballast_domain::ShardId;
use ballast_domain::migration::{Left, LeftBehind, Migration};
use ballast_state_machines::engine::{TaskContext, TaskError};

use super::give_up::again;
use super::{Steps, alive, failed};
use crate::worker::{Job, Leaving};

/// What a move waits for that has nothing else to do.
pub(super) fn waits(error: &TaskError) -> String {
    format!(
        "this to pass: {} (removing a copy that nobody needs)",
        error.cause
    )
}

/// A move whose last act failed.
pub(super) struct Last<'a> {
    pub(super) steps: &'a Steps,
    pub(super) context: &'a TaskContext,
    pub(super) migration: &'a Migration,
    pub(super) job: &'a Job,
    /// Whether it is to be as if it had never been.
    pub(super) undo: bool,
}

impl Last<'_> {
    /// Has the move end without the copy on this shard, if that is what it failed
    /// for, not for the first time, and nothing else is left to do.
    pub(super) async fn without(
        &self,
        shard: &ShardId,
        error: &TaskError,
    ) -> Result<Option<(Migration, Leaving)>, TaskError> {
        let (steps, migration) = (self.steps, self.migration);
        let before = migration.waiting_for.as_deref();
        if !again(error, before, shard) || steps.worker.shards().is_starting(shard) {
            return Ok(None);
        }
        let leaving = alive(self.context, steps.worker.leave(self.job, self.undo)).await;
        let Some(leaving) = leaving.map_err(failed)? else {
            return Ok(None);
        };
        if leaving.left.shard != *shard {
            return Ok(None);
        }
        let id = &migration.migration_id;
        tracing::warn!(%id, %shard, "a copy is left to be removed when its shard answers again");
        let left = leaving.left.clone();
        let edit = move |migration: &mut Migration| {
            if migration.left.is_none() {
                migration.left = Some(left.clone());
                migration.left_behind = Some(LeftBehind::Away);
            }
        };
        // Before the record is free: so nothing comes to that shard meanwhile.
        let noted = steps.note(migration, "migration.leave", edit).await?;
        let released = alive(self.context, steps.worker.release(self.job)).await;
        released.map_err(failed)?;
        Ok(Some((noted, leaving)))
    }
}

/// Why a move ended so, in words.
pub(super) fn told(left: &Left) -> String {
    let shard = &left.shard;
    format!("{shard} is away: its copy is removed when it answers again")
}
