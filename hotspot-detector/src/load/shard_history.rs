//! The recent measurements of one shard: its intervals, slices, keys and items.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::tenant::SliceId;
use ballast_domain::{KeyId, RegionId, TenantId};

use super::flow::Flow;
use super::latency::Sketch;
use super::ring::{Merge, Ring, Spans, Window};
use super::sample::{IoWait, ItemName, ItemSample, KeySample, ShardSample, SliceSample};
use super::view::{ShardWindow, SliceWindow};
use crate::resources::Resources;

/// The most keys and items taken from one sample of a shard.
pub const TOP_MAX: usize = 64;
/// A window with a smaller measured share has no values.
const MEASURED_MIN: f64 = 0.5;

/// The recent measurements of one shard.
#[derive(Debug, Clone)]
pub struct ShardHistory {
    region: RegionId,
    capacity: Resources,
    takes_slices: bool,
    pub(super) first_step: u32,
    pub(super) last_step: u32,
    storage: Option<(f64, u32)>,
    ring: Ring<IntervalTotals>,
    pub(super) slices: BTreeMap<SliceId, SliceHistory>,
    pub(super) keys: BTreeMap<KeyId, (TenantId, Ring<SmallCounts<2>>)>,
    pub(super) items: BTreeMap<ItemName, (Arc<[u64]>, Ring<SmallCounts<1>>)>,
}

/// The recent measurements of one slice.
#[derive(Debug, Clone, Default)]
pub(super) struct SliceHistory {
    storage: f64,
    ring: Ring<SmallCounts<6>>,
}

/// A compact array of counts, because there may be a million slices.
#[derive(Debug, Clone, Copy)]
pub(super) struct SmallCounts<const N: usize>([f32; N]);

impl<const N: usize> Merge for SmallCounts<N> {
    fn merge(&mut self, later: &Self) {
        for (sum, more) in self.0.iter_mut().zip(later.0) {
            *sum += more;
        }
    }
}

/// The totals of one interval of a shard.
#[derive(Debug, Clone, Default)]
struct IntervalTotals {
    ms: u64,
    flow: Flow,
    concurrency_ms: Option<(f64, u64)>,
    io_ms: Option<(IoWait, u64)>,
    vote_latency: Sketch,
    query_latency: Sketch,
}

impl IntervalTotals {
    /// The load of the interval.
    fn used(&self, storage: Option<(f64, u32)>) -> Resources {
        let flow = self.flow.times(1_000.0 / self.ms.max(1) as f64);
        let mean = |(total, ms): (f64, u64)| total / ms as f64;
        Resources {
            votes: flow.votes,
            queries: flow.queries,
            bytes: flow.bytes,
            storage: storage.map_or(0.0, |(bytes, _)| bytes),
            concurrency: self.concurrency_ms.map_or(0.0, mean),
        }
    }
}

impl Merge for IntervalTotals {
    fn merge(&mut self, later: &Self) {
        self.ms += later.ms;
        self.flow.merge(&later.flow);
        if let Some((calls, ms)) = later.concurrency_ms {
            let sum = self.concurrency_ms.get_or_insert_default();
            *sum = (sum.0 + calls, sum.1 + ms);
        }
        if let Some((wait, ms)) = later.io_ms {
            let sum = self.io_ms.get_or_insert_default();
            sum.0.queue += wait.queue;
            sum.0.fsync += wait.fsync;
            sum.1 += ms;
        }
        self.vote_latency.merge(&later.vote_latency);
        self.query_latency.merge(&later.query_latency);
    }
}

/// Counts over a window per measured second.
pub(super) fn per_second<const N: usize>(
    ring: &Ring<SmallCounts<N>>,
    spans: &Spans,
    window: Window,
    step: u32,
    seconds: f64,
) -> [f64; N] {
    let mut sums = [0.0; N];
    for few in ring.over(spans, window, step) {
        for (sum, more) in sums.iter_mut().zip(few.0) {
            *sum += f64::from(more);
        }
    }
    sums.map(|sum| if seconds > 0.0 { sum / seconds } else { 0.0 })
}

impl SliceHistory {
    /// The slice over a window with so many measured seconds.
    pub(super) fn view(
        &self,
        spans: &Spans,
        window: Window,
        step: u32,
        seconds: f64,
    ) -> SliceWindow {
        let [votes, queries, bytes, errors, throttles, calls] =
            per_second(&self.ring, spans, window, step, seconds);
        let used = Resources {
            votes,
            queries,
            bytes,
            storage: self.storage,
            concurrency: calls,
        };
        SliceWindow {
            used,
            errors,
            throttles,
        }
    }
}

impl ShardHistory {
    pub(super) fn new(shard: &ShardSample, first_step: u32) -> Self {
        Self {
            first_step,
            last_step: first_step,
            region: shard.region.clone(),
            capacity: shard.capacity,
            takes_slices: shard.takes_slices,
            storage: None,
            ring: Ring::default(),
            slices: BTreeMap::new(),
            keys: BTreeMap::new(),
            items: BTreeMap::new(),
        }
    }

    /// Its region.
    #[must_use]
    pub fn region(&self) -> &RegionId {
        &self.region
    }

