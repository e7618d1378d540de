//! *EnableDualRead*: from the cutover on, the route names both sides, and
//! routers read rows from both. What is written to the target streams back.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{Done, Given, Steps};
use crate::copy::Copied;

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    steps.open(given, context).await?;
    let back: Copied = Given::part(&given.verification, "back").unwrap_or_default();
    Ok(json!({"verdict": "watch", "askAgainSeconds": 0, "back": back}))
}

// Undone by Rollback, which brings the slice back.
