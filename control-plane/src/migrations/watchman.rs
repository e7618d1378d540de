//! Finds moves that nobody works on, and has them gone on with; slices that have
//! been sealed for too long, and has them take votes again; shards that come back
//! after they were given up, and has them take none; and slices that are to be
//! cut.
//!
//! A move is worked on by an execution. Should that be lost, or end without
//! the move having ended, another one takes over: it looks at the records and
//! goes on from there. No lock is left that only a human may clear.

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::migration::{Migration, OPEN};
use ballast_domain::registry::{Kind, RecordQuery};
use ballast_domain::{Clock, Result};
use ballast_migration_engine::ports::Moves as _;
use ballast_migration_engine::worker::Worker;
use ballast_state_machines::core::Status;

use super::begin::start;
use super::body::execution_id;
use super::keep::Kept;
use super::left_behind;
use super::movers;
use super::records::SliceRecords;
use crate::plane::ControlPlane;
use crate::registry::typed;
use crate::slicing;
use crate::workflows::{away, engine};

/// How often it looks.
const ROUND: Duration = Duration::from_millis(500);
/// A move whose execution ended is gone on with after so many rounds: what
/// made it fail may have passed.
const PATIENCE_MS: i64 = 10_000;
/// Moves that are looked at in a round.
const LOOKED_AT: u32 = 10_000;

/// Looks after moves until it is dropped.
pub async fn watch(plane: ControlPlane, clock: Arc<dyn Clock>) {
    loop {
        if let Err(error) = round(&plane, &clock).await {
            tracing::debug!(%error, "moves cannot be looked after right now");
        }
        if let Err(error) = slicing::round(&plane, &clock).await {
            tracing::debug!(%error, "slices cannot be cut right now");
        }
        tokio::time::sleep(ROUND).await;
    }
}

/// Looks at every move that is not over, once.
pub async fn round(plane: &ControlPlane, clock: &Arc<dyn Clock>) -> Result<()> {
    let query = RecordQuery {
        terms: vec![OPEN.to_owned()],
        ..RecordQuery::all(Kind::Migration, LOOKED_AT)
    };
    let open = typed::list::<Migration>(plane.registry(), &query).await?;
    let movers = movers(plane)?;
    let (shards, archives) = (Arc::clone(&movers.shards), Arc::clone(&movers.archives));
    let records = Arc::new(SliceRecords::new(plane.clone()));
    let worker = Worker::new(records, shards, Arc::clone(clock)).with_archives(archives);
    left_behind::round(plane, &worker).await?;
    let most = plane.settings().moves.seal_max_ms;
    for migration in open.into_iter().map(|found| found.value) {
        // One that is stuck does not keep the others waiting.
        if let Err(error) = worker.unseal_overdue(&migration, most).await {
            tracing::warn!(id = %migration.migration_id, %error, "whether its slice is sealed cannot be looked at now");
        }
        if let Err(error) = take_over(plane, &migration).await {
            tracing::warn!(id = %migration.migration_id, %error, "a move is not worked on for now");
        }
    }
    Ok(())
}

fn is_open(status: Status) -> bool {
    matches!(status, Status::Pending | Status::Running)
}

async fn take_over(plane: &ControlPlane, migration: &Migration) -> Result<()> {
    let found = engine(plane)?
        .get(&execution_id(migration))
        .await
        .map_err(away)?;
    let Some(found) = found else {
        // It was written down, and whoever did so did not come to start it.
        start(plane, migration).await;
        return Ok(());
    };
    if is_open(found.summary.status) {
        return Ok(());
    }
    let ended = found.summary.ended_at_ms.unwrap_or(0);
    if plane.now().unix_ms() < ended.saturating_add(PATIENCE_MS) {
        return Ok(());
    }
    let run = migration.run;
    let next = |migration: &mut Migration| {
        if migration.run == run {
            migration.run += 1;
        }
    };
    let moves = Kept::new(plane.clone());
    let id = &migration.migration_id;
    let changed = moves.change(id, "migration.retry", &next);
    if let Ok(migration) = changed.await {
        tracing::warn!(
            id = %migration.migration_id,
            error = found.error,
            cause = found.cause,
            "a move's execution ended before the move: another one takes over"
        );
        start(plane, &migration).await;
    }
    Ok(())
}