    /// Its capacity.
    #[must_use]
    pub fn capacity(&self) -> &Resources {
        &self.capacity
    }

    /// Whether slices may be moved to it.
    #[must_use]
    pub fn takes_slices(&self) -> bool {
        self.takes_slices
    }

    /// How many slices it holds.
    #[must_use]
    pub fn slice_count(&self) -> usize {
        self.slices.len()
    }

    pub(super) fn take(&mut self, spans: &Spans, step: u32, ms: u64, sample: ShardSample) {
        self.last_step = step;
        self.region = sample.region;
        self.capacity = sample.capacity;
        self.takes_slices = sample.takes_slices;
        if let Some(storage) = sample.storage {
            self.storage = Some((storage, step));
        }
        for slice in sample.slices {
            self.take_slice(spans, step, ms, slice);
        }
        for key in sample.keys.into_iter().take(TOP_MAX) {
            self.take_key(spans, step, key);
        }
        for item in sample.items.into_iter().take(TOP_MAX) {
            self.take_item(spans, step, item);
        }
        let ms_f = ms as f64;
        let io = |wait: IoWait| IoWait {
            queue: wait.queue * ms_f,
            fsync: wait.fsync * ms_f,
        };
        let slot = IntervalTotals {
            ms,
            flow: sample.flow,
            concurrency_ms: sample.concurrency.map(|calls| (calls * ms_f, ms)),
            io_ms: sample.io_wait.map(|wait| (io(wait), ms)),
            vote_latency: sample.vote_latency,
            query_latency: sample.query_latency,
        };
        self.ring.push(spans, step, slot);
        self.forget(spans, step);
    }

    fn take_slice(&mut self, spans: &Spans, step: u32, ms: u64, sample: SliceSample) {
        let history = self.slices.entry(sample.slice).or_default();
        if let Some(storage) = sample.storage {
            history.storage = storage;
        }
        // Idle slices take no memory in the ring.
        let flow = sample.flow;
        if flow.is_idle() && sample.concurrency <= 0.0 {
            return;
        }
        // Concurrency is stored as calls times seconds, so that everything is divided by the
        // measured seconds.
        let calls = sample.concurrency * ms as f64 / 1_000.0;
        let few = [
            flow.votes,
            flow.queries,
            flow.bytes,
            flow.errors,
            flow.throttles,
            calls,
        ];
        history
            .ring
            .push(spans, step, SmallCounts(few.map(|number| number as f32)));
    }

    fn take_key(&mut self, spans: &Spans, step: u32, sample: KeySample) {
        let entry = self.keys.entry(sample.key);
        let (_, ring) = entry.or_insert_with(|| (sample.tenant, Ring::default()));
        ring.push(
            spans,
            step,
            SmallCounts([sample.calls as f32, sample.refused as f32]),
        );
    }

    fn take_item(&mut self, spans: &Spans, step: u32, sample: ItemSample) {
        let (lanes, ring) = self.items.entry(sample.name).or_default();
        *lanes = sample.lanes.into();
        ring.push(spans, step, SmallCounts([sample.votes as f32]));
    }

    /// Drops measurements that no window needs.
    fn forget(&mut self, spans: &Spans, step: u32) {
        if !step.is_multiple_of(spans.short_steps.max(1)) {
            return;
        }
        self.slices.retain(|_, history| {
            history.ring.forget(spans, step);
            history.storage > 0.0 || !history.ring.is_empty()
        });
        self.keys.retain(|_, (_, ring)| {
            ring.forget(spans, step);
            !ring.is_empty()
        });
        self.items.retain(|_, (_, ring)| {
            ring.forget(spans, step);
            !ring.is_empty()
        });
    }

    /// The lowest fill in any part of the long window.
    pub(super) fn least_fill(&self, spans: &Spans, step: u32) -> Option<f64> {
        let parts = self.ring.over(spans, Window::Long, step);
        let fills = parts.map(|slot| slot.used(self.storage).fill(&self.capacity).1);
        fills.reduce(f64::min)
    }

    pub(super) fn view(&self, spans: &Spans, window: Window, step: u32) -> Option<ShardWindow> {
        let mut sum = IntervalTotals::default();
        for slot in self.ring.over(spans, window, step) {
            sum.merge(slot);
        }
        if (sum.ms as f64) < spans.length_ms(window) as f64 * MEASURED_MIN {
            return None;
        }
        let flow = sum.flow.times(1_000.0 / sum.ms as f64);
        let longest = spans.short_steps.saturating_mul(spans.long_shorts);
        let storage = self
            .storage
            .filter(|(_, measured_at)| step.saturating_sub(*measured_at) <= longest);
        let io_wait = sum.io_ms.map(|(wait, ms)| IoWait {
            queue: wait.queue / ms as f64,
            fsync: wait.fsync / ms as f64,
        });
        Some(ShardWindow {
            region: self.region.clone(),
            capacity: self.capacity,
            measured_ms: sum.ms,
            used: sum.used(storage),
            flow,
            knows_storage: storage.is_some(),
            knows_concurrency: sum.concurrency_ms.is_some(),
            io_wait,
            vote_latency: sum.vote_latency,
            query_latency: sum.query_latency,
        })
    }
}
