//! A move's end: how it ended, and the certificate of it.

use ballast_domain::Timestamp;
use ballast_domain::certificate::{Certificate, VERSION};
use ballast_domain::migration::{Ending, Migration, Stage, Status};
use ballast_domain::moving::Route;
use ballast_state_machines::engine::TaskError;

use super::{Steps, failed};

/// Writes down how a move ended, with its certificate.
pub(super) async fn ended(
    steps: &Steps,
    migration: &Migration,
    status: Status,
    phase: &str,
    why: Option<String>,
) -> Result<Migration, TaskError> {
    let now = steps.clock.now();
    let route = steps
        .worker
        .route(&migration.slice_id())
        .await
        .map_err(failed)?;
    let edit = move |migration: &mut Migration| {
        if migration.is_over() {
            return;
        }
        migration.stage = Stage::Ended;
        migration.waiting_for = None;
        migration.ended = Some(Ending {
            status,
            phase: phase.to_owned(),
            at: now,
            why: why.clone(),
        });
        let certificate = certificate(migration, &route, status, now);
        migration.certificate = steps.moves.sign(certificate);
    };
    let ended = steps.note(migration, "migration.end", edit).await?;
    steps.readers.forget(&migration.slice_id());
    Ok(ended)
}

/// What a move proves: pure.
fn certificate(
    migration: &Migration,
    route: &Route,
    status: Status,
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
        // A vote that only the source had is the worst of differences.
        differences: migration.figures.differences + migration.figures.stragglers,
        stragglers: migration.figures.stragglers,
        repaired: migration.figures.repaired,
        requested_at: migration.requested_at,
        cut_over_at: migration.figures.cut_over_at,
        ended_at: now,
    }
}
