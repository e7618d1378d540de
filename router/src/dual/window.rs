//! What dual reads found in the windows of migrations: counted per slice, for the
//! migration's own checks, and in total, for metrics.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ballast_domain::Timestamp;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_vote_shard::FencedSlice;

use crate::RouterState;

/// Counts of what dual reads found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DualReadCounts {
    /// Reads that both shards answered.
    pub compared: u64,
    /// Polls whose settled counts differ.
    pub differences: u64,
    /// Reads of a vote that the previous shard has and the owner lacks. Any such
    /// read violates INV-5.
    pub stragglers: u64,
    /// Reads that the previous shard did not answer.
    pub unread: u64,
    /// Comparisons of counts that never settled.
    pub unsettled: u64,
}

/// An event that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DualReadEvent {
    Compared,
    Difference,
    Straggler,
    Unread,
    Unsettled,
}

#[derive(Debug, Default)]
struct DualReadCounters([AtomicU64; 5]);

impl DualReadCounters {
    fn record(&self, what: DualReadEvent) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> DualReadCounts {
        let count = |what: DualReadEvent| self.0[what as usize].load(Ordering::Relaxed);
        DualReadCounts {
            compared: count(DualReadEvent::Compared),
            differences: count(DualReadEvent::Difference),
            stragglers: count(DualReadEvent::Straggler),
            unread: count(DualReadEvent::Unread),
            unsettled: count(DualReadEvent::Unsettled),
        }
    }
}

/// The window of one slice since the cutover to this epoch.
#[derive(Debug)]
pub(super) struct DualReadWindow {
    epoch: Epoch,
    counters: DualReadCounters,
    /// Reads of counts so far.
    reads: AtomicU64,
    /// Whether counts are being compared.
    comparing: AtomicBool,
    /// Until when the previous shard is not read, in milliseconds since 1970.
    backoff_until_ms: AtomicI64,
}

/// A window that concurrent reads share.
pub(super) type SharedWindow = Arc<DualReadWindow>;

impl DualReadWindow {
    fn new(epoch: Epoch) -> SharedWindow {
        Arc::new(Self {
            epoch,
            counters: DualReadCounters::default(),
            reads: AtomicU64::new(0),
            comparing: AtomicBool::new(false),
            backoff_until_ms: AtomicI64::new(i64::MIN),
        })
    }

    pub(super) fn is_backing_off(&self, now: Timestamp) -> bool {
        let until = self.backoff_until_ms.load(Ordering::Relaxed);
        now.unix_ms() < until
    }

    pub(super) fn back_off(&self, now: Timestamp, duration: Duration) {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let until = now.unix_ms().saturating_add(ms);
        self.backoff_until_ms.store(until, Ordering::Relaxed);
    }

    /// Whether to compare the counts of this read: every `one_in`th, one at a time,
    /// and none when that is 0. If so, call [`DualReadWindow::end_sample`] when the
    /// comparison is done.
    pub(super) fn begin_sample(&self, one_in: u64) -> bool {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        let is_due = read.checked_rem(one_in) == Some(0);
        is_due && !self.comparing.swap(true, Ordering::AcqRel)
    }

    pub(super) fn end_sample(&self) {
        self.comparing.store(false, Ordering::Release);
    }
}

/// The windows of this router's slices.
#[derive(Debug, Default)]
pub(crate) struct DualReads {
    windows: Mutex<HashMap<SliceId, SharedWindow>>,
    total: DualReadCounters,
}

impl DualReads {
    /// The window of a slice at an epoch. It replaces that of an older epoch.
    pub(super) fn window(&self, at: &FencedSlice) -> SharedWindow {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let known = windows.get(&at.slice);
        match known {
            Some(known) if known.epoch == at.epoch => known.clone(),
            // The caller's route is stale: do not count in the newer window.
            Some(known) if known.epoch > at.epoch => DualReadWindow::new(at.epoch),
            _ => {
                let window = DualReadWindow::new(at.epoch);
                windows.insert(at.slice.clone(), window.clone());
                window
            }
        }
    }

    pub(super) fn record(&self, window: &DualReadWindow, what: DualReadEvent) {
        window.counters.record(what);
        self.total.record(what);
    }
}

impl RouterState {
    /// What was found in a slice's window. The counts restart at every cutover.
    pub fn dual_read_counts(&self, slice: &SliceId) -> DualReadCounts {
        let windows = &self.parts.dual_reads.windows;
        let windows = windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.get(slice);
        window.map_or_else(DualReadCounts::default, |window| window.counters.read())
    }

    /// What was found in all windows since the start.
    pub fn dual_read_totals(&self) -> DualReadCounts {
        self.parts.dual_reads.total.read()
    }

    /// Forgets the window of a slice and its call statistics, when the window has
    /// ended.
    pub fn forget_window(&self, slice: &SliceId) {
        self.parts.call_stats.forget(slice);
        self.parts.replica_syncs.forget(slice);
        let windows = &self.parts.dual_reads.windows;
        let mut windows = windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.remove(slice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64) -> FencedSlice {
        FencedSlice {
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
        all.record(&all.window(&at(3)), DualReadEvent::Straggler);
        all.record(&all.window(&at(3)), DualReadEvent::Unread);
        let counts = all.window(&at(3)).counters.read();
        assert_eq!((counts.stragglers, counts.unread), (1, 1));
        all.record(&all.window(&at(5)), DualReadEvent::Compared);
        all.record(&all.window(&at(3)), DualReadEvent::Straggler);
        let counts = all.window(&at(5)).counters.read();
        assert_eq!((counts.stragglers, counts.compared), (0, 1));
        assert_eq!(all.total.read().stragglers, 2);
    }

    #[test]
    fn reads_are_sampled_at_a_rate_and_one_at_a_time() {
        let window = DualReadWindow::new(Epoch(2));
        let is_sampled = |one_in| {
            let begun = window.begin_sample(one_in);
            if begun {
                window.end_sample();
            }
            begun
        };
        let samples = (0..200).filter(|_| is_sampled(100)).count();
        assert_eq!(samples, 2);
        assert!(!(0..200).any(|_| is_sampled(0)), "none at all");
        assert!(window.begin_sample(1));
        assert!(!window.begin_sample(1), "one is running");
    }

    #[test]
    fn a_slow_shard_is_not_read_for_a_while() {
        let (window, now) = (
            DualReadWindow::new(Epoch(2)),
            Timestamp::from_unix_ms(5_000),
        );
        assert!(!window.is_backing_off(now));
        window.back_off(now, Duration::from_secs(1));
        assert!(window.is_backing_off(Timestamp::from_unix_ms(5_999)));
        assert!(!window.is_backing_off(Timestamp::from_unix_ms(6_000)));
    }
}
