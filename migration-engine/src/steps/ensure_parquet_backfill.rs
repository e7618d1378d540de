//! *EnsureParquetBackfill*: closed polls are archived, so that they are copied
//! as files.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{Done, Given, Steps};

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    steps.go_on(given, context).await?;
    Ok(json!({"polls": 0}))
}

// Not undone: what is archived stays archived, on whichever side.
