//! The recut worker: observe, ask the protocol, perform one action, repeat.
//!
//! ```text
//!   check_parents ──► claim ──► observe ──► protocol::recut::next_action ──► act ──► observe ──► …
//! ```
//! Any worker that finds a recut in a tenant's record can continue it: all commands
//! of a recut carry the same token, which is above those of every earlier migration
//! and below those of every later one. Shards refuse delayed commands by epoch.

use std::sync::Arc;

use ballast_domain::moving::MigrationId;
use ballast_domain::slicing::{Recut, RecutPhase, SliceLayout};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{Clock, TenantId};
use ballast_vote_shard::shard::{Fence, Holding, MigrationToken, RecutSpec};
use ballast_vote_shard::{FencedSlice, ShardDirectory, ShardError, VoteShard};

use crate::faults;
use crate::ports::{LayoutRecord, LayoutStore};
use crate::protocol::command_token;
use crate::protocol::recut::{self, ObservedRecut, RecutAction, RecutCommand};
use crate::worker::MigrationError;

/// How a recut ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecutOutcome {
    /// The children have replaced the parents, in the record and on the shard.
    Cut {
        /// How long the parents took no writes, in milliseconds.
        pause_ms: u64,
    },
    /// It took too long and was aborted: the parents take writes again.
    Aborted,
    /// Another worker has finished it.
    FinishedElsewhere,
}

