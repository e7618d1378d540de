//! *CleanupOldShard*: the source's copy is removed, at the current epoch only,
//! and the certificate is written.

use ballast_domain::migration::{Migration, Status};
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::json;

use super::certify::ended;
use super::leave::{self, Last};
use super::{Done, Given, REFUSED, Steps, alive, failed, tell};
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
    let working = steps.worker.work(&job, Goal::Finished, &mut notes);
    let reached = alive(context, working).await;
    // Whoever left a copy may not have lived to say that it is over.
    let mut why = migration.left.as_ref().map(leave::told);
    match reached.map_err(failed) {
        Ok(Reached::Over {
            moved: true,
            back: false,
        }) => {}
        Err(error) => {
            let last = Last {
                steps,
                context,
                migration: &migration,
                job: &job,
                undo: false,
            };
            let Some((_, leaving)) = last.without(from, &error).await? else {
                steps
                    .waits_for(&migration, Some(&leave::waits(&error)))
                    .await?;
                return Err(error);
            };
            why = Some(leave::told(&leaving.left));
        }
        Ok(other) => {
            let why = format!("it did not end as it should have: {other:?}");
            return Err(TaskError::new(REFUSED, why));
        }
    }
    let migration = ended(steps, &migration, Status::Completed, "CleanupOldShard", why).await?;
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
