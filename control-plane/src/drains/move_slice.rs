//! The task `MoveUntilCutover`: starts one migration of a drain or a rebalance, and
//! holds its place among the concurrent ones until the slice has left.
//!
//! A place is about copying. In its window a migration copies nothing any more, so
//! it holds none; windows have a limit of their own (`moves.windows_max`). A
//! migration that makes room for others holds its place until its end: the source
//! frees the room only then.

use std::time::Duration;

use ballast_domain::migration::{Migration, MigrationStage, MigrationStatus};
use ballast_state_machines::core::ExecutionStatus;
use ballast_state_machines::engine::{HandlerRegistry, ProgressReport, TaskContext, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::migrations::WORKFLOW;
use crate::plane::ControlPlane;
use crate::registry::typed;
use crate::workflows::engine;

/// Name of errors that are retried.
const UNAVAILABLE: &str = "Ballast.Unavailable";
/// The slice did not leave.
const NOT_MOVED: &str = "Ballast.NotMoved";
/// How often the migration's record is read: often at first, since most are fast.
const FIRST_CHECKS: u32 = 50;
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
const INTERVAL: Duration = Duration::from_secs(2);

/// One migration to start.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceMove {
    /// Its name: a retry starts no second one.
    name: String,
    /// The input of its workflow.
    input: Value,
    /// Whether other migrations wait for the room that it frees.
    #[serde(default)]
    makes_room: bool,
}

/// Registers the task.
pub(super) fn with_slice_moves(registry: HandlerRegistry, plane: &ControlPlane) -> HandlerRegistry {
    let plane = plane.clone();
    let run = move |wanted: SliceMove, context: TaskContext| {
        let plane = plane.clone();
        async move { move_slice(&plane, &wanted, &context).await }
    };
    registry.with_function("MoveUntilCutover", run)
}

fn unavailable(error: impl std::fmt::Display) -> TaskError {
    TaskError::new(UNAVAILABLE, error.to_string())
}

async fn move_slice(
    plane: &ControlPlane,
    wanted: &SliceMove,
    context: &TaskContext,
) -> Result<Value, TaskError> {
    let engine = engine(plane).map_err(unavailable)?;
    let started = engine.start(WORKFLOW, &wanted.name, wanted.input.clone());
    started.await.map_err(unavailable)?;
    context.heartbeat(ProgressReport {
        done: 0,
        total: None,
        unit: String::new(),
        note: Some(format!("migration {}", wanted.name)),
    });
    let mut checks = 0;
    loop {
        if let Some(result) = check(plane, wanted).await? {
            return result;
        }
        checks += 1;
        let interval = match checks {
            ..=FIRST_CHECKS => FIRST_INTERVAL,
            _ => INTERVAL,
        };
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = context.cancelled() => return Err(unavailable("it was interrupted")),
        }
        context.keep_alive();
    }
}

/// The task's result, once the migration needs its place no longer.
async fn check(
    plane: &ControlPlane,
    wanted: &SliceMove,
) -> Result<Option<Result<Value, TaskError>>, TaskError> {
    let found = typed::get::<Migration>(plane.registry(), &wanted.name).await;
    if let Some(found) = found.map_err(unavailable)? {
        return Ok(place_result(&found.value, wanted.makes_room));
    }
    // No record: its execution has not come to it yet, or was refused.
    let id = format!("{WORKFLOW}:{}", wanted.name);
    let engine = engine(plane).map_err(unavailable)?;
    let Some(execution) = engine.get(&id).await.map_err(unavailable)? else {
        return Err(unavailable("its execution is gone"));
    };
    let is_running = matches!(
        execution.summary.status,
        ExecutionStatus::Pending | ExecutionStatus::Running
    );
    if is_running {
        return Ok(None);
    }
    // The record may have been written since it was looked for.
    let found = typed::get::<Migration>(plane.registry(), &wanted.name).await;
    if found.map_err(unavailable)?.is_some() {
        return Ok(None);
    }
    let why = execution
        .cause
        .unwrap_or_else(|| "it was refused".to_owned());
    Ok(Some(Err(TaskError::new(NOT_MOVED, why))))
}

/// Whether a migration still needs its place, and if not, what became of it. Pure.
fn place_result(migration: &Migration, makes_room: bool) -> Option<Result<Value, TaskError>> {
    let moved = |status: &str| Ok(json!({"migrationID": migration.migration_id, "status": status}));
    if let Some(ended) = &migration.ended {
        return Some(match ended.status {
            MigrationStatus::Completed => moved(ended.status.name()),
            status => {
                let why = ended.why.clone();
                let why = why.unwrap_or_else(|| format!("the migration was {status}"));
                Err(TaskError::new(NOT_MOVED, why))
            }
        });
    }
    match migration.stage {
        MigrationStage::Asked | MigrationStage::Admitted | MigrationStage::Ended => None,
        MigrationStage::CutOver | MigrationStage::Cleaning if makes_room => None,
        MigrationStage::CutOver | MigrationStage::Cleaning => Some(moved("cutOver")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migration(stage: &str) -> Migration {
        let body = json!({
            "migrationID": "mv-1", "tenantID": "acme", "slice": 0, "fromShardID": "shard-1",
            "toShardID": "shard-2", "regions": [], "actor": {"type": "ballast", "name": "move"},
            "requestedAt": "2026-11-16T09:00:00Z", "terms": {"windowMs": 0}, "stage": stage,
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn a_place_is_free_at_the_cutover_unless_others_wait_for_the_room() {
        let is_free = |stage, makes_room| place_result(&migration(stage), makes_room).is_some();
        for waits in [false, true] {
            assert!(!is_free("asked", waits) && !is_free("admitted", waits));
        }
        assert!(is_free("cutOver", false) && is_free("cleaning", false));
        assert!(!is_free("cutOver", true) && !is_free("cleaning", true));
    }

    #[test]
    fn a_migration_that_did_not_complete_is_a_failure() {
        let ended = |status: &str| {
            let mut migration = migration("ended");
            let ended =
                json!({"status": status, "phase": "Rollback", "at": "2026-11-16T09:00:00Z"});
            migration.ended = serde_json::from_value(ended).unwrap();
            place_result(&migration, true).unwrap()
        };
        assert!(ended("completed").is_ok());
        let cause = ended("rolledBack").unwrap_err().cause;
        assert_eq!(cause, "the migration was rolledBack");
    }
}
