//! Abandons an owner that is permanently gone, during the window: the slice returns
//! to the shard that it came from, without its owner. Writes that only the owner has
//! are lost. Its data is never removed without an operator's command; if it answers
//! again, it learns that it no longer owns the slice.
//!
//! ```text
//!   check_owner              can it still be sealed and drained? Then reverse as usual
//!   take_back_without_owner  the shard that the slice came from owns it again
//!   release_abandoned        frees the record
//!   notify_abandoned_shard   tells the abandoned shard, when it answers again
//!   remove_abandoned_copy    removes its copy, when an operator asks for it
//! ```
//! The owner is neither read nor sent commands on the way. As always, only the
//! record decides.

use std::time::Duration;

use ballast_domain::ShardId;
use ballast_domain::moving::{ActiveMigration, MigrationId, MigrationPhase};
use ballast_domain::registry::RegistryError;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_vote_shard::shard::{Fence, Holding, MigrationToken};
use ballast_vote_shard::{ShardDirectory, ShardError};

use super::sides::shard_error;
use super::{LeasedMigration, MigrationError, MigrationSides, MigrationWorker};
use crate::copy::CopyProgress;
use crate::faults;
use crate::protocol::{self, MigrationIntent, ObservedMigration, ProtocolAction};

/// Limit on the number of actions: more means that another worker is active.
const STEPS_MAX: usize = 32;
/// A shard that does not answer for this long counts as unreachable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often to check whether a starting shard has started.
const STARTUP_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How much to read from a shard to test whether it can be read.
const PAGE_BYTES: usize = 1 << 10;

/// How an attempt to abandon an owner ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbandonOutcome {
    /// The other shard owns the slice, at this epoch.
    Abandoned {
        /// The epoch.
        epoch: Epoch,
        /// The rows that the other shard had then; unknown if another worker made
        /// the decision.
        present: Option<u64>,
        /// Whether both sides had every acknowledged write.
        synced: bool,
    },
    /// The migration is neither in its window nor being reversed.
    NotApplicable,
}

/// The shard that the slice returns to.
struct ReturnShard<'a> {
    sides: MigrationSides,
    slice: &'a SliceId,
}

/// Whether an owner is usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerHealth {
    /// It answers, and can be sealed and drained: reverse the migration as usual.
    Healthy,
    /// It is starting, so it is not known yet.
    Starting,
    /// It cannot be used, for this reason.
    Unhealthy(String),
}