/// Why a recut is not claimed.
#[derive(Debug, thiserror::Error)]
pub enum RecutClaimError {
    /// The record does not allow it.
    #[error(transparent)]
    Refused(#[from] recut::RecutError),
    /// The shard is not ready, so that the parents would be sealed for long.
    #[error(transparent)]
    Shard(#[from] MigrationError),
    /// The record was changed concurrently: read it again.
    #[error("the record was changed at the same time")]
    Changed,
}

/// Splits and merges slices.
#[derive(Clone)]
pub struct RecutWorker {
    layouts: Arc<dyn LayoutStore>,
    shards: Arc<dyn ShardDirectory>,
    clock: Arc<dyn Clock>,
}

impl RecutWorker {
    /// Creates a worker on these records and shards.
    pub fn new(
        layouts: Arc<dyn LayoutStore>,
        shards: Arc<dyn ShardDirectory>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            layouts,
            shards,
            clock,
        }
    }

    /// Claims a recut, if its shard is ready for it.
    pub async fn claim(
        &self,
        tenant: &TenantId,
        id: &MigrationId,
        parents: &[u32],
        cuts: &[u64],
    ) -> Result<(), RecutClaimError> {
        let record = self.read(tenant).await?;
        let then = recut::claim(&record.layout, id, parents, cuts)?;
        if let Some(cut) = &then.recut {
            self.check_parents(tenant, &record.layout, cut).await?;
        }
        faults::crash_point("cut", "Claim");
        let swapped = self.layouts.swap(tenant, &record, &then).await;
        faults::crash_point("cut", "Claimed");
        match swapped.map_err(MigrationError::from)? {
            true => Ok(()),
            false => Err(RecutClaimError::Changed),
        }
    }

    /// Checks that the shard owns all parents, as the record says. A parent that was
    /// never written to has no fence, which could not be sealed: it is created.
    async fn check_parents(
        &self,
        tenant: &TenantId,
        layout: &SliceLayout,
        cut: &Recut,
    ) -> Result<(), MigrationError> {
        let shard = self.shard(cut)?;
        let to_error = |source| MigrationError::Shard {
            shard: cut.shard_id.clone(),
            source,
        };
        for slice in &cut.parents {
            let Some(part) = layout.part(*slice) else {
                continue;
            };
            let at = fenced_slice(tenant, *slice, part.epoch);
            let mut fence = shard.fence(&at.slice).await.map_err(to_error)?;
            if fence.is_none() && part.epoch == Epoch::FIRST {
                shard.adopt(&at).await.map_err(to_error)?;
                fence = shard.fence(&at.slice).await.map_err(to_error)?;
            }
            let ready = fence
                .is_some_and(|fence| fence.holding == Holding::Owner && fence.epoch == part.epoch);
            if !ready {
                let why = format!("it does not own {} yet", at.slice);
                return Err(to_error(ShardError::unavailable(why)));
            }
        }
        Ok(())
    }

    /// Works on the tenant's active recut until it ends. Aborts it once its parents
    /// have been sealed for `seal_max_ms`.
    pub async fn work(
        &self,
        tenant: &TenantId,
        seal_max_ms: u64,
    ) -> Result<RecutOutcome, MigrationError> {
        let mut outcome = RecutOutcome::FinishedElsewhere;
        let mut id: Option<MigrationId> = None;
        let mut since_ms = None;
        loop {
            let record = self.read(tenant).await?;
            let Some(cut) = record.layout.recut.clone() else {
                return Ok(outcome);
            };
            if *id.get_or_insert_with(|| cut.recut_id.clone()) != cut.recut_id {
                return Ok(outcome);
            }
            since_ms = since_ms.or(record.sealing_since.map(|since| since.unix_ms()));
            let now_ms = self.clock.now().unix_ms();
            let sealed_ms = since_ms.map_or(0, |since| now_ms.saturating_sub(since).max(0));
            let sealed_ms = sealed_ms.unsigned_abs();
            match cut.phase {
                RecutPhase::Aborting => outcome = RecutOutcome::Aborted,
                RecutPhase::Cut => {
                    outcome = RecutOutcome::Cut {
                        pause_ms: sealed_ms,
                    }
                }
                RecutPhase::Sealing => {}
            }
            let call_off = cut.phase == RecutPhase::Sealing && sealed_ms >= seal_max_ms;
            let action = match call_off {
                // From the record alone: the shard may be unreachable.
                true => call_off_action(&cut.recut_id, &record),
                false => {
                    recut::next_action(&cut.recut_id, &self.observe(tenant, &record, &cut).await?)
                }
            };
            match action {
                RecutAction::UpdateRecord(then) => {
                    let phase = then.recut.as_ref().map(|cut| cut.phase);
                    faults::crash_point("cut", ("Swap", phase));
                    self.layouts.swap(tenant, &record, &then).await?;
                    faults::crash_point("cut", ("Done", phase));
                }
                RecutAction::SendCommand(command) => {
                    faults::crash_point("cut", ("Tell", command));
                    self.send_command(tenant, &cut, command).await?;
                    faults::crash_point("cut", ("Told", command));
                }
                RecutAction::Ended => return Ok(outcome),
            }
        }
    }

    async fn read(&self, tenant: &TenantId) -> Result<LayoutRecord, MigrationError> {
        let record = self.layouts.read(tenant).await?;
        record.ok_or_else(|| MigrationError::NoSlice(slice_id(tenant, 0)))
    }

    fn shard(&self, cut: &Recut) -> Result<Arc<dyn VoteShard>, MigrationError> {
        let shard = self.shards.shard(&cut.shard_id);
        shard.map_err(|source| shard_error(cut, source))
    }

    async fn observe(
        &self,
        tenant: &TenantId,
        record: &LayoutRecord,
        cut: &Recut,
    ) -> Result<ObservedRecut, MigrationError> {
        let shard = self.shard(cut)?;
        let fences = async |slices: Vec<u32>| {
            let mut fences: Vec<Option<Fence>> = Vec::with_capacity(slices.len());
            for slice in slices {
                let fence = shard.fence(&slice_id(tenant, slice)).await;
                fences.push(fence.map_err(|source| shard_error(cut, source))?);
            }
            Ok::<_, MigrationError>(fences)
        };
        Ok(ObservedRecut {
            layout: record.layout.clone(),
            parents: fences(cut.parents.clone()).await?,
            children: fences(cut.children.iter().map(|child| child.slice).collect()).await?,
            call_off: false,
        })
    }

    async fn send_command(
        &self,
        tenant: &TenantId,
        cut: &Recut,
        command: RecutCommand,
    ) -> Result<(), MigrationError> {
        let shard = self.shard(cut)?;
        let token = MigrationToken {
            migration_id: cut.recut_id.clone(),
            token: command_token(cut.epoch, 0),
        };
        let result = match command {
            RecutCommand::Seal(slice, epoch) => {
                shard
                    .seal(&fenced_slice(tenant, slice, epoch), &token)
                    .await
            }
            RecutCommand::Reinstate(slice, epoch) => {
                shard
                    .unseal(&fenced_slice(tenant, slice, epoch), &token)
                    .await
            }
            RecutCommand::Recut => {
                let cut = RecutSpec {
                    tenant_id: tenant.clone(),
                    epoch: cut.epoch,
                    parents: cut.parents.clone(),
                    children: cut.children.clone(),
                };
                shard.recut(&token, &cut).await
            }
        };
        result.map_err(|source| shard_error(cut, source))
    }
}

/// Returns the action that aborts a recut, from its record alone.
fn call_off_action(id: &MigrationId, record: &LayoutRecord) -> RecutAction {
    let view = ObservedRecut {
        layout: record.layout.clone(),
        parents: Vec::new(),
        children: Vec::new(),
        call_off: true,
    };
    recut::next_action(id, &view)
}

fn slice_id(tenant: &TenantId, slice: u32) -> SliceId {
    SliceId {
        tenant_id: tenant.clone(),
        slice,
    }
}

fn fenced_slice(tenant: &TenantId, slice: u32, epoch: Epoch) -> FencedSlice {
    FencedSlice {
        slice: slice_id(tenant, slice),
        epoch,
    }
}

fn shard_error(cut: &Recut, source: ShardError) -> MigrationError {
    MigrationError::Shard {
        shard: cut.shard_id.clone(),
        source,
    }
}
