//! What the states of the workflow `move-tenant` do, one file each, with what
//! undoes it beside it.
//!
//! ```text
//!   DetectHotspot ─► PlanMove ─► EnsureParquetBackfill ─► CreateDataSyncTask
//!     ─► WaitForSync ─► VerifyConsistency ─► UpdateTenantRouting
//!     ─► EnableDualRead ─► MonitorDualRead ─► CleanupOldShard
//!   from any of them: Rollback, which undoes them in reverse
//! ```
//! A step may be done again after a crash, and by another execution. So none
//! trusts what it is given but looks at the records: one that finds the move
//! farther than itself passes on.

mod certify;
mod cleanup_old_shard;
mod create_data_sync_task;
mod detect_hotspot;
mod difference;
mod enable_dual_read;
mod ensure_parquet_backfill;
mod give_up;
mod judge_sides;
mod leave;
mod monitor_dual_read;
mod paced;
mod plan_move;
mod rollback;
mod told;
mod update_tenant_routing;
mod verify_consistency;
mod wait;
mod wait_for_sync;

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::migration::{Finding, Migration, Stage};
use ballast_domain::moving::MoveId;
use ballast_domain::{Clock, ShardId};
use ballast_state_machines::engine::{Progress, Registry, TaskContext, TaskError};
use ballast_vote_shard::archive::{ArchiveError, Archives};
use ballast_vote_shard::{ShardError, Shards};
use serde::Deserialize;
use serde_json::Value;

use crate::faults;
use crate::ports::{Moves, MovesError, Readers, Records, Wanted};
use crate::worker::{Job, MoveError, Worker};
pub use rollback::UNCLEAR;
use told::Told;
use wait::Stay;

/// How often a step gives a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
/// What a paused move waits for.
pub const FOR_RESUME: &str = "somebody to resume it";
/// What may pass: it is tried again.
const UNAVAILABLE: &str = "Ballast.Unavailable";
/// Somebody called the move off, or back.
const CALLED_OFF: &str = "Ballast.CalledOff";
/// The move may not be.
const REFUSED: &str = "Ballast.Refused";
/// Both sides differ.
const DIFFERENT: &str = "Ballast.Different";

/// What all steps work with.
#[derive(Clone)]
pub struct Steps {
    worker: Worker,
    moves: Arc<dyn Moves>,
    readers: Arc<dyn Readers>,
    clock: Arc<dyn Clock>,
}

/// What a step is given: the move, and what the steps before it said.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    #[serde(flatten)]
    wanted: Wanted,
    #[serde(default)]
    sync: Value,
    #[serde(default)]
    verification: Value,
    #[serde(default)]
    dual_read: Value,
    #[serde(default)]
    error: Value,
}

impl Given {
    /// A part of what an earlier step said, if it can be read.
    fn part<T: serde::de::DeserializeOwned>(value: &Value, name: &str) -> Option<T> {
        let part = value.get(name)?.clone();
        serde_json::from_value(part).ok()
    }
}

type Done = Result<Value, TaskError>;

impl Steps {
    /// Steps on these records, shards and archives.
    #[must_use]
    pub fn new(
        records: Arc<dyn Records>,
        moves: Arc<dyn Moves>,
        shards: Arc<dyn Shards>,
        archives: Arc<dyn Archives>,
        readers: Arc<dyn Readers>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let worker = Worker::new(records, shards, Arc::clone(&clock));
        Self {
            worker: worker.with_archives(archives),
            moves,
            readers,
            clock,
        }
    }