/// Checks whether an owner is usable, within a few seconds.
pub async fn check_owner(
    shards: &dyn ShardDirectory,
    slice: &SliceId,
    owner: &ShardId,
    copied: &CopyProgress,
) -> OwnerHealth {
    let is_started = async {
        while shards.is_starting(owner) {
            tokio::time::sleep(STARTUP_POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(ANSWER_TIMEOUT, is_started)
        .await
        .is_err()
    {
        return OwnerHealth::Starting;
    }
    let probe =
        tokio::time::timeout(ANSWER_TIMEOUT, probe_owner(shards, slice, owner, copied)).await;
    match probe {
        Ok(Ok(())) => OwnerHealth::Healthy,
        Ok(Err(why)) => OwnerHealth::Unhealthy(why),
        Err(_) => {
            let seconds = ANSWER_TIMEOUT.as_secs();
            OwnerHealth::Unhealthy(format!("it does not answer within {seconds} s"))
        }
    }
}

async fn probe_owner(
    shards: &dyn ShardDirectory,
    slice: &SliceId,
    owner: &ShardId,
    copied: &CopyProgress,
) -> Result<(), String> {
    let describe = |error: ShardError| error.to_string();
    let shard = shards.shard(owner).map_err(describe)?;
    if let Some(trouble) = shard.usage().await.trouble {
        return Err(trouble);
    }
    check_holding(shard.fence(slice).await.map_err(describe)?.as_ref())?;
    match shard.export(slice, &copied.cursor, PAGE_BYTES).await {
        Ok(_) | Err(ShardError::CursorTooOld) => Ok(()),
        Err(error) => Err(describe(error)),
    }
}

impl MigrationWorker {
    /// Takes a slice back without its owner, until the shard that it came from owns
    /// it again. The record still names the migration then, so that the caller can
    /// write down what is lost before [`Self::release_abandoned`].
    ///
    /// Without `accepted`, an operator's consent to losing writes, it only proceeds
    /// while the record says that both sides have every acknowledged write. Each
    /// update compares that record.
    pub async fn take_back_without_owner(
        &self,
        job: &LeasedMigration,
        accepted: bool,
    ) -> Result<AbandonOutcome, MigrationError> {
        let mut present = None;
        for _ in 0..STEPS_MAX {
            let record = self.read(&job.slice).await?;
            let Some((id, moving)) = active_migration(job, record.route.moving.as_ref()) else {
                return Ok(AbandonOutcome::NotApplicable);
            };
            if !accepted && !moving.gives_up && moving.also_durable_on().is_none() {
                return Ok(AbandonOutcome::NotApplicable);
            }
            let return_to = self.return_shard(&id, &moving, &job.slice)?;
            let fence = return_to.fence().await?;
            if moving.gives_up && is_owner(fence.as_ref(), record.route.epoch) {
                return Ok(AbandonOutcome::Abandoned {
                    epoch: record.route.epoch,
                    present,
                    synced: moving.sync,
                });
            }
            let (source, target) = match id.is_back() {
                true => (None, fence),
                false => (fence, None),
            };
            let observed = ObservedMigration {
                route: record.route.clone(),
                source,
                target,
                equal: false,
                intent: MigrationIntent::AbandonOwner,
            };
            match protocol::next_action(&id, &observed) {
                ProtocolAction::UpdateRecord(then) => {
                    if then.owner != record.route.owner {
                        present = Some(return_to.count_votes().await?);
                    }
                    faults::crash_point("swap", &then);
                    self.records.swap(&job.slice, &record, &then).await?;
                    faults::crash_point("swapped", &then);
                }
                ProtocolAction::SendCommand(shard, command) if shard == return_to.sides.to.0 => {
                    let token = MigrationToken {
                        migration_id: id,
                        token: protocol::command_token(moving.prepared, job.lease),
                    };
                    faults::crash_point("order", command);
                    let sides = &return_to.sides;
                    sides
                        .send_command(&job.slice, &shard, command, &token)
                        .await?;
                    faults::crash_point("ordered", command);
                }
                _ => return Ok(AbandonOutcome::NotApplicable),
            }
        }
        Err(RegistryError::new("abandon the owner", "the record keeps changing").into())
    }

    /// Ends synchronous acknowledgement: from now on the owner alone acknowledges.
    pub async fn stop_synchronous_acks(&self, job: &LeasedMigration) -> Result<(), MigrationError> {
        for _ in 0..STEPS_MAX {
            let record = self.read(&job.slice).await?;
            let Ok(then) = protocol::route::relax(&record.route, &job.migration_id) else {
                return Ok(());
            };
            let slice = &job.slice;
            tracing::warn!(%slice, "the owner alone acknowledges votes from now on");
            self.records.swap(slice, &record, &then).await?;
        }
        Err(RegistryError::new(
            "stop synchronous acknowledgement",
            "the record keeps changing",
        )
        .into())
    }

    /// Ends a migration that has abandoned its source, and frees the record.
    pub async fn release_abandoned(&self, job: &LeasedMigration) -> Result<(), MigrationError> {
        for _ in 0..STEPS_MAX {
            let record = self.read(&job.slice).await?;
            let Some((id, moving)) = active_migration(job, record.route.moving.as_ref()) else {
                return Ok(());
            };
            if !moving.gives_up {
                return Ok(());
            }
            let Ok(then) = protocol::route::release(&record.route, &id) else {
                return Ok(());
            };
            faults::crash_point("swap", &then);
            self.records.swap(&job.slice, &record, &then).await?;
            faults::crash_point("swapped", &then);
        }
        Err(RegistryError::new("free the slice's record", "the record keeps changing").into())
    }

    /// Tells a shard whose copy was abandoned at this epoch that it no longer owns the
    /// slice, and returns what it holds then.
    pub async fn notify_abandoned_shard(
        &self,
        slice: &SliceId,
        (shard, epoch): (&ShardId, Epoch),
        id: &MigrationId,
    ) -> Result<Option<Holding>, MigrationError> {
        let sides = MigrationSides::resolve(&*self.shards, None, shard, shard)?;
        loop {
            let (fence, _) = sides.fences(slice).await?;
            let Some(command) = protocol::command_for_abandoned(&fence, epoch) else {
                return Ok(fence.map(|fence| fence.holding));
            };
            let fence = fence.as_ref();
            let token = MigrationToken {
                // An owner is sealed by the reverse migration. A shard that is sealed
                // or importing expects the migration that made it so.
                migration_id: fence
                    .filter(|fence| fence.holding != Holding::Owner)
                    .and_then(|fence| fence.migration_id.clone())
                    .unwrap_or_else(|| id.way_back()),
                token: fence.map_or(0, |fence| fence.token),
            };
            sides.send_command(slice, shard, command, &token).await?;
        }
    }

    /// Removes the copy and the files of a shard that was abandoned at this epoch.
    /// Only acts on a shard that knows that it no longer owns the slice.
    pub async fn remove_abandoned_copy(
        &self,
        slice: &SliceId,
        (shard, epoch): (&ShardId, Epoch),
        id: &MigrationId,
    ) -> Result<(), MigrationError> {
        let sides = MigrationSides::resolve(&*self.shards, self.archives.clone(), shard, shard)?;
        loop {
            let (fence, _) = sides.fences(slice).await?;
            let fence = match fence {
                Some(fence) if fence.holding == Holding::Gone => {
                    return sides.remove_files(&sides.from, slice).await;
                }
                // Retired by this migration or its reverse. A later migration has a
                // higher epoch.
                Some(fence) if fence.holding == Holding::Retired && fence.epoch <= epoch => fence,
                _ => return Ok(()),
            };
            let token = MigrationToken {
                migration_id: id.way_back(),
                token: fence.token,
            };
            let command = protocol::FenceCommand::Purge(epoch);
            sides.send_command(slice, shard, command, &token).await?;
        }
    }

    fn return_shard<'a>(
        &self,
        id: &MigrationId,
        moving: &ActiveMigration,
        slice: &'a SliceId,
    ) -> Result<ReturnShard<'a>, MigrationError> {
        let return_to = match id.is_back() {
            true => &moving.to,
            false => &moving.from,
        };
        // Both roles are the same shard: preparing it needs its own key and range.
        let sides =
            MigrationSides::resolve(&*self.shards, self.archives.clone(), return_to, return_to)?;
        Ok(ReturnShard { sides, slice })
    }
}

impl ReturnShard<'_> {
    async fn fence(&self) -> Result<Option<Fence>, MigrationError> {
        let (id, shard) = &self.sides.to;
        shard.fence(self.slice).await.map_err(shard_error(id))
    }

    /// Counts the votes on the shard and in its files.
    async fn count_votes(&self) -> Result<u64, MigrationError> {
        let side = &self.sides.to;
        let digest = side
            .1
            .digest(self.slice)
            .await
            .map_err(shard_error(&side.0))?;
        let in_files = self.sides.rows_in_files(side, self.slice).await?;
        Ok(digest.votes() + in_files)
    }
}

