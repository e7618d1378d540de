//! How fast a state's work goes, and how far it is: from what its tasks told last,
//! smoothed, so that a number can be read.
//!
//! ```text
//!   task 7 of Copy   0 ── 1,000 ── 2,000           pace known
//!   task 8 of Copy                 2,000 ── 3,000  goes on with it
//! ```
//! Work that takes long is done by task after task, each of which tells how much is
//! done altogether: what was there when it began is not its own doing.

use std::collections::BTreeMap;

use super::{Progress, TaskProgress};
use crate::core::TaskId;

/// What was told so long ago counts about a third of what is told now.
const MEMORY_MS: f64 = 8_000.0;
/// What was seen for less time says nothing yet.
const LEAST_MS: f64 = 500.0;

/// What the tasks of an execution told last.
#[derive(Debug, Default)]
pub(super) struct Told {
    tasks: BTreeMap<TaskId, (TaskProgress, Pace)>,
    /// Of tasks that are over, by state: the next one may go on with it.
    over: BTreeMap<String, Pace>,
}

impl Told {
    /// A task tells how far it is; how fast it goes is put in here.
    pub(super) fn tell(&mut self, mut told: TaskProgress) {
        let (at_ms, progress) = (told.at_ms, &told.progress);
        let pace = match self.tasks.remove(&told.task) {
            Some((_, pace)) => pace.then(progress, at_ms),
            None => match self.over.remove(&told.state) {
                Some(pace) => pace.resumed(progress, at_ms),
                None => Pace::begun(progress, at_ms),
            },
        };
        told.per_second = pace.per_second();
        self.tasks.insert(told.task, (told, pace));
    }

    /// A task is over.
    pub(super) fn forget(&mut self, task: TaskId) {
        if let Some((told, pace)) = self.tasks.remove(&task) {
            self.over.insert(told.state, pace);
        }
    }

    pub(super) fn all(&self) -> Vec<TaskProgress> {
        self.tasks.values().map(|(told, _)| told.clone()).collect()
    }
}

/// What was done lately, and in how much time.
#[derive(Debug, Clone, Default)]
struct Pace {
    unit: String,
    at_ms: i64,
    done: u64,
    lately: f64,
    lately_ms: f64,
}

impl Pace {
    fn begun(told: &Progress, at_ms: i64) -> Self {
        Self {
            unit: told.unit.clone(),
            at_ms,
            done: told.done,
            ..Self::default()
        }
    }

    /// The same task tells more.
    fn then(self, told: &Progress, at_ms: i64) -> Self {
        if !self.goes_on(told) {
            return Self::begun(told, at_ms);
        }
        let ms = (at_ms - self.at_ms).max(0) as f64;
        let kept = (-ms / MEMORY_MS).exp();
        Self {
            lately: self.lately * kept + (told.done - self.done) as f64,
            lately_ms: self.lately_ms * kept + ms,
            at_ms,
            done: told.done,
            unit: self.unit,
        }
    }

    /// Another task goes on with it. Between the two nobody worked, however long
    /// that was.
    fn resumed(self, told: &Progress, at_ms: i64) -> Self {
        if !self.goes_on(told) {
            return Self::begun(told, at_ms);
        }
        Self {
            at_ms,
            done: told.done,
            ..self
        }
    }

    /// Whether the same things are still counted.
    fn goes_on(&self, told: &Progress) -> bool {
        told.unit == self.unit && told.done >= self.done
    }

    fn per_second(&self) -> Option<f64> {
        let known = self.lately > 0.0 && self.lately_ms >= LEAST_MS;
        known.then(|| self.lately * 1_000.0 / self.lately_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN_MS: i64 = 1_794_821_400_000;

    fn tell(told: &mut Told, task: u64, ms: i64, done: u64) -> Option<f64> {
        told.tell(TaskProgress {
            task: TaskId(task),
            state: "Copy".to_owned(),
            begun_at_ms: BEGUN_MS,
            at_ms: BEGUN_MS + ms,
            per_second: None,
            progress: Progress {
                done,
                unit: "rows".to_owned(),
                ..Progress::default()
            },
        });
        let all = told.all();
        let mine = all.iter().find(|told| told.task == TaskId(task));
        mine.and_then(|told| told.per_second)
    }

    fn is_about(pace: Option<f64>, wanted: f64) {
        assert!(
            pace.is_some_and(|pace| (pace - wanted).abs() < 1e-6),
            "{pace:?} is not {wanted}"
        );
    }

    #[test]
    fn a_pace_follows_what_is_told_without_jumping() {
        let mut told = Told::default();
        assert_eq!(tell(&mut told, 1, 0, 0), None, "nothing is known yet");
        assert_eq!(tell(&mut told, 1, 400, 4), None, "too little is known");
        for second in 1..=10 {
            is_about(
                tell(&mut told, 1, 1_000 * second, 10 * second.unsigned_abs()),
                10.0,
            );
        }
        let pace = tell(&mut told, 1, 11_000, 300);
        assert!(pace.is_some_and(|pace| (20.0..60.0).contains(&pace)));
        // The same again: no time, no change.
        assert_eq!(tell(&mut told, 1, 11_000, 300), pace);
        // It begins anew.
        assert_eq!(tell(&mut told, 1, 12_000, 0), None);
    }

    #[test]
    fn what_was_done_before_a_task_began_is_not_its_doing() {
        let mut told = Told::default();
        tell(&mut told, 1, 0, 1_000_000);
        is_about(tell(&mut told, 1, 1_000, 1_000_010), 10.0);
        told.forget(TaskId(1));
        // An hour in which nobody worked.
        is_about(tell(&mut told, 2, 3_600_000, 1_000_030), 10.0);
        is_about(tell(&mut told, 2, 3_601_000, 1_000_040), 10.0);
        // Others count for themselves.
        assert_eq!(tell(&mut told, 3, 3_601_000, 5), None);
    }
}
