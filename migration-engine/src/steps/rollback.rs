//! *Rollback*: everything is as it was. Before the point of no return the
//! source takes votes again and the target is emptied; after it, the slice is
//! brought back by a move of its own.

use ballast_domain::migration::{BackHow, Migration, Stage, Status};
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::{Value, json};

use super::certify::ended;
use super::{Done, Given, REFUSED, Steps, failed, move_id, tell};
use crate::worker::{Goal, Notes, Reached};

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let id = move_id(given, context);
    let found = steps
        .moves
        .read(&id)
        .await
        .map_err(|error| TaskError::new(super::UNAVAILABLE, error.to_string()))?;
    let reason = reason(given);
    let Some(migration) = found else {
        // It never came to be.
        return Ok(json!({"reversed": false, "reason": reason}));
    };
    if let Some(end) = &migration.ended {
        let reversed = end.status == Status::Reversed;
        let reason = end.why.clone().unwrap_or(reason);
        return Ok(json!({"reversed": reversed, "reason": reason}));
    }
    let (from, to) = (&migration.from, &migration.to);
    let note = match migration.stage {
        Stage::Asked | Stage::Admitted => format!("leaving the slice on {from}, emptying {to}"),
        _ => format!("bringing the slice back to {from}"),
    };
    tell(context, 0, None, "", note);
    let job = steps.job(&migration, context);
    let mut notes = Notes::default();
    let reached = steps.worker.work(&job, Goal::Undone, &mut notes).await;
    let reversed = match reached.map_err(failed)? {
        Reached::Over {
            moved: true,
            back: true,
        } => true,
        Reached::Over { moved: false, .. } | Reached::Unknown => false,
        other => {
            let why = format!("it did not end as it should have: {other:?}");
            return Err(TaskError::new(REFUSED, why));
        }
    };
    let pause = notes.pause.ms.map(i64::unsigned_abs);
    let edit = move |migration: &mut Migration| {
        migration.figures.pause_ms = migration.figures.pause_ms.max(pause);
    };
    let noted = steps.note(&migration, "migration.back", edit).await?;
    let cancelled = noted.asked.back.as_ref().map(|back| back.how) == Some(BackHow::Cancel);
    let status = match (reversed, cancelled) {
        (true, _) => Status::Reversed,
        (false, true) => Status::Cancelled,
        (false, false) => Status::RolledBack,
    };
    ended(steps, &noted, status, "Rollback", Some(reason.clone())).await?;
    Ok(json!({"reversed": reversed, "reason": reason}))
}

/// Why it goes back, as the steps before said.
fn reason(given: &Given) -> String {
    let text = |value: &Value, name: &str| Given::part::<String>(value, name);
    text(&given.error, "Cause")
        .or_else(|| text(&given.dual_read, "reason"))
        .or_else(|| {
            let told = text(&given.verification, "difference")?;
            Some(format!("the copy differs: {told}"))
        })
        .unwrap_or_else(|| "it was called off".to_owned())
}