/// Returns the active migration, or its reverse migration, while its owner can be
/// abandoned.
fn active_migration(
    job: &LeasedMigration,
    moving: Option<&ActiveMigration>,
) -> Option<(MigrationId, ActiveMigration)> {
    let moving = moving?;
    let back = job.migration_id.way_back();
    let fits = match moving.phase {
        MigrationPhase::Window if moving.migration_id == job.migration_id => true,
        MigrationPhase::Copying | MigrationPhase::Sealing { .. } => moving.migration_id == back,
        MigrationPhase::Window | MigrationPhase::Cleaning => {
            moving.migration_id == back && moving.gives_up
        }
        MigrationPhase::Aborting => false,
    };
    fits.then(|| (moving.migration_id.clone(), moving.clone()))
}

pub(super) fn is_owner(fence: Option<&Fence>, epoch: Epoch) -> bool {
    fence.is_some_and(|fence| fence.holding == Holding::Owner && fence.epoch == epoch)
}

/// Checks that a shard's fence is that of an owner. A shard whose disk was replaced
/// has no fence.
fn check_holding(fence: Option<&Fence>) -> Result<(), String> {
    match fence.map(|fence| fence.holding) {
        Some(Holding::Owner | Holding::Sealed | Holding::Importing) => Ok(()),
        Some(Holding::Retired | Holding::Gone) => Err("it does not own the slice".to_owned()),
        None => Err("it has no fence for the slice".to_owned()),
    }
}
