//! Leftover copies of slices, on shards that were unreachable.
//!
//! An abandoned shard still believes that it owns the slice. When it answers again,
//! it must learn that it does not, and takes no more votes of the slice. Its data is kept until an operator discards it. Copies without data of their
//! own are removed as soon as their shard answers. Meanwhile no slice of that
//! tenant may move there: that would mix two histories or destroy one.

use ballast_domain::migration::{LEFT_OPEN, LeftoverState, Migration, leftover_copies_term};
use ballast_domain::registry::{RecordKind, RecordQuery};
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use ballast_migration_engine::ports::MigrationStore as _;
use ballast_migration_engine::worker::MigrationWorker;
use ballast_vote_shard::shard::Holding;

use super::migration_records::MigrationRecords;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Copies checked per round.
const BATCH_SIZE: u32 = 1_000;

/// Retires or removes the leftover copies on every shard that answers again.
pub(super) async fn reconcile_copies(plane: &ControlPlane, worker: &MigrationWorker) -> Result<()> {
    let query = RecordQuery {
        terms: vec![LEFT_OPEN.to_owned()],
        ..RecordQuery::all(RecordKind::Migration, BATCH_SIZE)
    };
    let left = typed::list::<Migration>(plane.registry(), &query).await?;
    for migration in left.into_iter().map(|found| found.value) {
        // Most such shards never come back: do not log that above debug level.
        if let Err(error) = reconcile_copy(plane, worker, &migration).await {
            let id = &migration.migration_id;
            tracing::debug!(%id, %error, "a shard with a leftover copy does not answer");
        }
    }
    Ok(())
}

async fn reconcile_copy(
    plane: &ControlPlane,
    worker: &MigrationWorker,
    migration: &Migration,
) -> Result<()> {
    let Some(lost) = migration.copy_left() else {
        return Ok(());
    };
    let (id, shard) = (&migration.migration_id, lost.0);
    let slice = migration.slice_id();
    let mut holding = worker
        .notify_abandoned_shard(&slice, lost, id)
        .await
        .map_err(unavailable)?;
    // Also remove the files when the rows are gone: the process may have died in between.
    if migration.may_remove_copy() || holding == Some(Holding::Gone) {
        worker
            .remove_abandoned_copy(&slice, lost, id)
            .await
            .map_err(unavailable)?;
        holding = worker
            .notify_abandoned_shard(&slice, lost, id)
            .await
            .map_err(unavailable)?;
    }
    let left = match holding {
        None | Some(Holding::Gone) => LeftoverState::Gone,
        Some(_) => LeftoverState::Kept,
    };
    if migration.left_behind == Some(left) {
        return Ok(());
    }
    tracing::warn!(%id, %shard, ?left, "a shard with a leftover copy answers again and takes no votes for the slice");
    let edit = |migration: &mut Migration| migration.left_behind = Some(left);
    let kept = MigrationRecords::new(plane.clone());
    let noted = kept.change(id, "migration.leftBehind", &edit).await;
    noted.map(drop).map_err(unavailable)
}

fn unavailable(error: impl std::error::Error) -> Error {
    Error::new(ErrorCode::Unavailable, error.to_string())
}

/// Rejects moving a tenant's slice to a shard that still has a leftover copy.
pub(super) async fn check_no_copy_left(
    plane: &ControlPlane,
    tenant: &TenantId,
    to: &ShardId,
) -> Result<()> {
    let query = RecordQuery {
        terms: vec![leftover_copies_term(tenant, to)],
        ..RecordQuery::all(RecordKind::Migration, 1)
    };
    let left = typed::list::<Migration>(plane.registry(), &query).await?;
    let Some(migration) = left.into_iter().next().map(|found| found.value) else {
        return Ok(());
    };
    let id = &migration.migration_id;
    let remove =
        || format!("Choose another shard, or have that copy removed (migration discard {id}).");
    let (detail, next) = match &migration.given_up {
        Some(left) if left.synced => (
            format!("{to} still has a copy of {tenant}: migration {id} abandoned it"),
            remove(),
        ),
        Some(_) => (
            format!(
                "{to} still has votes of {tenant} that are lost elsewhere: migration {id} abandoned it"
            ),
            remove(),
        ),
        None => (
            format!("{to} still has a copy of {tenant} that migration {id} could not remove"),
            "Choose another shard, or wait: the copy is removed when that shard answers."
                .to_owned(),
        ),
    };
    Err(Error::new(ErrorCode::MoveRefused, detail).with_next_step(next))
}
