//! What was found in the windows of moves, counted: per slice for whoever
//! watches a move, and in all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ballast_domain::Timestamp;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_vote_shard::At;

use crate::State;

/// What was found by reading both sides of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DualReadCounts {
    /// Reads for which both sides answered.
    pub compared: u64,
    /// Polls whose counts differ though nothing changes any more.
    pub differences: u64,
    /// Votes that the previous shard has and the owner lacks, as often as they
    /// were read. One is one too many: INV-5 is broken.
    pub stragglers: u64,
    /// Reads for which the previous shard could not be read.
    pub unread: u64,
    /// Comparisons of counts that never came to rest.
    pub unsettled: u64,
}

/// Something that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Compared,
    Difference,
    Straggler,
    Unread,
    Unsettled,
}

#[derive(Debug, Default)]
struct Counters([AtomicU64; 5]);

impl Counters {
    fn note(&self, what: What) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> DualReadCounts {
        let count = |what: What| self.0[what as usize].load(Ordering::Relaxed);
        DualReadCounts {
            compared: count(What::Compared),
            differences: count(What::Difference),
            stragglers: count(What::Straggler),
            unread: count(What::Unread),
            unsettled: count(What::Unsettled),
        }
    }
}

/// What is known of one window: of a slice, since the cutover to this epoch.
#[derive(Debug)]
pub(super) struct Window {
    epoch: Epoch,
    counters: Counters,
    /// Reads of counts so far.
    reads: AtomicU64,
    /// Whether counts are being compared.
    comparing: AtomicBool,
    /// Until when the previous shard is not asked, in milliseconds.
    alone_until_ms: AtomicI64,
}

/// A window that several look at.
pub(super) type Shared = Arc<Window>;

impl Window {
    fn new(epoch: Epoch) -> Shared {
        Arc::new(Self {
            epoch,
            counters: Counters::default(),
            reads: AtomicU64::new(0),
            comparing: AtomicBool::new(false),
            alone_until_ms: AtomicI64::new(i64::MIN),
        })
    }

    pub(super) fn is_left_alone(&self, now: Timestamp) -> bool {
        let until = self.alone_until_ms.load(Ordering::Relaxed);
        now.unix_ms() < until
    }

    pub(super) fn leave_alone(&self, now: Timestamp, duration: Duration) {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let until = now.unix_ms().saturating_add(ms);
        self.alone_until_ms.store(until, Ordering::Relaxed);
    }

    /// Whether this read of counts is one to be compared: every `one_in`th, one
    /// at a time, and none when that is 0. If it is, [`Window::sampled`] says
    /// when it is done.
    pub(super) fn is_sampled(&self, one_in: u64) -> bool {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        let is_meant = read.checked_rem(one_in) == Some(0);
        is_meant && !self.comparing.swap(true, Ordering::AcqRel)
    }

    pub(super) fn sampled(&self) {
        self.comparing.store(false, Ordering::Release);
    }
}

/// The windows of which something is known.
#[derive(Debug, Default)]
pub(crate) struct DualReads {
    windows: Mutex<HashMap<SliceId, Shared>>,
    total: Counters,
}

impl DualReads {
    /// The window of a slice at an epoch. That of an older one is over.
    pub(super) fn window(&self, at: &At) -> Shared {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let known = windows.get(&at.slice);
        match known {
            Some(known) if known.epoch == at.epoch => known.clone(),
            // By a stale route: whoever watches the newer one is not told.
            Some(known) if known.epoch > at.epoch => Window::new(at.epoch),
            _ => {
                let window = Window::new(at.epoch);
                windows.insert(at.slice.clone(), window.clone());
                window
            }
        }
    }

    pub(super) fn note(&self, window: &Window, what: What) {
        window.counters.note(what);
        self.total.note(what);
    }
}

impl State {
    /// What was found in a slice's window so far, if it has one: begins anew
    /// with every cutover.
    pub fn dual_reads(&self, slice: &SliceId) -> DualReadCounts {
        let windows = &self.parts.dual_reads.windows;
        let windows = windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.get(slice);
        window.map_or_else(DualReadCounts::default, |window| window.counters.read())
    }

    /// What was found in all windows since the start.
    pub fn dual_reads_in_all(&self) -> DualReadCounts {
        self.parts.dual_reads.total.read()
    }

    /// Forgets what was found in a slice's window, and how its calls were
    /// answered: it is over.
    pub fn forget_window(&self, slice: &SliceId) {
        self.parts.answering.forget(slice);
        self.parts.mirrors.forget(slice);
        let windows = &self.parts.dual_reads.windows;
        let mut windows = windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.remove(slice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64) -> At {
        At {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch(epoch),
        }
    }

    #[test]
    fn a_window_begins_anew_with_every_cutover() {
        let all = DualReads::default();
        all.note(&all.window(&at(3)), What::Straggler);
        all.note(&all.window(&at(3)), What::Unread);
        let counts = all.window(&at(3)).counters.read();
        assert_eq!((counts.stragglers, counts.unread), (1, 1));
        all.note(&all.window(&at(5)), What::Compared);
        all.note(&all.window(&at(3)), What::Straggler);
        let counts = all.window(&at(5)).counters.read();
        assert_eq!((counts.stragglers, counts.compared), (0, 1));
        assert_eq!(all.total.read().stragglers, 2);
    }

    #[test]
    fn one_in_so_many_is_compared_and_one_at_a_time() {
        let window = Window::new(Epoch(2));
        let sampled = |one_in| {
            let is = window.is_sampled(one_in);
            if is {
                window.sampled();
            }
            is
        };
        let picked = (0..200).filter(|_| sampled(100)).count();
        assert_eq!(picked, 2);
        assert!(!(0..200).any(|_| sampled(0)), "none at all");
        assert!(window.is_sampled(1));
        assert!(!window.is_sampled(1), "one is under way");
    }

    #[test]
    fn a_slow_side_is_left_alone_for_a_while() {
        let (window, now) = (Window::new(Epoch(2)), Timestamp::from_unix_ms(5_000));
        assert!(!window.is_left_alone(now));
        window.leave_alone(now, Duration::from_secs(1));
        assert!(window.is_left_alone(Timestamp::from_unix_ms(5_999)));
        assert!(!window.is_left_alone(Timestamp::from_unix_ms(6_000)));
    }
}
