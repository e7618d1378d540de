//! *CreateDataSyncTask*: the target makes room for the slice.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{Done, Given, Steps, failed, tell};
use crate::worker::{Goal, Notes};

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.go_on(given, context).await?;
    let to = &migration.to;
    tell(context, 0, None, "", format!("{to} makes room"));
    let job = steps.job(&migration, context);
    let mut notes = Notes::default();
    let reached = steps.worker.work(&job, Goal::Prepared, &mut notes).await;
    reached.map_err(failed)?;
    Ok(json!({"caughtUp": false, "askAgainSeconds": 0}))
}

// Undone by the worker: whatever the target has taken in is purged there.
