//! The engine's clock: the system's, or a manual one for tests.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tokio::sync::watch;

/// Tells the time, and sleeps.
#[async_trait]
pub trait EngineClock: Send + Sync + 'static {
    /// The time in milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// Returns once it is this time, or later.
    async fn sleep_until(&self, at_ms: i64);
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// The system clock may be adjusted during a sleep, so long sleeps check it again.
const SLEEP_MS_MAX: i64 = 60_000;

#[async_trait]
impl EngineClock for SystemClock {
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
            let left = left.min(SLEEP_MS_MAX).unsigned_abs();
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
    }
}

/// A clock for tests that moves only when a test advances it. Clones share it.
///
/// A loop that sleeps for a while computes its wake time when it goes to sleep. A
/// test that moves the clock before that happens shifts the wake time, and may then
/// wait for an event that never comes. So such a test first waits for the
/// [sleepers](Self::wait_for_sleepers).
#[derive(Debug, Clone)]
pub struct ManualEngineClock {
    now: watch::Sender<i64>,
    /// The wake times of all sleepers.
    sleepers: watch::Sender<Vec<i64>>,
}

impl ManualEngineClock {
    /// A clock that starts at this time.
    #[must_use]
    pub fn starting_at(now_ms: i64) -> Self {
        Self {
            now: watch::Sender::new(now_ms),
            sleepers: watch::Sender::new(Vec::new()),
        }
    }

    /// Moves the clock forward and wakes the sleepers whose time has come.
    pub fn advance_ms(&self, by: i64) {
        self.now.send_modify(|now| *now = now.saturating_add(by));
    }

    /// Waits until at least `count` sleepers sleep until `last_ms` at the latest.
    /// Sleepers whose time has come do not count.
    pub async fn wait_for_sleepers(&self, count: usize, last_ms: i64) {
        let now_ms = self.now_ms();
        let are_asleep = |sleepers: &Vec<i64>| {
            let asleep = sleepers
                .iter()
                .filter(|at| (now_ms + 1..=last_ms).contains(at));
            asleep.count() >= count
        };
        // `self` owns the sender, so the wait cannot fail.
        let _ = self.sleepers.subscribe().wait_for(are_asleep).await;
    }
}

/// A sleeper's entry in the clock's list.
struct Sleeper<'a> {
    clock: &'a ManualEngineClock,
    at_ms: i64,
}

impl<'a> Sleeper<'a> {
    fn register(clock: &'a ManualEngineClock, at_ms: i64) -> Self {
        clock.sleepers.send_modify(|sleepers| sleepers.push(at_ms));
        Self { clock, at_ms }
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.clock.sleepers.send_modify(|sleepers| {
            if let Some(index) = sleepers.iter().position(|at| *at == self.at_ms) {
                sleepers.swap_remove(index);
            }
        });
    }
}

#[async_trait]
impl EngineClock for ManualEngineClock {
    fn now_ms(&self) -> i64 {
        *self.now.borrow()
    }

    async fn sleep_until(&self, at_ms: i64) {
        let mut now = self.now.subscribe();
        let _sleeper = Sleeper::register(self, at_ms);
        // `self` owns the sender, so the wait cannot fail.
        let _ = now.wait_for(|now| *now >= at_ms).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers() {
        let clock = ManualEngineClock::starting_at(1_000);
        clock.sleep_until(1_000).await;
        let sleeper = clock.clone();
        let woken = tokio::spawn(async move {
            sleeper.sleep_until(1_500).await;
            sleeper.now_ms()
        });
        clock.wait_for_sleepers(1, 1_500).await;
        clock.advance_ms(499);
        clock.advance_ms(1);
        assert_eq!(woken.await.unwrap(), 1_500);
        assert!(clock.sleepers.borrow().is_empty());
    }

    #[tokio::test]
    async fn the_system_clock_advances() {
        let before = SystemClock.now_ms();
        SystemClock.sleep_until(before + 2).await;
        assert!(SystemClock.now_ms() >= before + 2);
    }
}
