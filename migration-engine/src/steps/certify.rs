//! Records how a migration ended, and signs its certificate.

use ballast_domain::Timestamp;
use ballast_domain::certificate::{Certificate, VERSION};
use ballast_domain::migration::{Migration, MigrationEnding, MigrationStage, MigrationStatus};
use ballast_domain::moving::SliceRoute;
use ballast_state_machines::engine::TaskError;

use super::{MigrationSteps, to_task_error};

/// Records the end of a migration, with its certificate.
pub(super) async fn end_migration(
    steps: &MigrationSteps,
    migration: &Migration,
    status: MigrationStatus,
    phase: &str,
    why: Option<String>,
) -> Result<Migration, TaskError> {
    let now = steps.clock.now();
    let route = steps
        .worker
        .read_route(&migration.slice_id())
        .await
        .map_err(to_task_error)?;
    let edit = move |migration: &mut Migration| {
        if migration.is_over() {
            return;
        }
        migration.stage = MigrationStage::Ended;
        migration.waiting_for = None;
        migration.ended = Some(MigrationEnding {
            status,
            phase: phase.to_owned(),
            at: now,
            why: why.clone(),
        });
        let certificate = certificate(migration, &route, status, now);
        migration.certificate = steps.moves.sign(certificate);
    };
    let ended = steps
        .update_record(migration, "migration.end", edit)
        .await?;
    steps.readers.forget(&migration.slice_id());
    Ok(ended)
}

/// Returns the certificate's content. Pure.
fn certificate(
    migration: &Migration,
    route: &SliceRoute,
    status: MigrationStatus,
    now: Timestamp,
) -> Certificate {
    let took = now
        .unix_ms()
        .saturating_sub(migration.requested_at.unix_ms());
    Certificate {
        version: VERSION,
        migration_id: migration.migration_id.clone(),
        status,
        tenant_id: migration.tenant_id.clone(),
        slice: migration.slice,
        from: migration.from.clone(),
        to: migration.to.clone(),
        owner: route.owner.clone(),
        epoch: route.epoch,
        actor: migration.actor.clone(),
        reason: migration.reason.clone(),
        votes: migration.proved.clone(),
        votes_back: migration.proved_back.clone(),
        given_up: migration.given_up.clone(),
        why: migration.ended.as_ref().and_then(|ended| ended.why.clone()),
        pause_ms: migration.figures.pause_ms,
        duration_ms: u64::try_from(took).unwrap_or(0),
        rows_carried: migration.figures.rows,
        bytes_carried: migration.figures.bytes,
        compared: migration.figures.compared,
        // A straggler counts as a difference, too.
        differences: migration.figures.differences + migration.figures.stragglers,
        stragglers: migration.figures.stragglers,
        repaired: migration.figures.repaired,
        requested_at: migration.requested_at,
        cut_over_at: migration.figures.cut_over_at,
        ended_at: now,
    }
}
