//! Waiting within a step. A step that has nothing to do but to wait says when to
//! ask again; that is done here for as long as a step may take, so that a wait
//! of days is no history of very many entries.

use std::time::Duration;

use ballast_state_machines::engine::TaskContext;
use serde_json::Value;

use super::{Done, Given, Steps};

/// How long a step stays in a wait, by the time that its state allows it.
const STAYS: [(&str, i64); 4] = [
    ("PlanMove", 240_000),
    ("WaitForSync", 3_600_000),
    ("UpdateTenantRouting", 1_800_000),
    ("MonitorDualRead", 1_800_000),
];
/// It is not waited for longer at a time, whatever a step says.
const ONCE_MAX: Duration = Duration::from_secs(5);

/// A step's stay.
pub(super) struct Stay {
    resource: &'static str,
    until_ms: i64,
}

impl Stay {
    pub(super) fn begin(steps: &Steps, resource: &'static str) -> Self {
        let stay = STAYS.iter().find(|(name, _)| *name == resource);
        let until_ms = steps.now_ms() + stay.map_or(0, |(_, ms)| *ms);
        Self { resource, until_ms }
    }

    /// Waits if that is all that a step did, and gives it its own answer; or else
    /// the answer, which is to be written down.
    pub(super) async fn over(
        &self,
        steps: &Steps,
        given: &mut Given,
        context: &TaskContext,
        done: Done,
    ) -> Option<Done> {
        let Ok(said) = &done else {
            return Some(done);
        };
        let Some(wait) = self.waits(&given.sync, said, steps.now_ms()) else {
            return Some(done);
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = context.cancelled() => return Some(done),
        }
        context.alive();
        self.give(given, said);
        None
    }

    /// How long it is waited here before a step that said this is asked again, if
    /// it is: pure. Where a copy got farther, that is written down first.
    fn waits(&self, sync: &Value, said: &Value, now_ms: i64) -> Option<Duration> {
        let seconds = said["askAgainSeconds"].as_u64().unwrap_or(0);
        let wait = Duration::from_secs(seconds).min(ONCE_MAX);
        let ends = now_ms + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let gone_on = self.resource == "WaitForSync" && sync["copied"] != said["copied"];
        (seconds > 0 && ends <= self.until_ms && !gone_on).then_some(wait)
    }

    /// What the step said, as it is given to it the next time.
    fn give(&self, given: &mut Given, said: &Value) {
        match self.resource {
            "WaitForSync" => given.sync = said.clone(),
            "MonitorDualRead" => given.dual_read = said.clone(),
            "UpdateTenantRouting" if given.sync.is_object() => {
                given.sync["copied"] = said["copied"].clone();
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
        let stay = |resource| Stay {
            resource,
            until_ms: 240_000,
        };
        let none = Value::Null;
        let later = json!({"askAgainSeconds": 1});
        let second = Some(Duration::from_secs(1));
        assert_eq!(stay("PlanMove").waits(&none, &later, 0), second);
        assert_eq!(stay("PlanMove").waits(&none, &later, 239_500), None);
        assert_eq!(stay("PlanMove").waits(&none, &json!({}), 0), None);
        let long = json!({"askAgainSeconds": 9_999});
        assert_eq!(stay("PlanMove").waits(&none, &long, 0), Some(ONCE_MAX));
        let (paused, sync) = (
            json!({"askAgainSeconds": 1, "copied": 7}),
            |rows: u64| json!({"copied": rows}),
        );
        assert_eq!(stay("WaitForSync").waits(&sync(6), &paused, 0), None);
        assert_eq!(stay("WaitForSync").waits(&sync(7), &paused, 0), second);
    }
}
