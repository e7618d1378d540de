//! Reconciles migrations: restarts those that no execution works on, unseals
//! slices that have been sealed for too long, retires leftover copies on shards
//! that answer again, and runs pending splits and merges.
//!
//! An execution runs each migration. If it is lost, or ends before the migration
//! does, another one takes over: it reads the records and continues from there.
//! No lock is left behind that only an operator could clear.

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::migration::{Migration, OPEN};
use ballast_domain::registry::{RecordKind, RecordQuery};
use ballast_domain::{Clock, Error, Result};
use ballast_migration_engine::ports::MigrationStore as _;
use ballast_migration_engine::worker::MigrationWorker;
use ballast_state_machines::core::ExecutionStatus;

use super::begin::start_execution;
use super::body::execution_id;
use super::left_behind;
use super::migration_backends;
use super::migration_records::MigrationRecords;
use super::slice_records::SliceRecords;
use crate::plane::ControlPlane;
use crate::reconcile::{self, Reconciler};
use crate::registry::typed;
use crate::slicing;
use crate::workflows::{engine, store_unavailable};

/// How long after the end of its execution a migration is restarted: the cause of
/// the failure may have passed.
const RESTART_AFTER_MS: i64 = 10_000;
/// Migrations read per round.
const BATCH_SIZE: u32 = 10_000;

/// Runs the migration reconciler until the task is dropped.
pub async fn run(plane: ControlPlane, clock: Arc<dyn Clock>) {
    reconcile::run(MigrationReconciler { plane, clock }).await;
}

struct MigrationReconciler {
    plane: ControlPlane,
    clock: Arc<dyn Clock>,
}

impl Reconciler for MigrationReconciler {
    const NAME: &'static str = "migrations";
    const INTERVAL: Duration = Duration::from_millis(500);
    const RETRY_AFTER: Duration = Duration::from_millis(500);

    /// Reconciles migrations, and splits and merges. A failure of one does not
    /// hold up the other.
    async fn reconcile(&mut self) -> Result<()> {
        let migrations = reconcile_migrations(&self.plane, &self.clock).await;
        let cuts = slicing::reconcile(&self.plane, &self.clock).await;
        migrations.and(cuts)
    }

    fn report_failure(&self, error: &Error) {
        // Rounds are frequent, and fail until all backends have started.
        tracing::debug!(reconciler = Self::NAME, %error, "reconciliation failed; will retry");
    }
}

/// Reconciles every open migration, once.
pub async fn reconcile_migrations(plane: &ControlPlane, clock: &Arc<dyn Clock>) -> Result<()> {
    let query = RecordQuery {
        terms: vec![OPEN.to_owned()],
        ..RecordQuery::all(RecordKind::Migration, BATCH_SIZE)
    };
    let open = typed::list::<Migration>(plane.registry(), &query).await?;
    let backends = migration_backends(plane)?;
    let (shards, archives) = (Arc::clone(&backends.shards), Arc::clone(&backends.archives));
    let records = Arc::new(SliceRecords::new(plane.clone()));
    let worker = MigrationWorker::new(records, shards, Arc::clone(clock)).with_archives(archives);
    left_behind::reconcile_copies(plane, &worker).await?;
    let seal_max_ms = plane.settings().moves.seal_max_ms;
    for migration in open.into_iter().map(|found| found.value) {
        // One stuck migration must not hold up the others.
        if let Err(error) = worker.unseal_overdue(&migration, seal_max_ms).await {
            tracing::warn!(id = %migration.migration_id, %error, "cannot check whether the slice is sealed; will retry");
        }
        if let Err(error) = restart_if_stopped(plane, &migration).await {
            tracing::warn!(id = %migration.migration_id, %error, "failed to restart a migration; will retry");
        }
    }
    Ok(())
}

fn is_open(status: ExecutionStatus) -> bool {
    matches!(status, ExecutionStatus::Pending | ExecutionStatus::Running)
}

/// Starts another execution if none runs.
async fn restart_if_stopped(plane: &ControlPlane, migration: &Migration) -> Result<()> {
    let found = engine(plane)?
        .get(&execution_id(migration))
        .await
        .map_err(store_unavailable)?;
    let Some(found) = found else {
        // The process died after writing the record and before starting it.
        start_execution(plane, migration).await;
        return Ok(());
    };
    if is_open(found.summary.status) {
        return Ok(());
    }
    let ended = found.summary.ended_at_ms.unwrap_or(0);
    if plane.now().unix_ms() < ended.saturating_add(RESTART_AFTER_MS) {
        return Ok(());
    }
    let run = migration.run;
    let next = |migration: &mut Migration| {
        if migration.run == run {
            migration.run += 1;
        }
    };
    let moves = MigrationRecords::new(plane.clone());
    let id = &migration.migration_id;
    let changed = moves.change(id, "migration.retry", &next);
    if let Ok(migration) = changed.await {
        tracing::warn!(
            id = %migration.migration_id,
            error = found.error,
            cause = found.cause,
            "the execution of a migration ended early; starting another one"
        );
        start_execution(plane, &migration).await;
    }
    Ok(())
}
