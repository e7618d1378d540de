//! Ends a migration whose only remaining work is to remove a copy on an unreachable
//! shard. The copy is not needed, because the owner has everything. The record is
//! freed without removing it, and the copy is removed when its shard answers again
//! (by [`super::abandon`]).
//!
//! ```text
//!   Window, Cleaning ──► the copy on the source
//!   Aborting ──────────► the partial copy on the target
//! ```
//! This is safe at any time: the shard remembers such a copy as retired, and refuses
//! delayed commands by token and epoch as always.

use ballast_domain::ShardId;
use ballast_domain::migration::LeftoverCopy;
use ballast_domain::moving::MigrationPhase;
use ballast_domain::registry::RegistryError;
use ballast_domain::tenant::SliceId;
use ballast_vote_shard::shard::{Fence, MigrationToken};

use super::abandon::is_owner;
use super::sides::shard_error;
use super::{LeasedMigration, MigrationError, MigrationSides, MigrationWorker};
use crate::faults;
use crate::protocol::{self, FenceCommand};

/// Limit on the number of actions: more means that another worker is active.
const STEPS_MAX: usize = 16;

/// A migration that can end without removing a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedCopy {
    /// The copy that stays.
    pub left: LeftoverCopy,
    /// Whether the slice is on the shard where it was before the migration.
    pub undone: bool,
    /// Whether a reverse migration brought it back.
    pub back: bool,
}

impl MigrationWorker {
    /// Drives a migration, or its reverse migration, to the point where only a copy
    /// is left to remove, and returns that copy. The record still names the migration
    /// then, so that the caller can write the copy down before [`Self::release`].
    /// Returns `None` if the migration is not that far, or has ended. With `undo`, a
    /// migration before its cutover is aborted.
    pub async fn finish_without_copy(
        &self,
        job: &LeasedMigration,
        undo: bool,
    ) -> Result<Option<AbandonedCopy>, MigrationError> {
        for _ in 0..STEPS_MAX {
            let record = self.read(&job.slice).await?;
            let route = &record.route;
            let back = job.migration_id.way_back();
            let moving = route
                .active_migration(&job.migration_id)
                .or_else(|| route.active_migration(&back));
            let Some(moving) = moving.filter(|moving| !moving.gives_up) else {
                return Ok(None);
            };
            let is_back = moving.migration_id == back;
            let (shard, epoch, command) = match moving.phase {
                MigrationPhase::Copying | MigrationPhase::Sealing { .. } if undo && !is_back => {
                    if let Ok(then) = protocol::route::abort(route, &moving.migration_id) {
                        self.records.swap(&job.slice, &record, &then).await?;
                    }
                    continue;
                }
                MigrationPhase::Copying | MigrationPhase::Sealing { .. } => return Ok(None),
                // Nothing was imported at an epoch above the highest that was issued.
                MigrationPhase::Aborting => (
                    &moving.to,
                    route.spent,
                    FenceCommand::Reinstate(route.epoch),
                ),
                MigrationPhase::Window | MigrationPhase::Cleaning => (
                    &moving.from,
                    route.epoch,
                    FenceCommand::Activate(route.epoch),
                ),
            };
            let owner = MigrationSides::resolve(&*self.shards, None, &route.owner, &route.owner)?;
            let fence = self.fence_on(&route.owner, &job.slice).await?;
            if !is_owner(fence.as_ref(), route.epoch) {
                let token = MigrationToken {
                    migration_id: moving.migration_id.clone(),
                    token: protocol::command_token(moving.prepared, job.lease),
                };
                owner
                    .send_command(&job.slice, &route.owner, command, &token)
                    .await?;
                continue;
            }
            if moving.phase == MigrationPhase::Window {
                if let Ok(then) = protocol::route::clean(route, &moving.migration_id) {
                    self.records.swap(&job.slice, &record, &then).await?;
                }
                continue;
            }
            let left = LeftoverCopy {
                shard: shard.clone(),
                epoch,
            };
            return Ok(Some(AbandonedCopy {
                left,
                undone: is_back || moving.phase == MigrationPhase::Aborting,
                back: is_back && moving.phase == MigrationPhase::Cleaning,
            }));
        }
        Err(RegistryError::new("leave a copy", "the record keeps changing").into())
    }

    /// Ends a migration that leaves a copy, and frees the record.
    pub async fn release(&self, job: &LeasedMigration) -> Result<(), MigrationError> {
        for _ in 0..STEPS_MAX {
            let record = self.read(&job.slice).await?;
            let back = job.migration_id.way_back();
            let ids = [&job.migration_id, &back];
            let mut ids = ids.into_iter();
            let Some(id) = ids.find(|id| record.route.active_migration(id).is_some()) else {
                return Ok(());
            };
            let Ok(then) = protocol::route::release(&record.route, id) else {
                return Ok(());
            };
            faults::crash_point("swap", &then);
            self.records.swap(&job.slice, &record, &then).await?;
            faults::crash_point("swapped", &then);
        }
        Ok(())
    }

    /// Reads a shard's fence for a slice.
    pub(super) async fn fence_on(
        &self,
        shard: &ShardId,
        slice: &SliceId,
    ) -> Result<Option<Fence>, MigrationError> {
        let vote_shard = self.shards.shard(shard).map_err(shard_error(shard))?;
        vote_shard.fence(slice).await.map_err(shard_error(shard))
    }
}
