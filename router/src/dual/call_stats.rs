//! Call statistics of a slice that moves, before and since its cutover: latency and
//! failures. They measure the shard alone, without the time that requests are held.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ballast_domain::call_stats::{CallStats, CutoverCallStats};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_vote_shard::{FencedSlice, ShardError, ShardResult};

use super::window::DualReadEvent;
use crate::RouterState;
use crate::deliver::ShardTarget;

#[derive(Debug, Default)]
struct CallCounters {
    took: [AtomicU64; CallStats::BANDS],
    failed: AtomicU64,
}

impl CallCounters {
    fn read(&self) -> CallStats {
        let mut stats = CallStats::default();
        for (total, counter) in stats.took.iter_mut().zip(&self.took) {
            *total = counter.load(Ordering::Relaxed);
        }
        stats.failed = self.failed.load(Ordering::Relaxed);
        stats
    }
}

#[derive(Debug)]
struct SliceCallStats {
    epoch: Epoch,
    before: CallStats,
    now: Arc<CallCounters>,
}

/// The call statistics of slices that move.
#[derive(Debug, Default)]
pub(crate) struct CallStatsBySlice {
    slices: Mutex<HashMap<SliceId, SliceCallStats>>,
}

impl CallStatsBySlice {
    /// The counters of a slice at an epoch; none for an epoch that is over.
    fn counters_for(&self, at: &FencedSlice) -> Option<Arc<CallCounters>> {
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match slices.get(&at.slice) {
            Some(known) if known.epoch == at.epoch => return Some(known.now.clone()),
            // The caller's route is stale.
            Some(known) if known.epoch > at.epoch => return None,
            Some(known) => known.now.read(),
            None => CallStats::default(),
        };
        let now = Arc::new(CallCounters::default());
        let stats = SliceCallStats {
            epoch: at.epoch,
            before,
            now: now.clone(),
        };
        slices.insert(at.slice.clone(), stats);
        Some(now)
    }

    pub(super) fn forget(&self, slice: &SliceId) {
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        slices.remove(slice);
    }

    /// Counts a call that took `took_ms`.
    fn record<T>(&self, at: &FencedSlice, took_ms: u64, answer: &ShardResult<T>) {
        let Some(counting) = self.counters_for(at) else {
            return;
        };
        let count = match answer {
            Err(ShardError::Unavailable { .. } | ShardError::Damaged { .. }) => &counting.failed,
            // The cutover causes these, not the shard.
            Err(ShardError::Fenced(_)) => return,
            Ok(_) | Err(_) => &counting.took[CallStats::band(took_ms)],
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl RouterState {
    /// Makes a call, and counts its latency and outcome if its slice moves.
    pub(crate) async fn timed_call<T>(
        &self,
        target: &ShardTarget,
        call: impl Future<Output = ShardResult<T>>,
    ) -> ShardResult<T> {
        if target.previous_shard.is_none() && target.next_shard.is_none() {
            return call.await;
        }
        let clock = &self.parts.clock;
        let began = clock.now().unix_ms();
        let answer = call.await;
        let took = clock.now().unix_ms().saturating_sub(began).max(0);
        let call_stats = &self.parts.call_stats;
        call_stats.record(&target.fenced, took.unsigned_abs(), &answer);
        if let Err(ShardError::Damaged { .. }) = &answer
            && let Some((_, window)) = self.previous_shard(target)
        {
            // The migration compares both sides and finds the damaged rows.
            self.record(&window, DualReadEvent::Difference);
        }
        answer
    }

    /// The call statistics of a slice before and since its cutover.
    pub fn cutover_call_stats(&self, slice: &SliceId) -> CutoverCallStats {
        let slices = &self.parts.call_stats.slices;
        let slices = slices.lock().unwrap_or_else(PoisonError::into_inner);
        slices
            .get(slice)
            .map_or_else(CutoverCallStats::default, |known| CutoverCallStats {
                before: known.before,
                after: known.now.read(),
            })
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
    fn calls_before_and_since_a_cutover_are_counted_apart() {
        let call_stats = CallStatsBySlice::default();
        let away = || -> ShardResult<()> { Err(ShardError::unavailable("away")) };
        call_stats.record(&at(1), 3, &Ok(()));
        call_stats.record(&at(1), 0, &away());
        call_stats.record(&at(3), 900, &Ok(()));
        // A stale route.
        call_stats.record(&at(1), 1, &Ok(()));
        let slices = call_stats.slices.lock().unwrap();
        let known = &slices[&at(1).slice];
        assert_eq!((known.before.calls(), known.before.failed), (2, 1));
        let after = known.now.read();
        assert_eq!((after.calls(), after.p99_ms()), (1, Some(1_024)));
    }
}
