//! Formats the rate of a task and its remaining time.

use ballast_domain::Timestamp;

use crate::execution::body::TaskProgress;
use crate::table::format_number;

/// `1,200 rows/s`; slow ones per minute or hour.
pub(crate) fn format_rate(per_second: f64, unit: &str) -> String {
    let (rate, per) = match per_second {
        fast if fast >= 0.1 => (fast, "s"),
        slow if slow * 60.0 >= 0.1 => (slow * 60.0, "min"),
        slow => (slow * 3_600.0, "h"),
    };
    let rate = if rate >= 10.0 {
        format_number(rate.round() as u64)
    } else {
        format!("{rate:.1}")
    };
    if unit.is_empty() {
        format!("{rate}/{per}")
    } else {
        format!("{rate} {unit}/{per}")
    }
}

/// The remaining time at this rate, as of `now`.
pub(crate) fn remaining_ms(
    progress: &TaskProgress,
    per_second: f64,
    now: Timestamp,
) -> Option<i64> {
    let left = progress.total?.saturating_sub(progress.done);
    let ms = left as f64 * 1_000.0 / per_second;
    let since = now.unix_ms().saturating_sub(progress.at.unix_ms()).max(0);
    (ms.is_finite() && ms < 1e14).then(|| (ms as i64).saturating_sub(since).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(seconds: i64, done: u64) -> TaskProgress {
        let begun = Timestamp::from_unix_ms(1_794_821_400_000);
        TaskProgress {
            state: "Copy".to_owned(),
            task: 1,
            begun_at: begun,
            at: begun.plus_seconds(seconds),
            done,
            total: Some(1_000),
            unit: "rows".to_owned(),
            per_second: None,
            note: None,
        }
    }

    #[test]
    fn rates_have_the_digits_that_matter() {
        assert_eq!(format_rate(12_345.6, "rows"), "12,346 rows/s");
        assert_eq!(format_rate(1.25, "rows"), "1.2 rows/s");
        assert_eq!(format_rate(0.05, ""), "3.0/min");
        assert_eq!(format_rate(0.000_5, "files"), "1.8 files/h");
    }

    #[test]
    fn what_is_left_shrinks_with_time() {
        let now = progress(10, 500);
        let at = |seconds| remaining_ms(&now, 10.0, now.begun_at.plus_seconds(seconds));
        assert_eq!(
            [at(10), at(15), at(500)],
            [Some(50_000), Some(45_000), Some(0)]
        );
    }
}
