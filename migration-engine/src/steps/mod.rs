//! The tasks of the workflow `move-tenant`, one file each. The end of each file says
//! what undoes the task.
//!
//! ```text
//!   DetectHotspot ─► PlanMove ─► EnsureParquetBackfill ─► CreateDataSyncTask
//!     ─► WaitForSync ─► VerifyConsistency ─► UpdateTenantRouting
//!     ─► EnableDualRead ─► MonitorDualRead ─► CleanupOldShard
//!   from any of them: Rollback, which undoes them in reverse
//! ```
//! A task can run again after a crash, or in another execution. So a task does not
//! trust its input but reads the records; if the migration is already further, it
//! does nothing.

mod abandon;
mod certify;
mod cleanup_old_shard;
mod create_data_sync_task;
mod detect_hotspot;
mod difference;
mod difference_report;
mod enable_dual_read;
mod ensure_parquet_backfill;
mod judge_sides;
mod leave;
mod monitor_dual_read;
mod paced_work;
mod plan_move;
mod rollback;
mod update_tenant_routing;
mod verify_consistency;
mod wait;
mod wait_for_sync;

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::migration::{Migration, MigrationFinding, MigrationStage};
use ballast_domain::moving::MigrationId;
use ballast_domain::{Clock, ShardId};
use ballast_state_machines::engine::{HandlerRegistry, ProgressReport, TaskContext, TaskError};
use ballast_vote_shard::archive::{ArchiveDirectory, ArchiveError};
use ballast_vote_shard::{ShardDirectory, ShardError};
use serde::Deserialize;
use serde_json::Value;

use crate::faults;
use crate::ports::{
    DualReadStats, MigrationRequest, MigrationStore, MigrationStoreError, RouteStore,
};
use crate::worker::{LeasedMigration, MigrationError, MigrationWorker};
use difference_report::DifferenceReport;
pub use rollback::UNCLEAR;
use wait::StepWait;

/// How often a long-running task sends a heartbeat.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// What a paused migration waits for.
pub const FOR_RESUME: &str = "an operator to resume it";
/// A temporary failure: the workflow retries.
const UNAVAILABLE: &str = "Ballast.Unavailable";
/// An operator cancelled or reversed the migration.
const CALLED_OFF: &str = "Ballast.CalledOff";
/// The migration is not allowed.
const REFUSED: &str = "Ballast.Refused";
/// The two sides differ.
const DIFFERENT: &str = "Ballast.Different";

/// The tasks, and what they share.
#[derive(Clone)]
pub struct MigrationSteps {
    worker: MigrationWorker,
    moves: Arc<dyn MigrationStore>,
    readers: Arc<dyn DualReadStats>,
    clock: Arc<dyn Clock>,
}

/// A task's input: the migration's request, and the outputs of earlier tasks.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StepInput {
    #[serde(flatten)]
    wanted: MigrationRequest,
    #[serde(default)]
    sync: Value,
    #[serde(default)]
    verification: Value,
    #[serde(default)]
    dual_read: Value,
    #[serde(default)]
    error: Value,
}

impl StepInput {
    /// Parses a member of an earlier task's output; `None` if it is missing or invalid.
    fn parse_part<T: serde::de::DeserializeOwned>(value: &Value, name: &str) -> Option<T> {
        let part = value.get(name)?.clone();
        serde_json::from_value(part).ok()
    }
}

type StepResult = Result<Value, TaskError>;

impl MigrationSteps {
    /// Creates the tasks on these records, shards and archives.
    #[must_use]
    pub fn new(
        records: Arc<dyn RouteStore>,
        moves: Arc<dyn MigrationStore>,
        shards: Arc<dyn ShardDirectory>,
        archives: Arc<dyn ArchiveDirectory>,
        readers: Arc<dyn DualReadStats>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let worker = MigrationWorker::new(records, shards, Arc::clone(&clock));
        Self {
            worker: worker.with_archives(archives),
            moves,
            readers,
            clock,
        }
    }

