//! How fast a state's tasks work: the rate over their latest progress reports,
//! smoothed so that people can read it.
//!
//! ```text
//!   task 7 of Copy   0 ── 1,000 ── 2,000           rate known
//!   task 8 of Copy                 2,000 ── 3,000  continues with it
//! ```
//! Long work runs as one task after another, and each reports the total done so far.
//! So the first report of a task is a starting point, not work done since its start.

use std::collections::BTreeMap;

use super::{ProgressReport, TaskProgress};
use crate::core::TaskId;

/// The time constant of the smoothing: work that is this old counts about a third.
const MEMORY_MS: f64 = 8_000.0;
/// No rate is shown before reports cover this much time.
const LEAST_MS: f64 = 500.0;

/// The latest progress of an execution's tasks.
#[derive(Debug, Default)]
pub(super) struct ProgressTracker {
    tasks: BTreeMap<TaskId, (TaskProgress, ProgressRate)>,
    /// The last rate of each state's finished tasks, for the state's next task.
    finished: BTreeMap<String, ProgressRate>,
}

impl ProgressTracker {
    /// Records a progress report and fills in its rate.
    pub(super) fn record(&mut self, mut report: TaskProgress) {
        let (at_ms, progress) = (report.at_ms, &report.progress);
        let rate = match self.tasks.remove(&report.task) {
            Some((_, rate)) => rate.continue_with(progress, at_ms),
            None => match self.finished.remove(&report.state) {
                Some(rate) => rate.resume_with(progress, at_ms),
                None => ProgressRate::start_at(progress, at_ms),
            },
        };
        report.per_second = rate.per_second();
        self.tasks.insert(report.task, (report, rate));
    }

    /// Records that a task is no longer running.
    pub(super) fn finish_task(&mut self, task: TaskId) {
        if let Some((report, rate)) = self.tasks.remove(&task) {
            self.finished.insert(report.state, rate);
        }
    }

    pub(super) fn reports(&self) -> Vec<TaskProgress> {
        self.tasks
            .values()
            .map(|(report, _)| report.clone())
            .collect()
    }
}

/// A rate: recent work, and the time it took.
#[derive(Debug, Clone, Default)]
struct ProgressRate {
    unit: String,
    at_ms: i64,
    done: u64,
    recent: f64,
    recent_ms: f64,
}

impl ProgressRate {
    fn start_at(report: &ProgressReport, at_ms: i64) -> Self {
        Self {
            unit: report.unit.clone(),
            at_ms,
            done: report.done,
            ..Self::default()
        }
    }

    /// Adds a report of the same task.
    fn continue_with(self, report: &ProgressReport, at_ms: i64) -> Self {
        if !self.is_continuation(report) {
            return Self::start_at(report, at_ms);
        }
        let ms = (at_ms - self.at_ms).max(0) as f64;
        let decay = (-ms / MEMORY_MS).exp();
        Self {
            recent: self.recent * decay + (report.done - self.done) as f64,
            recent_ms: self.recent_ms * decay + ms,
            at_ms,
            done: report.done,
            unit: self.unit,
        }
    }

    /// Continues with the first report of the state's next task. The time between
    /// the two tasks does not count.
    fn resume_with(self, report: &ProgressReport, at_ms: i64) -> Self {
        if !self.is_continuation(report) {
            return Self::start_at(report, at_ms);
        }
        Self {
            at_ms,
            done: report.done,
            ..self
        }
    }

    /// Whether a report continues the same count.
    fn is_continuation(&self, report: &ProgressReport) -> bool {
        report.unit == self.unit && report.done >= self.done
    }

    fn per_second(&self) -> Option<f64> {
        let known = self.recent > 0.0 && self.recent_ms >= LEAST_MS;
        known.then(|| self.recent * 1_000.0 / self.recent_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN_MS: i64 = 1_794_821_400_000;

    fn record_done(tracker: &mut ProgressTracker, task: u64, ms: i64, done: u64) -> Option<f64> {
        tracker.record(TaskProgress {
            task: TaskId(task),
            state: "Copy".to_owned(),
            begun_at_ms: BEGUN_MS,
            at_ms: BEGUN_MS + ms,
            per_second: None,
            progress: ProgressReport {
                done,
                unit: "rows".to_owned(),
                ..ProgressReport::default()
            },
        });
        let all = tracker.reports();
        let mine = all.iter().find(|report| report.task == TaskId(task));
        mine.and_then(|report| report.per_second)
    }

    fn is_about(rate: Option<f64>, wanted: f64) {
        assert!(
            rate.is_some_and(|rate| (rate - wanted).abs() < 1e-6),
            "{rate:?} is not {wanted}"
        );
    }

    #[test]
    fn the_rate_follows_reports_smoothly() {
        let mut tracker = ProgressTracker::default();
        assert_eq!(
            record_done(&mut tracker, 1, 0, 0),
            None,
            "nothing is known yet"
        );
        assert_eq!(
            record_done(&mut tracker, 1, 400, 4),
            None,
            "too little is known"
        );
        for second in 1..=10 {
            is_about(
                record_done(&mut tracker, 1, 1_000 * second, 10 * second.unsigned_abs()),
                10.0,
            );
        }
        let rate = record_done(&mut tracker, 1, 11_000, 300);
        assert!(rate.is_some_and(|rate| (20.0..60.0).contains(&rate)));
        // The same report again: no time passed, so no change.
        assert_eq!(record_done(&mut tracker, 1, 11_000, 300), rate);
        // The count starts over.
        assert_eq!(record_done(&mut tracker, 1, 12_000, 0), None);
    }

    #[test]
    fn work_before_a_task_began_does_not_count() {
        let mut tracker = ProgressTracker::default();
        record_done(&mut tracker, 1, 0, 1_000_000);
        is_about(record_done(&mut tracker, 1, 1_000, 1_000_010), 10.0);
        tracker.finish_task(TaskId(1));
        // An hour without a running task.
        is_about(record_done(&mut tracker, 2, 3_600_000, 1_000_030), 10.0);
        is_about(record_done(&mut tracker, 2, 3_601_000, 1_000_040), 10.0);
        // Other tasks have their own rate.
        assert_eq!(record_done(&mut tracker, 3, 3_601_000, 5), None);
    }
}
