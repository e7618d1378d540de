//! Resources that anybody's workflow may use: work that takes a while, to try
//! a workflow out, and an approval that somebody gives by a signal.

use std::time::Duration;

use ballast_state_machines::engine::{Progress, Registry, TaskContext, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

/// Work that takes a while and tells how far it is.
pub const WORK: &str = "ballast:work";
/// Waits until somebody answers with a signal.
pub const APPROVAL: &str = "ballast:approval.waitForTaskToken";

/// How often work tells how far it is.
const BEAT: Duration = Duration::from_millis(200);
const SECONDS_MAX: f64 = 86_400.0;

/// With handlers for these.
#[must_use]
pub fn with_common(registry: Registry) -> Registry {
    registry.function(WORK, work).function(APPROVAL, approval)
}

/// What work is to be.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Work {
    /// How long it takes.
    seconds: f64,
    /// How much there is to do.
    units: u64,
    /// What is counted.
    unit: String,
    /// What is being done.
    note: Option<String>,
    /// How many attempts fail before one succeeds.
    failures: u64,
    /// The error that they fail with.
    error: String,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            seconds: 1.0,
            units: 100,
            unit: "units".to_owned(),
            note: None,
            failures: 0,
            error: "Work.Failed".to_owned(),
        }
    }
}

async fn work(work: Work, context: TaskContext) -> Result<Value, TaskError> {
    if !(0.0..=SECONDS_MAX).contains(&work.seconds) {
        let cause = format!("seconds must be from 0 to {SECONDS_MAX}");
        return Err(TaskError::new("Work.BadInput", cause));
    }
    let fails = context.attempt() < work.failures;
    let all = Duration::from_secs_f64(work.seconds);
    // One that fails does so half way.
    let until = if fails { all / 2 } else { all };
    let mut worked = Duration::ZERO;
    loop {
        let share = if all.is_zero() {
            1.0
        } else {
            worked.as_secs_f64() / all.as_secs_f64()
        };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "it is for show"
        )]
        let done = (work.units as f64 * share) as u64;
        context.heartbeat(Progress {
            done: done.min(work.units),
            total: Some(work.units),
            unit: work.unit.clone(),
            note: work.note.clone(),
        });
        if worked >= until {
            break;
        }
        let step = BEAT.min(until - worked);
        tokio::select! {
            () = tokio::time::sleep(step) => worked += step,
            () = context.cancelled() => {
                return Err(TaskError::new("Work.Cancelled", "it was told to stop"));
            }
        }
    }
    if fails {
        let cause = format!(
            "attempt {} of {} that fail",
            context.attempt() + 1,
            work.failures
        );
        return Err(TaskError::new(work.error, cause));
    }
    Ok(json!({"units": work.units, "seconds": work.seconds}))
}

/// It is handed over as soon as it is asked for.
async fn approval(_: Value, context: TaskContext) -> Result<Value, TaskError> {
    let how = format!("ballast execution signal {}", context.execution());
    Ok(json!({ "answerWith": how }))
}
