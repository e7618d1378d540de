//! Synchronous replication while a migration's window is open (`--window sync`):
//! a write is acknowledged only when both shards have it.
//!
//! ```text
//!   the owner has the write ──► the first waiting request starts a round:
//!                               owner's changes ──► replica
//!                           ──► all requests that waited when the round began
//!                               are answered when it ends
//! ```
//! An answer such as `already` may depend on an earlier write. So a round copies
//! all changes of the owner up to now, and continues where the last round ended.
//!
//! The replica accepts changes only while it belongs to this migration. To take a
//! slice back without its owner, the replica is first prepared for the way back.
//! From then on it refuses changes, so that no router can acknowledge a write that
//! only the old owner has.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ballast_domain::ShardId;
use ballast_domain::moving::{ActiveMigration, MigrationId};
use ballast_domain::routes::StreamedPosition;
use ballast_domain::tenant::{Epoch, Slice, SliceId};
use ballast_vote_shard::shard::{Cursor, FenceError, MigrationToken, SliceStateError};
use ballast_vote_shard::{ShardError, ShardResult, VoteShard};

use crate::RouterState;
use crate::deliver::ShardTarget;

/// About how many bytes of changes are copied at a time.
const PAGE_BYTES: usize = 1 << 20;

/// The replica that must also have each write, and the migration it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncReplica {
    shard_id: ShardId,
    move_id: MigrationId,
}

impl SyncReplica {
    /// The replica of a slice, if its route requires one.
    pub(crate) fn from_slice(slice: &Slice) -> Option<Self> {
        let moving: &ActiveMigration = slice.moving.as_ref()?;
        Some(Self {
            shard_id: moving.also_durable_on()?.clone(),
            move_id: moving.migration_id.clone(),
        })
    }
}

/// The replication of one slice since a cutover.
#[derive(Debug)]
struct ReplicaSync {
    move_id: MigrationId,
    epoch: Epoch,
    /// How many requests have asked for a round: the last ticket.
    requested: AtomicU64,
    rounds: tokio::sync::Mutex<SyncRounds>,
}

/// The progress of the rounds.
#[derive(Debug, Default)]
struct SyncRounds {
    /// Where the next round begins, once that is known.
    cursor: Option<Cursor>,
    /// The highest migration token that the replica has accepted. Replication holds
    /// no lease of its own, so it uses the current one.
    token: u64,
    /// Tickets up to this one are replicated.
    done: u64,
    /// Tickets up to this one have failed.
    failed: u64,
}

/// The replication of each slice.
#[derive(Debug, Default)]
pub(crate) struct ReplicaSyncs(Mutex<HashMap<SliceId, Arc<ReplicaSync>>>);

impl ReplicaSyncs {
    fn get_or_create(&self, target: &ShardTarget, replica: &SyncReplica) -> Arc<ReplicaSync> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = &target.fenced;
        let known = all.get(&at.slice).filter(|known| {
            known.move_id == replica.move_id && known.epoch == at.epoch || known.epoch > at.epoch
        });
        if let Some(known) = known {
            return known.clone();
        }
        let sync = Arc::new(ReplicaSync {
            move_id: replica.move_id.clone(),
            epoch: at.epoch,
            requested: AtomicU64::new(0),
            rounds: tokio::sync::Mutex::default(),
        });
        all.insert(at.slice.clone(), sync.clone());
        sync
    }

    pub(crate) fn forget(&self, slice: &SliceId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(slice);
    }
}

