//! *CleanupOldShard*: the source's copy is removed, at the current epoch only,
//! and the certificate is written.

use ballast_domain::migration::{Migration, Status};
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::json;

use super::certify::ended;
use super::{Done, Given, REFUSED, Steps, failed, tell};
use crate::worker::{Goal, Notes, Reached};

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.open(given, context).await?;
    if migration.is_over() {
        return done(&migration);
    }
    let from = &migration.from;
    tell(
        context,
        0,
        None,
        "",
        format!("removing the slice from {from}"),
    );
    let job = steps.job(&migration, context);
    let mut notes = Notes::default();
    let reached = steps.worker.work(&job, Goal::Finished, &mut notes).await;
    match reached.map_err(failed)? {
        Reached::Over {
            moved: true,
            back: false,
        } => {}
        other => {
            let why = format!("it did not end as it should have: {other:?}");
            return Err(TaskError::new(REFUSED, why));
        }
    }
    let migration = ended(
        steps,
        &migration,
        Status::Completed,
        "CleanupOldShard",
        None,
    )
    .await?;
    done(&migration)
}

fn done(migration: &Migration) -> Done {
    Ok(json!({
        "completed": true,
        "pauseMs": migration.figures.pause_ms,
        "certified": migration.certificate.is_some(),
    }))
}

// There is no way back from here.
