//! Throttles background work while votes arrive: it runs in small batches, with
//! a pause after each that is longer than the batch. Without votes it does not
//! pause.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pause on a background thread: about four times as long as a batch.
const PAUSE: Duration = Duration::from_millis(1);
/// Pause on a worker thread; Tokio's timers have millisecond resolution.
const ASYNC_PAUSE: Duration = Duration::from_millis(2);

/// Rows per batch: about 0.25 ms of work. Larger batches delay votes
/// noticeably.
pub(in crate::embedded) const ROWS_PER_BATCH: usize = 256;

/// Batches without a vote after which a background thread stops pausing. Votes
/// come in bursts: without this, work resumed in a short gap would delay the
/// next burst.
const IDLE_BATCHES: u32 = 40;

/// Counts vote calls, so that background work can pause for them.
pub(in crate::embedded) struct BackgroundThrottle {
    /// Vote calls so far.
    calls: AtomicU64,
    /// Whether tasks may sleep; false in simulations, which control time.
    can_sleep: bool,
}

/// A background task.
pub(in crate::embedded) struct ThrottledTask<'a> {
    throttle: &'a BackgroundThrottle,
    /// The number of vote calls at the last check.
    seen: u64,
    /// Remaining batches to pause after.
    busy_batches: u32,
}

impl BackgroundThrottle {
    pub(in crate::embedded) const fn new(can_sleep: bool) -> Self {
        Self {
            calls: AtomicU64::new(0),
            can_sleep,
        }
    }

    /// Records a call with votes.
    pub(in crate::embedded) fn record_vote_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts a background task.
    pub(in crate::embedded) fn start_task(&self) -> ThrottledTask<'_> {
        let seen = self.calls.load(Ordering::Relaxed);
        ThrottledTask {
            throttle: self,
            seen,
            busy_batches: 0,
        }
    }
}

impl ThrottledTask<'_> {
    /// Whether votes have arrived since the last check.
    fn has_new_votes(&mut self) -> bool {
        let calls = self.throttle.calls.load(Ordering::Relaxed);
        let has_new_votes = calls != self.seen;
        self.seen = calls;
        has_new_votes && self.throttle.can_sleep
    }

    /// Whether votes have arrived recently.
    fn is_busy(&mut self) -> bool {
        self.busy_batches = match self.has_new_votes() {
            true => IDLE_BATCHES,
            false => self.busy_batches.saturating_sub(1),
        };
        self.busy_batches > 0
    }

    /// Sleeps if votes arrive, on a background thread.
    #[allow(
        clippy::disallowed_methods,
        reason = "runs on background threads only, and never sleeps in simulations"
    )]
    pub(in crate::embedded) fn pause_if_busy(&mut self) {
        if self.is_busy() {
            std::thread::sleep(PAUSE);
        }
    }

    /// Sleeps if votes arrive, else yields.
    pub(in crate::embedded) async fn yield_if_busy(&mut self) {
        match self.has_new_votes() {
            true => tokio::time::sleep(ASYNC_PAUSE).await,
            false => tokio::task::yield_now().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_pauses_only_for_new_votes() {
        let throttle = BackgroundThrottle::new(true);
        let mut task = throttle.start_task();
        assert!(!task.has_new_votes());
        throttle.record_vote_call();
        assert!(task.has_new_votes());
        assert!(!task.has_new_votes(), "no votes since");
    }

    #[test]
    fn a_task_stays_busy_for_some_batches_after_a_vote() {
        let throttle = BackgroundThrottle::new(true);
        let mut task = throttle.start_task();
        assert!(!task.is_busy());
        throttle.record_vote_call();
        for _ in 0..IDLE_BATCHES {
            assert!(task.is_busy());
        }
        assert!(!task.is_busy());
    }

    #[test]
    fn no_task_sleeps_in_a_simulation() {
        let throttle = BackgroundThrottle::new(false);
        let mut task = throttle.start_task();
        throttle.record_vote_call();
        assert!(!task.has_new_votes());
    }
}