    /// Registers the tasks for the workflow's resources.
    #[must_use]
    pub fn register(self, registry: HandlerRegistry) -> HandlerRegistry {
        macro_rules! steps {
            ($registry:expr, $($resource:literal $step:ident)*) => {
                $registry$(.with_function($resource, {
                    let steps = self.clone();
                    move |mut input: StepInput, context: TaskContext| {
                        let steps = steps.clone();
                        async move {
                            faults::crash_point("begin", $resource);
                            let wait = StepWait::start(&steps, $resource);
                            let result = loop {
                                steps.check_execution(&input, &context).await?;
                                let result = $step::run(&steps, &input, &context).await;
                                let over = wait.wait_or_finish(&steps, &mut input, &context, result);
                                if let Some(result) = over.await {
                                    break result;
                                }
                            };
                            faults::crash_point("end", $resource);
                            result
                        }
                    }
                }))*
            };
        }
        steps!(registry,
            "DetectHotspot" detect_hotspot
            "PlanMove" plan_move
            "EnsureParquetBackfill" ensure_parquet_backfill
            "CreateDataSyncTask" create_data_sync_task
            "WaitForSync" wait_for_sync
            "VerifyConsistency" verify_consistency
            "UpdateTenantRouting" update_tenant_routing
            "EnableDualRead" enable_dual_read
            "MonitorDualRead" monitor_dual_read
            "CleanupOldShard" cleanup_old_shard
            "Rollback" rollback)
    }

    /// Refuses to run in any execution but the one that the migration's record names,
    /// so that only one execution works on a migration at a time.
    async fn check_execution(
        &self,
        input: &StepInput,
        context: &TaskContext,
    ) -> Result<(), TaskError> {
        let id = migration_id(input, context);
        let found = self.moves.read(&id).await;
        let found =
            found.map_err(|error| to_store_task_error(MigrationStoreError::Store(error)))?;
        let named = found.map_or_else(|| id.0.clone(), |migration| migration.execution());
        if named == execution_name(context) {
            return Ok(());
        }
        let why = format!(
            "execution {named} works on migration {id}: leave out migrationID, or start \
             an execution of that name"
        );
        Err(TaskError::new(REFUSED, why))
    }

    /// Returns the migration's record, and creates it if there is none.
    async fn open(&self, input: &StepInput, context: &TaskContext) -> Result<Migration, TaskError> {
        let id = migration_id(input, context);
        self.moves
            .open(&id, &input.wanted)
            .await
            .map_err(to_store_task_error)
    }

    /// Returns the migration's record, or an error if an operator has cancelled it.
    async fn open_unless_cancelled(
        &self,
        input: &StepInput,
        context: &TaskContext,
    ) -> Result<Migration, TaskError> {
        let migration = self.open(input, context).await?;
        if let Some(back) = &migration.asked.back
            && matches!(
                migration.stage,
                MigrationStage::Asked | MigrationStage::Admitted
            )
        {
            let why = back.word.reason.clone();
            let why = why.unwrap_or_else(|| format!("cancelled by {}", back.word.actor));
            return Err(TaskError::new(CALLED_OFF, why));
        }
        Ok(migration)
    }

    fn job(&self, migration: &Migration, context: &TaskContext) -> LeasedMigration {
        LeasedMigration {
            migration_id: migration.migration_id.clone(),
            slice: migration.slice_id(),
            lease: lease(migration.run, context.lease()),
            seal_max_ms: None,
        }
    }

    /// Changes the migration's record.
    async fn update_record(
        &self,
        migration: &Migration,
        action: &'static str,
        edit: impl Fn(&mut Migration) + Send + Sync,
    ) -> Result<Migration, TaskError> {
        let id = &migration.migration_id;
        self.moves
            .change(id, action, &edit)
            .await
            .map_err(to_store_task_error)
    }

