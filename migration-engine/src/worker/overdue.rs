//! Undoes a seal that lasts too long, without waiting for the worker that sealed:
//! first in the record, then on the shard. It needs no lease.

use ballast_domain::migration::{Migration, MigrationStage};
use ballast_domain::moving::{ActiveMigration, MigrationPhase};
use ballast_vote_shard::shard::MigrationToken;

use super::{MigrationError, MigrationSides, MigrationWorker};
use crate::protocol::{self, FenceCommand, MigrationIntent, ObservedMigration, ProtocolAction};

/// Limit on the number of actions: more means that another worker is active.
const STEPS_MAX: usize = 8;

impl MigrationWorker {
    /// Lets the slice of a migration take writes again if it has been sealed for
    /// longer than `most_ms`. Also sends the command that makes the recorded owner
    /// take writes, if its shard has not received it.
    pub async fn unseal_overdue(
        &self,
        migration: &Migration,
        most_ms: u64,
    ) -> Result<(), MigrationError> {
        let slice = migration.slice_id();
        for _ in 0..STEPS_MAX {
            let record = self.read(&slice).await?;
            let Some(moving) = record.route.moving.clone() else {
                return Ok(());
            };
            let is_overdue = self.is_overdue(&record, Some(most_ms));
            if !needs_attention(&moving, migration.stage, is_overdue) {
                return Ok(());
            }
            // Unsealing one shard does not need the other one, so an unreachable
            // shard counts as one without a fence.
            let observed = ObservedMigration {
                route: record.route.clone(),
                source: self.fence_on(&moving.from, &slice).await.unwrap_or(None),
                target: self.fence_on(&moving.to, &slice).await.unwrap_or(None),
                equal: true,
                intent: MigrationIntent::Postpone,
            };
            let fences = [&observed.source, &observed.target];
            let highest = fences.into_iter().flatten().map(|fence| fence.token);
            let action = protocol::next_action(&moving.migration_id, &observed);
            let is_sealing = matches!(moving.phase, MigrationPhase::Sealing { .. });
            match action {
                ProtocolAction::UpdateRecord(then) if is_sealing => {
                    let id = &moving.migration_id;
                    tracing::warn!(%id, %slice, "the slice was sealed for too long; unsealing it");
                    self.records.swap(&slice, &record, &then).await?;
                }
                ProtocolAction::SendCommand(
                    shard,
                    command @ (FenceCommand::Reinstate(_) | FenceCommand::Activate(_)),
                ) => {
                    // Reuse the highest token, so that the migration's worker is not
                    // refused afterwards. Its delayed commands are refused by epoch.
                    let token = highest.max().unwrap_or(0);
                    let token = token.max(protocol::command_token(moving.prepared, 0));
                    let token = MigrationToken {
                        migration_id: moving.migration_id.clone(),
                        token,
                    };
                    let side = MigrationSides::resolve(&*self.shards, None, &shard, &shard)?;
                    side.send_command(&slice, &shard, command, &token).await?;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

/// Whether the slice may be sealed for too long, or the recorded owner may not know that
/// it takes writes. Pure.
fn needs_attention(moving: &ActiveMigration, stage: MigrationStage, is_overdue: bool) -> bool {
    match moving.phase {
        // The owner that would take writes is permanently gone.
        _ if moving.gives_up => false,
        MigrationPhase::Window | MigrationPhase::Cleaning => stage != MigrationStage::CutOver,
        MigrationPhase::Copying => stage != MigrationStage::Asked,
        MigrationPhase::Sealing { .. } => is_overdue,
        MigrationPhase::Aborting => true,
    }
}
