//! *CleanupOldShard*: removes the source's copy, at the current epoch only, and
//! signs the certificate.

use ballast_domain::migration::{Migration, MigrationStatus};
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::json;

use super::certify::end_migration;
use super::leave::{self, FinalStep};
use super::{
    MigrationSteps, REFUSED, StepInput, StepResult, report_progress, to_task_error, with_heartbeats,
};
use crate::worker::{MigrationProgress, WorkGoal, WorkOutcome};

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let migration = steps.open(input, context).await?;
    if migration.is_over() {
        return to_output(&migration);
    }
    let from = &migration.from;
    report_progress(
        context,
        0,
        None,
        "",
        format!("removing the slice from {from}"),
    );
    let job = steps.job(&migration, context);
    let mut progress = MigrationProgress::default();
    let working = steps.worker.work(&job, WorkGoal::Finished, &mut progress);
    let reached = with_heartbeats(context, working).await;
    // A worker may have left a copy and crashed before it recorded the end.
    let mut why = migration.left.as_ref().map(leave::describe_left);
    match reached.map_err(to_task_error) {
        Ok(WorkOutcome::Ended {
            moved: true,
            back: false,
        }) => {}
        Err(error) => {
            let last = FinalStep {
                steps,
                context,
                migration: &migration,
                job: &job,
                undo: false,
            };
            let Some((_, leaving)) = last.end_without_copy(from, &error).await? else {
                steps
                    .record_waiting(&migration, Some(&leave::describe_wait(&error)))
                    .await?;
                return Err(error);
            };
            why = Some(leave::describe_left(&leaving.left));
        }
        Ok(other) => {
            let why = format!("the migration ended in an unexpected way: {other:?}");
            return Err(TaskError::new(REFUSED, why));
        }
    }
    let migration = end_migration(
        steps,
        &migration,
        MigrationStatus::Completed,
        "CleanupOldShard",
        why,
    )
    .await?;
    to_output(&migration)
}

fn to_output(migration: &Migration) -> StepResult {
    Ok(json!({
        "completed": true,
        "pauseMs": migration.figures.pause_ms,
        "certified": migration.certificate.is_some(),
    }))
}

// Cannot be undone.
