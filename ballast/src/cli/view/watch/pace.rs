//! How fast tasks go, and when they will be done: from what they told last,
//! smoothed, so that a number can be read.

use std::collections::BTreeMap;

use ballast_domain::Timestamp;

use crate::cli::execution::body::Progress;
use crate::cli::table::number;

/// The weight of a sample after which as much time has passed as the time
/// constant: what was seen longer ago counts less and less.
const MEMORY_MS: f64 = 8_000.0;

/// The paces of the tasks of an execution.
#[derive(Debug, Default)]
pub(crate) struct Paces(BTreeMap<(String, u64), Pace>);

#[derive(Debug, Clone, Copy)]
struct Pace {
    at: Timestamp,
    done: u64,
    begun: Timestamp,
    per_second: f64,
}

impl Paces {
    /// Takes in what tasks tell; those that tell nothing any more are
    /// forgotten.
    pub(crate) fn take(&mut self, told: &[Progress]) {
        let mut next = BTreeMap::new();
        for progress in told {
            let key = (progress.state.clone(), progress.task);
            let pace = match self.0.get(&key) {
                Some(pace) if pace.begun == progress.begun_at => pace.with(progress),
                _ => Pace::first(progress),
            };
            next.insert(key, pace);
        }
        self.0 = next;
    }

    /// Units per second.
    pub(crate) fn per_second(&self, progress: &Progress) -> Option<f64> {
        let pace = self.0.get(&(progress.state.clone(), progress.task))?;
        Some(pace.per_second).filter(|rate| *rate > 0.0)
    }
}

impl Pace {
    /// The mean since the task was begun: all that is known at first.
    fn first(told: &Progress) -> Self {
        let ms = told.at.unix_ms() - told.begun_at.unix_ms();
        let per_second = if ms > 0 {
            told.done as f64 * 1_000.0 / ms as f64
        } else {
            0.0
        };
        Self {
            at: told.at,
            done: told.done,
            begun: told.begun_at,
            per_second,
        }
    }

    fn with(self, told: &Progress) -> Self {
        let ms = (told.at.unix_ms() - self.at.unix_ms()) as f64;
        if ms <= 0.0 || told.done < self.done {
            return Self {
                done: told.done,
                ..self
            };
        }
        if self.per_second == 0.0 {
            return Self::first(told);
        }
        let now = (told.done - self.done) as f64 * 1_000.0 / ms;
        let kept = (-ms / MEMORY_MS).exp();
        Self {
            at: told.at,
            done: told.done,
            begun: self.begun,
            per_second: self.per_second * kept + now * (1.0 - kept),
        }
    }
}

/// `1,200 rows/s`; slow ones per minute or hour.
pub(crate) fn rate(per_second: f64, unit: &str) -> String {
    let (rate, per) = match per_second {
        fast if fast >= 0.1 => (fast, "s"),
        slow if slow * 60.0 >= 0.1 => (slow * 60.0, "min"),
        slow => (slow * 3_600.0, "h"),
    };
    let rate = if rate >= 10.0 {
        number(rate.round() as u64)
    } else {
        format!("{rate:.1}")
    };
    if unit.is_empty() {
        format!("{rate}/{per}")
    } else {
        format!("{rate} {unit}/{per}")
    }
}

/// How long it takes until all is done at this pace, as seen at `now`.
pub(crate) fn left_ms(told: &Progress, per_second: f64, now: Timestamp) -> Option<i64> {
    let left = told.total?.saturating_sub(told.done);
    let ms = left as f64 * 1_000.0 / per_second;
    let since = now.unix_ms().saturating_sub(told.at.unix_ms()).max(0);
    (ms.is_finite() && ms < 1e14).then(|| (ms as i64).saturating_sub(since).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seconds: i64, done: u64) -> Progress {
        let begun = Timestamp::from_unix_ms(1_794_821_400_000);
        Progress {
            state: "Copy".to_owned(),
            task: 1,
            begun_at: begun,
            at: begun.plus_seconds(seconds),
            done,
            total: Some(1_000),
            unit: "rows".to_owned(),
            note: None,
        }
    }

    #[test]
    fn a_pace_follows_what_is_told_without_jumping() {
        let mut paces = Paces::default();
        paces.take(&[told(0, 0)]);
        assert_eq!(paces.per_second(&told(0, 0)), None, "nothing is known yet");
        for second in 1..=10 {
            let now = told(second, 10 * second as u64);
            paces.take(std::slice::from_ref(&now));
            let pace = paces.per_second(&now).unwrap();
            assert!((pace - 10.0).abs() < 1e-6, "{pace}");
        }
        paces.take(&[told(11, 300)]);
        let pace = paces.per_second(&told(11, 300)).unwrap();
        assert!((20.0..60.0).contains(&pace), "{pace}");
        // The server told the same again: no time, no change.
        paces.take(&[told(11, 300)]);
        assert_eq!(paces.per_second(&told(11, 300)), Some(pace));
        // Another attempt begins anew.
        let mut again = told(12, 0);
        again.begun_at = again.at;
        paces.take(std::slice::from_ref(&again));
        assert_eq!(paces.per_second(&again), None);
    }

    #[test]
    fn rates_have_the_digits_that_matter() {
        assert_eq!(rate(12_345.6, "rows"), "12,346 rows/s");
        assert_eq!(rate(1.25, "rows"), "1.2 rows/s");
        assert_eq!(rate(0.05, ""), "3.0/min");
        assert_eq!(rate(0.000_5, "files"), "1.8 files/h");
    }

    #[test]
    fn what_is_left_shrinks_with_time() {
        let now = told(10, 500);
        let at = |seconds| left_ms(&now, 10.0, now.begun_at.plus_seconds(seconds));
        assert_eq!(
            [at(10), at(15), at(500)],
            [Some(50_000), Some(45_000), Some(0)]
        );
    }
}
