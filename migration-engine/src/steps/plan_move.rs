//! *PlanMove*: the price, and the move's turn: approval, maintenance window,
//! limits on how many copy at the same time.

use ballast_state_machines::engine::TaskContext;
use serde_json::json;

use super::{Done, Given, Steps, refused, tell};
use crate::ports::Admission;

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.go_on(given, context).await?;
    let admission = steps.moves.admit(&migration).await.map_err(refused)?;
    match admission {
        Admission::Now(admitted) => {
            steps.waits_for(&admitted, None).await?;
            Ok(json!({"ready": true, "price": admitted.price, "fromShardID": admitted.from}))
        }
        Admission::Later {
            why,
            ask_again_seconds,
        } => {
            tell(context, 0, None, "", format!("waiting for {why}"));
            steps.waits_for(&migration, Some(&why)).await?;
            Ok(json!({
                "ready": false,
                "waitingFor": why,
                "askAgainSeconds": ask_again_seconds,
            }))
        }
    }
}

// Undone by the move's end, which gives its turn to the next.
