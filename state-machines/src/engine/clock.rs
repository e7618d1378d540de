//! The engine's time: the machine's, or a test's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tokio::sync::watch;

/// Tells the time, and waits for it.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The time in milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// Returns once it is this time, or later.
    async fn sleep_until(&self, at_ms: i64);
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// A machine's clock may be set while we sleep: then it is looked at again.
const LOOK_AGAIN_MS: i64 = 60_000;

#[async_trait]
impl Clock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the clock that everything else takes"
    )]
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    }

    async fn sleep_until(&self, at_ms: i64) {
        loop {
            let left = at_ms.saturating_sub(self.now_ms());
            if left <= 0 {
                return;
            }
            let left = left.min(LOOK_AGAIN_MS).unsigned_abs();
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
    }
}

/// A clock that stands still until it is moved: for tests. Clones are the same
/// clock.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: watch::Sender<i64>,
}

impl ManualClock {
    /// A clock that stands at a time.
    #[must_use]
    pub fn at(now_ms: i64) -> Self {
        Self {
            now: watch::Sender::new(now_ms),
        }
    }

    /// Moves it on, and wakes whoever waited for that.
    pub fn advance_ms(&self, by: i64) {
        self.now.send_modify(|now| *now = now.saturating_add(by));
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        *self.now.borrow()
    }

    async fn sleep_until(&self, at_ms: i64) {
        // We hold the sender ourselves, so the wait ends only with the time.
        let _ = self.now.subscribe().wait_for(|now| *now >= at_ms).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_whoever_waits() {
        let clock = ManualClock::at(1_000);
        clock.sleep_until(1_000).await;
        let sleeper = clock.clone();
        let woken = tokio::spawn(async move {
            sleeper.sleep_until(1_500).await;
            sleeper.now_ms()
        });
        clock.advance_ms(499);
        clock.advance_ms(1);
        assert_eq!(woken.await.unwrap(), 1_500);
    }

    #[tokio::test]
    async fn the_machines_clock_goes_on() {
        let before = SystemClock.now_ms();
        SystemClock.sleep_until(before + 2).await;
        assert!(SystemClock.now_ms() >= before + 2);
    }
}
