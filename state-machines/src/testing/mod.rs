//! Test support: random valid definitions that end, and task results that depend only
//! on the task.
//!
//! The same seed gives the same machine and the same results, so that tests can
//! compare two engines.

mod machine;

pub use machine::random_machine;

use serde_json::{Value, json};

use crate::core::{ExecutionEvent, RunTask};
use crate::data::random::seed_for;

/// The number of cases of a property: `usual`, unless `PROPTEST_CASES` is set.
#[must_use]
pub fn case_count(usual: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(usual)
}

/// The result of a task. It depends only on the seed, the state, the iteration and the
/// attempt, so a task that runs twice has the same result.
#[must_use]
pub fn random_task_event(seed: u64, order: &RunTask) -> ExecutionEvent {
    let asked = format!("{} {:?} {}", order.state, order.iterations, order.attempt);
    let drawn = seed_for(seed, &asked);
    let task = order.task;
    let can_be_late = order.timeout_ms.is_some() || order.heartbeat_ms.is_some();
    match drawn % 10 {
        0 | 1 => ExecutionEvent::TaskFailed {
            task,
            error: ERRORS[(drawn / 10) as usize % ERRORS.len()].to_owned(),
            cause: format!("attempt {}", order.attempt),
        },
        2 if can_be_late => ExecutionEvent::TaskTimedOut {
            task,
            heartbeat: order.timeout_ms.is_none(),
        },
        _ => ExecutionEvent::TaskSucceeded {
            task,
            output: random_result(drawn / 10, order),
        },
    }
}

/// The errors of failing tasks.
const ERRORS: [&str; 3] = ["Test.Busy", "Test.Broken", "Test.Gone"];

fn random_result(drawn: u64, order: &RunTask) -> Value {
    match drawn % 4 {
        0 => json!(drawn % 100),
        1 => json!(format!("done {}", order.state)),
        2 => json!([drawn % 7, drawn % 5]),
        _ => json!({"n": drawn % 10, "state": order.state}),
    }
}
