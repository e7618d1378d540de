//! *CreateDataSyncTask*: prepares the target for importing the slice.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{MigrationSteps, StepInput, StepResult, report_progress, to_task_error};
use crate::worker::{MigrationProgress, WorkGoal};

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let migration = steps.open_unless_cancelled(input, context).await?;
    let to = &migration.to;
    report_progress(context, 0, None, "", format!("preparing {to}"));
    let job = steps.job(&migration, context);
    let mut progress = MigrationProgress::default();
    let reached = steps
        .worker
        .work(&job, WorkGoal::Prepared, &mut progress)
        .await;
    reached.map_err(to_task_error)?;
    Ok(json!({"caughtUp": false, "askAgainSeconds": 0}))
}

// Undone by the worker, which purges what the target has imported.
