//! *PlanMove*: computes the price, and waits for admission: approval, maintenance
//! window, limits on concurrent copies.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{MigrationSteps, StepInput, StepResult, report_progress, to_store_task_error};
use crate::ports::Admission;

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let migration = steps.open_unless_cancelled(input, context).await?;
    let admission = steps
        .moves
        .admit(&migration)
        .await
        .map_err(to_store_task_error)?;
    match admission {
        Admission::Now(admitted) => {
            steps.record_waiting(&admitted, None).await?;
            Ok(json!({"ready": true, "price": admitted.price, "fromShardID": admitted.from}))
        }
        Admission::Later {
            why,
            ask_again_seconds,
        } => {
            report_progress(context, 0, None, "", format!("waiting for {why}"));
            steps.record_waiting(&migration, Some(&why)).await?;
            Ok(json!({
                "ready": false,
                "waitingFor": why,
                "askAgainSeconds": ask_again_seconds,
            }))
        }
    }
}

// Undone by the end of the migration, which frees its slot for the next one.
