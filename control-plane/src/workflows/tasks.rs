//! Resources that any workflow may use: simulated work, to try a workflow out, and an
//! approval by signal.

use std::time::Duration;

use ballast_state_machines::engine::{HandlerRegistry, ProgressReport, TaskContext, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

/// Simulated work that takes a while and reports progress.
pub const WORK: &str = "ballast:work";
/// Waits for a signal.
pub const APPROVAL: &str = "ballast:approval.waitForTaskToken";

/// How often work reports progress.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(200);
const SECONDS_MAX: f64 = 86_400.0;

/// Registers these resources.
#[must_use]
pub fn register_common_tasks(registry: HandlerRegistry) -> HandlerRegistry {
    registry
        .with_function(WORK, work)
        .with_function(APPROVAL, approval)
}

/// The input of simulated work.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WorkInput {
    /// Duration in seconds.
    seconds: f64,
    /// Amount of work.
    units: u64,
    /// The unit.
    unit: String,
    /// What is being done, for people.
    note: Option<String>,
    /// Number of attempts that fail before one succeeds.
    failures: u64,
    /// The name of the error that they fail with.
    error: String,
}

impl Default for WorkInput {
    fn default() -> Self {
        Self {
            seconds: 1.0,
            units: 100,
            unit: "units".to_owned(),
            note: None,
            failures: 0,
            error: "WorkInput.Failed".to_owned(),
        }
    }
}

async fn work(work: WorkInput, context: TaskContext) -> Result<Value, TaskError> {
    if !(0.0..=SECONDS_MAX).contains(&work.seconds) {
        let cause = format!("seconds must be from 0 to {SECONDS_MAX}");
        return Err(TaskError::new("WorkInput.BadInput", cause));
    }
    let fails = context.attempt() < work.failures;
    let all = Duration::from_secs_f64(work.seconds);
    // Failing attempts fail half way.
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
        context.heartbeat(ProgressReport {
            done: done.min(work.units),
            total: Some(work.units),
            unit: work.unit.clone(),
            note: work.note.clone(),
        });
        if worked >= until {
            break;
        }
        let step = HEARTBEAT_INTERVAL.min(until - worked);
        tokio::select! {
            () = tokio::time::sleep(step) => worked += step,
            () = context.cancelled() => {
                return Err(TaskError::new("WorkInput.Cancelled", "cancelled"));
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

/// Returns at once: the token is already handed over.
async fn approval(_: Value, context: TaskContext) -> Result<Value, TaskError> {
    let how = format!("ballast execution signal {}", context.execution());
    Ok(json!({ "answerWith": how }))
}