    /// Notes what was not as it should be, and what is done about it. The log
    /// says that something was; whose rows it is, is for operators alone.
    async fn record_finding(
        &self,
        migration: &Migration,
        (phase, shard): (&str, &ShardId),
        report: &DifferenceReport,
        then: &str,
        edit: impl Fn(&mut Migration) + Send + Sync,
    ) -> Result<Migration, TaskError> {
        let id = &migration.migration_id;
        tracing::warn!(%id, %shard, rows = report.count, then, "stored data is wrong, see `ballast migration show`");
        let finding = MigrationFinding {
            at: self.clock.now(),
            phase: phase.to_owned(),
            shard: shard.clone(),
            what: report.to_line(),
            then: then.to_owned(),
        };
        let edit = move |migration: &mut Migration| {
            migration.record_finding(finding.clone());
            edit(migration);
        };
        self.update_record(migration, "migration.found", edit).await
    }

    /// Records what the migration waits for, or that it waits for nothing.
    async fn record_waiting(
        &self,
        migration: &Migration,
        why: Option<&str>,
    ) -> Result<(), TaskError> {
        if migration.waiting_for.as_deref() != why {
            let why = why.map(str::to_owned);
            let edit = move |migration: &mut Migration| migration.waiting_for.clone_from(&why);
            self.update_record(migration, "migration.wait", edit)
                .await?;
        }
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().unix_ms()
    }
}

/// The lease number for command tokens. A later execution of a migration counts its
/// leases from one again, so the run number comes first.
fn lease(run: u32, lease: u64) -> u64 {
    const LEASES: u64 = 1 << 10;
    u64::from(run) * LEASES + lease.min(LEASES - 1)
}

fn migration_id(input: &StepInput, context: &TaskContext) -> MigrationId {
    let input = input.wanted.migration_id.clone();
    input.unwrap_or_else(|| MigrationId(execution_name(context).to_owned()))
}

/// The execution's name within its workflow.
fn execution_name(context: &TaskContext) -> &str {
    let id = context.execution();
    id.split_once(':').map_or(id, |(_, name)| name)
}

fn report_progress(
    context: &TaskContext,
    done: u64,
    total: Option<u64>,
    unit: &str,
    note: impl Into<String>,
) {
    context.heartbeat(ProgressReport {
        done,
        total,
        unit: unit.to_owned(),
        note: Some(note.into()),
    });
}

/// Sends heartbeats while work runs that does not report progress itself.
async fn with_heartbeats<T>(context: &TaskContext, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            () = tokio::time::sleep(HEARTBEAT_INTERVAL) => context.keep_alive(),
        }
    }
}

/// The error of a migration that is no longer active on its slice.
fn not_active_error(migration: &Migration) -> TaskError {
    let id = &migration.migration_id;
    TaskError::new(
        CALLED_OFF,
        format!("migration {id} is no longer active on its slice"),
    )
}

/// Converts a worker's error to the workflow's error names.
fn to_task_error(error: MigrationError) -> TaskError {
    let name = match &error {
        MigrationError::Different { .. } => DIFFERENT,
        MigrationError::NoSlice(_) => REFUSED,
        MigrationError::Records(_) => UNAVAILABLE,
        MigrationError::Archive { source, .. } => match &**source {
            // A damaged file stays damaged.
            ArchiveError::Missing { .. } | ArchiveError::Damaged { .. } => DIFFERENT,
            ArchiveError::Store { .. } | ArchiveError::Shard(_) | ArchiveError::Stopped(_) => {
                UNAVAILABLE
            }
        },
        MigrationError::Shard { source, .. } => match source {
            ShardError::Refused(_) => REFUSED,
            // So does a damaged shard.
            ShardError::Damaged { .. } => DIFFERENT,
            // Temporary, or a newer worker has taken over.
            ShardError::Unavailable { .. }
            | ShardError::SliceState(_)
            | ShardError::Fenced(_)
            | ShardError::CursorTooOld => UNAVAILABLE,
        },
    };
    TaskError::new(name, causes(&error))
}

/// Formats an error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        source = cause.source();
    }
    text
}

fn to_store_task_error(error: MigrationStoreError) -> TaskError {
    let name = match &error {
        MigrationStoreError::Refused(_) => REFUSED,
        MigrationStoreError::Store(_) => UNAVAILABLE,
    };
    TaskError::new(name, error.to_string())
}
