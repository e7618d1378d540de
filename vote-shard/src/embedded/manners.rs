//! Work in the background gives way to votes: while there are any on this
//! shard, it is done in small portions, with a rest after each that is longer
//! than the portion took. With nobody waiting it does not rest at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a rest is on a thread of its own: about four times what is done between
/// two of them.
const REST: Duration = Duration::from_millis(1);
/// And among those who answer voters, whose timers know whole milliseconds only.
const REST_ASIDE: Duration = Duration::from_millis(2);

/// Rows that are read between two rests: about a quarter of a millisecond of work.
/// When it is more, whoever is about to vote feels it.
pub(super) const ROWS_AT_ONCE: usize = 256;

/// Portions without a vote after which nobody is expected any more, on a thread of
/// its own. Votes come in bunches: whoever works on after a moment without any is
/// met by the next.
const WARY: u32 = 40;

/// What a shard knows of its voters' haste.
pub(super) struct Manners {
    /// Calls with votes so far.
    calls: AtomicU64,
    /// In a simulation nobody sleeps: what happens when is decided elsewhere.
    can_sleep: bool,
}

/// Somebody who works in the background.
pub(super) struct Polite<'a> {
    manners: &'a Manners,
    /// How many calls there were when it last looked.
    seen: u64,
    /// Portions for which it still expects somebody.
    wary: u32,
}

impl Manners {
    pub(super) const fn new(can_sleep: bool) -> Self {
        Self {
            calls: AtomicU64::new(0),
            can_sleep,
        }
    }

    /// Somebody votes.
    pub(super) fn voted(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody begins to work.
    pub(super) fn polite(&self) -> Polite<'_> {
        let seen = self.calls.load(Ordering::Relaxed);
        Polite {
            manners: self,
            seen,
            wary: 0,
        }
    }
}

impl Polite<'_> {
    /// Whether somebody has voted since the last time.
    fn is_in_the_way(&mut self) -> bool {
        let calls = self.manners.calls.load(Ordering::Relaxed);
        let is_in_the_way = calls != self.seen;
        self.seen = calls;
        is_in_the_way && self.manners.can_sleep
    }

    /// Whether somebody has voted lately, and is likely to again.
    fn would_be_in_the_way(&mut self) -> bool {
        self.wary = match self.is_in_the_way() {
            true => WARY,
            false => self.wary.saturating_sub(1),
        };
        self.wary > 0
    }

    /// Rests if somebody votes, on a thread of its own.
    #[allow(
        clippy::disallowed_methods,
        reason = "no worker is blocked, and in a simulation nobody sleeps"
    )]
    pub(super) fn rest(&mut self) {
        if self.would_be_in_the_way() {
            std::thread::sleep(REST);
        }
    }

    /// Rests if somebody votes.
    pub(super) async fn rest_aside(&mut self) {
        match self.is_in_the_way() {
            true => tokio::time::sleep(REST_ASIDE).await,
            false => tokio::task::yield_now().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_rests_for_nobody() {
        let manners = Manners::new(true);
        let mut polite = manners.polite();
        assert!(!polite.is_in_the_way());
        manners.voted();
        assert!(polite.is_in_the_way());
        assert!(!polite.is_in_the_way(), "nobody has voted since");
    }

    #[test]
    fn whoever_was_met_is_wary_for_a_while() {
        let manners = Manners::new(true);
        let mut polite = manners.polite();
        assert!(!polite.would_be_in_the_way());
        manners.voted();
        for _ in 0..WARY {
            assert!(polite.would_be_in_the_way());
        }
        assert!(!polite.would_be_in_the_way());
    }

    #[test]
    fn nobody_sleeps_in_a_simulation() {
        let manners = Manners::new(false);
        let mut polite = manners.polite();
        manners.voted();
        assert!(!polite.is_in_the_way());
    }
}
