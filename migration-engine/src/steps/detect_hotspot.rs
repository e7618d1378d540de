//! *DetectHotspot*: returns what is moved, for whom, and why. Claims the slice, unless
//! it was claimed when the migration was requested.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{MigrationSteps, StepInput, StepResult};

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let migration = steps.open(input, context).await?;
    Ok(json!({
        "subject": migration.slice_id().to_string(),
        "orderedBy": migration.actor.name,
        "reason": migration.reason,
    }))
}

// Nothing to undo: the end of the migration releases the claim.
