//! *DetectHotspot*: what is hot, and why it is moved. A move that somebody
//! ordered has its reason; the slice is claimed for it here, unless that was
//! done when it was asked for.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{Done, Given, Steps};

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.open(given, context).await?;
    Ok(json!({
        "subject": migration.slice_id().to_string(),
        "orderedBy": migration.actor.name,
        "reason": migration.reason,
    }))
}

// Nothing to undo: the claim is released with the move's end.
