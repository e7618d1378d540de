//! Copies that were left behind on shards that were away.
//!
//! Those that were given up: their shards believe to own a slice that is another's
//! by now. When one of them answers again it is told, and takes no more votes of
//! it. What it has is kept until somebody says that it may go. Those that nobody
//! needs are removed as soon as their shard answers. No slice of that tenant comes
//! there meanwhile: two histories would be mixed, or one destroyed.

use ballast_domain::migration::{LEFT_OPEN, LeftBehind, Migration, left_on};
use ballast_domain::registry::{Kind, RecordQuery};
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use ballast_migration_engine::ports::Moves as _;
use ballast_migration_engine::worker::Worker;
use ballast_vote_shard::shard::Holding;

use super::keep::Kept;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Copies that are looked at in a round.
const LOOKED_AT: u32 = 1_000;

/// Tells every shard that answers again.
pub(super) async fn round(plane: &ControlPlane, worker: &Worker) -> Result<()> {
    let query = RecordQuery {
        terms: vec![LEFT_OPEN.to_owned()],
        ..RecordQuery::all(Kind::Migration, LOOKED_AT)
    };
    let left = typed::list::<Migration>(plane.registry(), &query).await?;
    for migration in left.into_iter().map(|found| found.value) {
        // Most are away for good: nobody needs to hear that twice a second.
        if let Err(error) = tell(plane, worker, &migration).await {
            let id = &migration.migration_id;
            tracing::debug!(%id, %error, "a shard that was left behind does not answer");
        }
    }
    Ok(())
}

async fn tell(plane: &ControlPlane, worker: &Worker, migration: &Migration) -> Result<()> {
    let Some(lost) = migration.copy_left() else {
        return Ok(());
    };
    let (id, shard) = (&migration.migration_id, lost.0);
    let slice = migration.slice_id();
    let mut holding = worker.disown(&slice, lost, id).await.map_err(away)?;
    // Its files, when the rows are gone: whoever did that may have died since.
    if migration.may_remove_copy() || holding == Some(Holding::Gone) {
        worker.remove_lost(&slice, lost, id).await.map_err(away)?;
        holding = worker.disown(&slice, lost, id).await.map_err(away)?;
    }
    let left = match holding {
        None | Some(Holding::Gone) => LeftBehind::Gone,
        Some(_) => LeftBehind::Kept,
    };
    if migration.left_behind == Some(left) {
        return Ok(());
    }
    tracing::warn!(%id, %shard, ?left, "a shard that was left behind answers, and takes no votes of the slice");
    let edit = |migration: &mut Migration| migration.left_behind = Some(left);
    let kept = Kept::new(plane.clone());
    let noted = kept.change(id, "migration.leftBehind", &edit).await;
    noted.map(drop).map_err(away)
}

fn away(error: impl std::error::Error) -> Error {
    Error::new(ErrorCode::Unavailable, error.to_string())
}

/// Refuses to have a tenant's slice come to where a copy of it was left behind.
pub(super) async fn check(plane: &ControlPlane, tenant: &TenantId, to: &ShardId) -> Result<()> {
    let query = RecordQuery {
        terms: vec![left_on(tenant, to)],
        ..RecordQuery::all(Kind::Migration, 1)
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
            format!("{to} still has a copy of {tenant} that move {id} left behind"),
            remove(),
        ),
        Some(_) => (
            format!("{to} still has votes of {tenant} that were given up with move {id}"),
            remove(),
        ),
        None => (
            format!("{to} still has a copy of {tenant} that move {id} could not remove"),
            "Choose another shard, or wait: it is removed when that shard answers.".to_owned(),
        ),
    };
    Err(Error::new(ErrorCode::MoveRefused, detail).next(next))
}
