//! When migrations would be over: copying, windows, maintenance windows and
//! approvals, each by itself. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ballast_domain::Timestamp;
use ballast_domain::maintenance::MaintenanceWindow;
use serde::Serialize;

use super::settings::MigrationSettings;

/// When migrations would be over, if they began now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FinishEstimate {
    /// How long copying takes until the last cutover, in milliseconds.
    pub copying_ms: u64,
    /// How many copy at the same time.
    pub at_once: u64,
    /// How long both copies are kept after each cutover, in milliseconds.
    pub window_ms: u64,
    /// How long migrations wait for the windows of earlier ones to end, because only
    /// so many may be open (`moves.windows_max`), in milliseconds.
    pub windows_wait_ms: u64,
    /// How long they wait for maintenance windows, in milliseconds.
    pub maintenance_wait_ms: u64,
    /// The maintenance window that the first one waits for, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<String>,
    /// How many need an approval first. How long that takes is not known and in none
    /// of the times.
    pub approvals: u64,
    /// When the last one is cut over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutover_at: Option<Timestamp>,
    /// When the last window ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
}

/// The terms that the times depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinishTerms<'a> {
    pub(crate) at_once: u64,
    pub(crate) window_ms: u64,
    pub(crate) windows_max: u64,
    /// When migrations may begin; at any time if empty.
    pub(crate) maintenance: &'a [MaintenanceWindow],
}

impl<'a> FinishTerms<'a> {
    /// The terms by the settings. With `now`, maintenance windows do not matter.
    pub(crate) fn new(
        moves: &'a MigrationSettings,
        at_once: u64,
        window_ms: u64,
        now: bool,
    ) -> Self {
        Self {
            at_once,
            window_ms,
            windows_max: moves.windows_max,
            maintenance: if now { &[] } else { &moves.maintenance },
        }
    }

    /// When migrations of these durations, in milliseconds, would be over.
    pub(crate) fn estimate(
        &self,
        durations: &[u64],
        approvals: u64,
        now: Timestamp,
    ) -> FinishEstimate {
        let began = now.unix_ms();
        let since = |at: i64| at.saturating_sub(began).max(0).unsigned_abs();
        let any_time = Self {
            maintenance: &[],
            ..*self
        };
        let unlimited = Self {
            windows_max: u64::MAX,
            ..any_time
        };
        let copied = unlimited.schedule(durations, began).0;
        let with_windows = any_time.schedule(durations, began).0;
        let (cutover, ends) = self.schedule(durations, began);
        let waits = opening_ms(self.maintenance, began) > began && !durations.is_empty();
        let first = self.maintenance.iter();
        let first = first.min_by_key(|window| window.opens_in_seconds(now));
        FinishEstimate {
            copying_ms: since(copied),
            at_once: self.at_once,
            window_ms: self.window_ms,
            windows_wait_ms: since(with_windows) - since(copied),
            maintenance_wait_ms: since(cutover).saturating_sub(since(with_windows)),
            maintenance: first.filter(|_| waits).map(ToString::to_string),
            approvals,
            cutover_at: (!durations.is_empty()).then(|| Timestamp::from_unix_ms(cutover)),
            ends_at: (!durations.is_empty()).then(|| Timestamp::from_unix_ms(ends)),
        }
    }

    /// The last cutover and the end of the last window.
    fn schedule(&self, durations: &[u64], began: i64) -> (i64, i64) {
        let lanes = usize::try_from(self.at_once.max(1)).unwrap_or(usize::MAX);
        let lanes = lanes.min(durations.len().max(1));
        let mut free: BinaryHeap<_> = (0..lanes).map(|_| Reverse(began)).collect();
        let mut open = BinaryHeap::new();
        let (mut cutover, mut ends) = (began, began);
        for duration in durations {
            let mut at = free.pop().map_or(began, |Reverse(at)| at);
            if open.len() as u64 >= self.windows_max.max(1)
                && let Some(Reverse(ended)) = open.pop()
            {
                at = at.max(ended);
            }
            let copied = opening_ms(self.maintenance, at).saturating_add_unsigned(*duration);
            let over = copied.saturating_add_unsigned(self.window_ms);
            free.push(Reverse(copied));
            open.push(Reverse(over));
            (cutover, ends) = (cutover.max(copied), ends.max(over));
        }
        (cutover, ends)
    }
}

/// The first moment from `at` on at which a migration may begin.
fn opening_ms(windows: &[MaintenanceWindow], at: i64) -> i64 {
    let now = Timestamp::from_unix_ms(at);
    let waits = windows.iter().map(|window| window.opens_in_seconds(now));
    at.saturating_add_unsigned(waits.min().unwrap_or(0).saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn monday() -> Timestamp {
        "2026-11-16T10:00:00Z".parse().unwrap()
    }

    fn terms(maintenance: &[MaintenanceWindow]) -> FinishTerms<'_> {
        FinishTerms {
            at_once: 4,
            window_ms: 2 * HOUR,
            windows_max: 1_000,
            maintenance,
        }
    }

    #[test]
    fn windows_overlap_and_are_named_beside_the_copying() {
        let found = terms(&[]).estimate(&[1_000; 1_000], 0, monday());
        assert_eq!((found.copying_ms, found.window_ms), (250_000, 2 * HOUR));
        assert_eq!((found.windows_wait_ms, found.maintenance_wait_ms), (0, 0));
        let ends = found.ends_at.unwrap().unix_ms() - monday().unix_ms();
        assert_eq!(ends.unsigned_abs(), 250_000 + 2 * HOUR);
    }

    #[test]
    fn few_windows_at_a_time_hold_the_others_up() {
        let few = FinishTerms {
            windows_max: 10,
            ..terms(&[])
        };
        let found = few.estimate(&[1_000; 30], 2, monday());
        assert_eq!(found.copying_ms, 8_000);
        assert!(found.windows_wait_ms >= 4 * HOUR - 8_000, "{found:?}");
        assert_eq!(found.approvals, 2);
        let ends = found.ends_at.unwrap().unix_ms() - monday().unix_ms();
        assert!(ends.unsigned_abs() >= 6 * HOUR, "{found:?}");
    }

    #[test]
    fn a_maintenance_window_is_waited_for_and_named() {
        let sunday = ["Sun 02:00-04:00".parse().unwrap()];
        let found = terms(&sunday).estimate(&[204], 0, monday());
        assert_eq!(found.copying_ms, 204);
        assert_eq!(found.maintenance.as_deref(), Some("Sun 02:00-04:00"));
        assert_eq!(found.maintenance_wait_ms, (5 * 24 + 16) * HOUR);
        let cutover = found.cutover_at.unwrap().to_string();
        assert_eq!(cutover, "2026-11-22T02:00:00.204Z");
        assert_eq!(
            found.ends_at.unwrap().to_string(),
            "2026-11-22T04:00:00.204Z"
        );
        let open = "2026-11-22T02:10:00Z".parse().unwrap();
        let found = terms(&sunday).estimate(&[204], 0, open);
        assert_eq!((found.maintenance_wait_ms, found.maintenance), (0, None));
        assert_eq!(terms(&sunday).estimate(&[], 0, monday()).ends_at, None);
    }
}
