//! Waits within a task. A task that can only wait returns when to ask again. This
//! module repeats the task itself for as long as its state's timeout allows, so that a
//! wait of days does not fill the execution's history.

use std::time::Duration;

use ballast_state_machines::engine::TaskContext;
use serde_json::Value;

use super::{MigrationSteps, StepInput, StepResult};

/// How long a task repeats itself, in milliseconds; less than its state's timeout.
const WAIT_BUDGETS_MS: [(&str, i64); 4] = [
    ("PlanMove", 240_000),
    ("WaitForSync", 3_600_000),
    ("UpdateTenantRouting", 1_800_000),
    ("MonitorDualRead", 1_800_000),
];
/// The longest single wait, whatever the task asks for.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// One task's waiting.
pub(super) struct StepWait {
    resource: &'static str,
    until_ms: i64,
}

impl StepWait {
    pub(super) fn start(steps: &MigrationSteps, resource: &'static str) -> Self {
        let stay = WAIT_BUDGETS_MS.iter().find(|(name, _)| *name == resource);
        let until_ms = steps.now_ms() + stay.map_or(0, |(_, ms)| *ms);
        Self { resource, until_ms }
    }

    /// If the task only wants to wait, waits, feeds its output back into its input, and
    /// returns `None`: run it again. Otherwise returns the result, which ends the task.
    pub(super) async fn wait_or_finish(
        &self,
        steps: &MigrationSteps,
        input: &mut StepInput,
        context: &TaskContext,
        result: StepResult,
    ) -> Option<StepResult> {
        let Ok(output) = &result else {
            return Some(result);
        };
        let Some(wait) = self.wait_time(&input.sync, output, steps.now_ms()) else {
            return Some(result);
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = context.cancelled() => return Some(result),
        }
        context.keep_alive();
        self.feed_back(input, output);
        None
    }

    /// Returns how long to wait before running the task again, or `None` if its output
    /// is to be written to the history: when the budget is used up, or when a copy has
    /// advanced. Pure.
    fn wait_time(&self, sync: &Value, output: &Value, now_ms: i64) -> Option<Duration> {
        let seconds = output["askAgainSeconds"].as_u64().unwrap_or(0);
        let wait = Duration::from_secs(seconds).min(WAIT_MAX);
        let ends = now_ms + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let has_advanced = self.resource == "WaitForSync" && sync["copied"] != output["copied"];
        (seconds > 0 && ends <= self.until_ms && !has_advanced).then_some(wait)
    }

    /// Puts the task's output where it finds it in its next run.
    fn feed_back(&self, input: &mut StepInput, output: &Value) {
        match self.resource {
            "WaitForSync" => input.sync = output.clone(),
            "MonitorDualRead" => input.dual_read = output.clone(),
            "UpdateTenantRouting" if input.sync.is_object() => {
                input.sync["copied"] = output["copied"].clone();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wait_is_no_entry_and_a_copy_that_got_farther_is() {
        let stay = |resource| StepWait {
            resource,
            until_ms: 240_000,
        };
        let none = Value::Null;
        let later = json!({"askAgainSeconds": 1});
        let second = Some(Duration::from_secs(1));
        assert_eq!(stay("PlanMove").wait_time(&none, &later, 0), second);
        assert_eq!(stay("PlanMove").wait_time(&none, &later, 239_500), None);
        assert_eq!(stay("PlanMove").wait_time(&none, &json!({}), 0), None);
        let long = json!({"askAgainSeconds": 9_999});
        assert_eq!(stay("PlanMove").wait_time(&none, &long, 0), Some(WAIT_MAX));
        let (paused, sync) = (
            json!({"askAgainSeconds": 1, "copied": 7}),
            |rows: u64| json!({"copied": rows}),
        );
        assert_eq!(stay("WaitForSync").wait_time(&sync(6), &paused, 0), None);
        assert_eq!(stay("WaitForSync").wait_time(&sync(7), &paused, 0), second);
    }
}