impl RouterState {
    /// Waits until the replica has everything that the owner has, if the route
    /// requires a replica. Fails with a fence error, so that the route is read
    /// again.
    pub(crate) async fn await_replica(&self, target: &ShardTarget) -> ShardResult<()> {
        let Some(replica) = &target.sync_replica else {
            return Ok(());
        };
        let sync = self.parts.replica_syncs.get_or_create(target, replica);
        let epoch = target.fenced.epoch;
        // A fence error makes the caller read the route again. It is not counted as
        // a failure of the owner, and the replica may no longer be required.
        let behind = ShardError::Fenced(FenceError::Behind { epoch });
        if (&sync.move_id, sync.epoch) != (&replica.move_id, epoch) {
            // The caller's route is stale.
            return Err(behind);
        }
        let ticket = sync.requested.fetch_add(1, Ordering::SeqCst) + 1;
        let mut rounds = sync.rounds.lock().await;
        if rounds.done >= ticket {
            return Ok(());
        }
        if rounds.failed >= ticket {
            return Err(behind);
        }
        // The writes of all tickets until now are at the owner.
        let requested = sync.requested.load(Ordering::SeqCst);
        match self.copy_changes(target, replica, &mut rounds).await {
            Ok(()) => {
                rounds.done = requested;
                Ok(())
            }
            Err(error) => {
                rounds.failed = requested;
                let (slice, shard) = (&target.fenced.slice, &replica.shard_id);
                tracing::debug!(%slice, %shard, %error, "cannot replicate to the previous shard");
                Err(behind)
            }
        }
    }

    /// Copies the owner's changes since the last round.
    async fn copy_changes(
        &self,
        target: &ShardTarget,
        replica: &SyncReplica,
        rounds: &mut SyncRounds,
    ) -> ShardResult<()> {
        let slice = &target.fenced.slice;
        let shard = self.parts.shards.shard(&replica.shard_id)?;
        let mut cursor = match rounds.cursor.take() {
            Some(cursor) => cursor,
            None => self.first_cursor(replica).await?,
        };
        let mut has_changes = false;
        loop {
            let page = match target.shard.export(slice, &cursor, PAGE_BYTES).await {
                Err(ShardError::CursorTooOld) => {
                    cursor = Cursor::Start;
                    continue;
                }
                other => other.inspect_err(|_| rounds.cursor = Some(cursor.clone()))?,
            };
            if !page.changes.is_empty() {
                // If the import fails, the next round starts before this page.
                rounds.cursor = Some(cursor);
                let token = MigrationToken {
                    migration_id: replica.move_id.clone(),
                    token: rounds.token,
                };
                match shard.import(slice, &token, &page.changes).await {
                    Err(ShardError::SliceState(SliceStateError::StaleToken { highest })) => {
                        rounds.token = highest;
                        let token = MigrationToken {
                            token: highest,
                            ..token
                        };
                        shard.import(slice, &token, &page.changes).await?;
                    }
                    other => other?,
                }
                has_changes = true;
            }
            cursor = page.next;
            rounds.cursor = Some(cursor.clone());
            if page.caught_up {
                break;
            }
        }
        match has_changes {
            true => Ok(()),
            // There were no changes. The owner's answer is valid only if the slice
            // has not been taken back without it.
            false => check_replica_migration(&*shard, replica, slice).await,
        }
    }

    /// The cursor of the first round.
    async fn first_cursor(&self, replica: &SyncReplica) -> ShardResult<Cursor> {
        let id = replica.move_id.outbound();
        match self.parts.source.streamed_back(&id).await {
            Ok(StreamedPosition::UpTo(position)) => Ok(Cursor::Changes { position }),
            Ok(StreamedPosition::Unknown) => Ok(Cursor::Start),
            Ok(StreamedPosition::NotYet) => {
                Err(ShardError::unavailable("the cutover is not recorded yet"))
            }
            Err(_) => Err(ShardError::unavailable(
                "the migration's record cannot be read",
            )),
        }
    }
}

/// Fails unless the replica still belongs to this migration.
async fn check_replica_migration(
    shard: &dyn VoteShard,
    replica: &SyncReplica,
    slice: &SliceId,
) -> ShardResult<()> {
    let fence = shard.fence(slice).await?;
    let fence = fence.ok_or(ShardError::SliceState(SliceStateError::UnknownSlice))?;
    let token = MigrationToken {
        migration_id: replica.move_id.clone(),
        token: fence.token,
    };
    fence.may_import(&token).map_err(ShardError::SliceState)
}

#[cfg(test)]
mod tests;