    /// Has these steps do the work of the workflow's resources.
    #[must_use]
    pub fn register(self, registry: Registry) -> Registry {
        macro_rules! steps {
            ($registry:expr, $($resource:literal $room:ident)*) => {
                $registry$(.function($resource, {
                    let steps = self.clone();
                    move |mut given: Given, context: TaskContext| {
                        let steps = steps.clone();
                        async move {
                            faults::point("begin", $resource);
                            let stay = Stay::begin(&steps, $resource);
                            let done = loop {
                                steps.is_ours(&given, &context).await?;
                                let done = $room::run(&steps, &given, &context).await;
                                let over = stay.over(&steps, &mut given, &context, done);
                                if let Some(done) = over.await {
                                    break done;
                                }
                            };
                            faults::point("end", $resource);
                            done
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

    /// One execution works on a move at a time: the one that its record names.
    /// Another that is given the same move leaves it alone.
    async fn is_ours(&self, given: &Given, context: &TaskContext) -> Result<(), TaskError> {
        let id = move_id(given, context);
        let found = self.moves.read(&id).await;
        let found = found.map_err(|error| refused(MovesError::Store(error)))?;
        let named = found.map_or_else(|| id.0.clone(), |migration| migration.execution());
        if named == name_of(context) {
            return Ok(());
        }
        let why = format!(
            "move {id} is worked on by the execution {named}: leave migrationID out, or \
             start an execution of that name"
        );
        Err(TaskError::new(REFUSED, why))
    }

    /// The move's record, written if there is none.
    async fn open(&self, given: &Given, context: &TaskContext) -> Result<Migration, TaskError> {
        let id = move_id(given, context);
        self.moves.open(&id, &given.wanted).await.map_err(refused)
    }

    /// The move's record, unless somebody called it off.
    async fn go_on(&self, given: &Given, context: &TaskContext) -> Result<Migration, TaskError> {
        let migration = self.open(given, context).await?;
        if let Some(back) = &migration.asked.back
            && matches!(migration.stage, Stage::Asked | Stage::Admitted)
        {
            let why = back.word.reason.clone();
            let why = why.unwrap_or_else(|| format!("{} called it off", back.word.actor));
            return Err(TaskError::new(CALLED_OFF, why));
        }
        Ok(migration)
    }

    fn job(&self, migration: &Migration, context: &TaskContext) -> Job {
        Job {
            move_id: migration.migration_id.clone(),
            slice: migration.slice_id(),
            lease: lease(migration.run, context.lease()),
            seal_max_ms: None,
        }
    }

    /// Changes the move's record.
    async fn note(
        &self,
        migration: &Migration,
        action: &'static str,
        edit: impl Fn(&mut Migration) + Send + Sync,
    ) -> Result<Migration, TaskError> {
        let id = &migration.migration_id;
        self.moves.change(id, action, &edit).await.map_err(refused)
    }

    /// Notes what was not as it should be, and what is done about it. The log
    /// says that something was; whose rows it is, is for operators alone.
    async fn found(
        &self,
        migration: &Migration,
        (phase, shard): (&str, &ShardId),
        told: &Told,
        then: &str,
        edit: impl Fn(&mut Migration) + Send + Sync,
    ) -> Result<Migration, TaskError> {
        let id = &migration.migration_id;
        tracing::warn!(%id, %shard, rows = told.count, then, "what is stored is wrong: `ballast migration show` names it");
        let finding = Finding {
            at: self.clock.now(),
            phase: phase.to_owned(),
            shard: shard.clone(),
            what: told.line(),
            then: then.to_owned(),
        };
        let edit = move |migration: &mut Migration| {
            migration.found(finding.clone());
            edit(migration);
        };
        self.note(migration, "migration.found", edit).await
    }

    /// Notes what the move waits for, or that it waits for nothing.
    async fn waits_for(&self, migration: &Migration, why: Option<&str>) -> Result<(), TaskError> {
        if migration.waiting_for.as_deref() != why {
            let why = why.map(str::to_owned);
            let edit = move |migration: &mut Migration| migration.waiting_for.clone_from(&why);
            self.note(migration, "migration.wait", edit).await?;
        }
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().unix_ms()
    }
}

/// A later execution of a move counts its leases from the beginning; what it
/// orders must not be taken for late.
fn lease(run: u32, lease: u64) -> u64 {
    const LEASES: u64 = 1 << 10;
    u64::from(run) * LEASES + lease.min(LEASES - 1)
}

fn move_id(given: &Given, context: &TaskContext) -> MoveId {
    let given = given.wanted.migration_id.clone();
    given.unwrap_or_else(|| MoveId(name_of(context).to_owned()))
}

/// The execution's name among those of its workflow.
fn name_of(context: &TaskContext) -> &str {
    let id = context.execution();
    id.split_once(':').map_or(id, |(_, name)| name)
}

fn tell(context: &TaskContext, done: u64, total: Option<u64>, unit: &str, note: impl Into<String>) {
    context.heartbeat(Progress {
        done,
        total,
        unit: unit.to_owned(),
        note: Some(note.into()),
    });
}

/// Gives signs of life while something takes long that has none to tell.
async fn alive<T>(context: &TaskContext, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(SIGN_OF_LIFE) => context.alive(),
        }
    }
}

/// The move is not at work on the slice any more.
fn failed_over(migration: &Migration) -> TaskError {
    let id = &migration.migration_id;
    TaskError::new(
        CALLED_OFF,
        format!("move {id} is no longer at work on its slice"),
    )
}

/// What a worker's failure means to the workflow.
fn failed(error: MoveError) -> TaskError {
    let name = match &error {
        MoveError::Different { .. } => DIFFERENT,
        MoveError::NoSlice(_) => REFUSED,
        MoveError::Records(_) => UNAVAILABLE,
        MoveError::Archive { source, .. } => match &**source {
            // It does not become whole by itself.
            ArchiveError::Missing { .. } | ArchiveError::Damaged { .. } => DIFFERENT,
            ArchiveError::Store { .. } | ArchiveError::Shard(_) | ArchiveError::Stopped(_) => {
                UNAVAILABLE
            }
        },
        MoveError::Shard { source, .. } => match source {
            ShardError::Refused(_) => REFUSED,
            // Nor does this.
            ShardError::Damaged { .. } => DIFFERENT,
            // A newer worker is at work, or it passes.
            ShardError::Unavailable { .. }
            | ShardError::Unfit(_)
            | ShardError::Fenced(_)
            | ShardError::CursorTooOld => UNAVAILABLE,
        },
    };
    TaskError::new(name, causes(&error))
}

/// An error with what caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

fn refused(error: MovesError) -> TaskError {
    let name = match &error {
        MovesError::Refused(_) => REFUSED,
        MovesError::Store(_) => UNAVAILABLE,
    };
    TaskError::new(name, error.to_string())
}
