//! *EnableDualRead*: starts the stream of changes back from the target. The route
//! names both sides since the cutover, so routers already read rows from both.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{MigrationSteps, StepInput, StepResult};
use crate::copy::CopyProgress;

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    steps.open(input, context).await?;
    let back: CopyProgress = StepInput::parse_part(&input.verification, "back").unwrap_or_default();
    Ok(json!({"verdict": "watch", "askAgainSeconds": 0, "back": back}))
}

// Undone by Rollback, which brings the slice back to the source.
