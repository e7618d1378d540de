//! The newest measurements of every shard, bounded in memory, and the windows
//! over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::tenant::SliceId;
use ballast_domain::{KeyId, RegionId, ShardId, TenantId, Timestamp};

use super::flow::Flow;
use super::latency::Sketch;
use super::ring::{Merge, Ring, Spans, Window};
use super::sample::{
    Interval, IoWait, ItemName, ItemSample, KeySample, Sample, ShardSample, SliceSample,
};
use super::view::{ItemView, KeyView, ShardView, SliceView};
use crate::resources::Resources;

/// Keys and items that are taken from one sample of a shard.
pub const TOP_MAX: usize = 64;
/// A window of which less was measured has no values.
const MEASURED_MIN: f64 = 0.5;

/// Why a sample is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It begins before the last one ended.
    #[error("the sample begins at {start}, before the last one ended ({newest})")]
    Late {
        /// Its beginning.
        start: Timestamp,
        /// The end of the last one.
        newest: Timestamp,
    },
    /// It has no length.
    #[error("the sample's interval has no length")]
    Empty,
}

/// The newest measurements of every shard.
#[derive(Debug, Clone, Default)]
pub struct Book {
    spans: Spans,
    newest: Option<Interval>,
    shards: BTreeMap<ShardId, ShardBook>,
}

/// One shard's measurements.
#[derive(Debug, Clone)]
pub struct ShardBook {
    region: RegionId,
    capacity: Resources,
    takes_slices: bool,
    first_step: u32,
    last_step: u32,
    storage: Option<(f64, u32)>,
    ring: Ring<Slot>,
    slices: BTreeMap<SliceId, SliceBook>,
    keys: BTreeMap<KeyId, (TenantId, Ring<Few<2>>)>,
    items: BTreeMap<ItemName, (Arc<[u64]>, Ring<Few<1>>)>,
}

#[derive(Debug, Clone, Default)]
struct SliceBook {
    storage: f64,
    ring: Ring<Few<6>>,
}

/// A few small numbers: there may be a million slices.
#[derive(Debug, Clone, Copy)]
struct Few<const N: usize>([f32; N]);

impl<const N: usize> Merge for Few<N> {
    fn merge(&mut self, later: &Self) {
        for (sum, more) in self.0.iter_mut().zip(later.0) {
            *sum += more;
        }
    }
}

/// One interval of a shard.
#[derive(Debug, Clone, Default)]
struct Slot {
    ms: u64,
    flow: Flow,
    concurrency_ms: Option<(f64, u64)>,
    io_ms: Option<(IoWait, u64)>,
    vote_latency: Sketch,
    query_latency: Sketch,
}

impl Slot {
    /// What was used in it, beside what is stored.
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

impl Merge for Slot {
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

impl Book {
    /// An empty book with these windows.
    #[must_use]
    pub fn new(spans: Spans) -> Self {
        Self {
            spans,
            ..Self::default()
        }
    }

    /// How long its windows are.
    #[must_use]
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The end of the newest sample.
    #[must_use]
    pub fn newest(&self) -> Option<Timestamp> {
        self.newest.map(|newest| newest.end())
    }

    /// The interval of the newest sample.
    #[must_use]
    pub fn newest_interval(&self) -> Option<Interval> {
        self.newest
    }

    /// Takes a sample in. Samples come in the order of time.
    pub fn take(&mut self, sample: Sample) -> Result<(), Refused> {
        let (interval, start, end) = (
            sample.interval,
            sample.interval.start,
            sample.interval.end(),
        );
        if sample.interval.ms == 0 {
            return Err(Refused::Empty);
        }
        if let Some(newest) = self.newest().filter(|newest| start < *newest) {
            return Err(Refused::Late { start, newest });
        }
        // The step is the one that the interval ends in.
        let step = self.spans.step_of(end.unix_ms() - 1);
        let first = self.spans.step_of(start.unix_ms());
        for shard in sample.shards {
            let name = shard.shard.clone();
            let book = self
                .shards
                .entry(name)
                .or_insert_with(|| ShardBook::new(&shard, first));
            let ms = shard.measured_ms.unwrap_or(sample.interval.ms);
            book.take(&self.spans, step, ms, shard);
        }
        self.newest = Some(interval);
        Ok(())
    }

    /// Its shards, by name.
    pub fn shards(&self) -> impl Iterator<Item = (&ShardId, &ShardBook)> {
        self.shards.iter()
    }

    /// One shard.
    #[must_use]
    pub fn shard(&self, shard: &ShardId) -> Option<&ShardBook> {
        self.shards.get(shard)
    }

    /// Forgets a shard that is no more.
    pub fn remove(&mut self, shard: &ShardId) {
        self.shards.remove(shard);
    }

    fn step(&self) -> u32 {
        let newest = self.newest().map_or(0, Timestamp::unix_ms);
        self.spans.step_of(newest - 1)
    }

    /// A shard over a window that ends with the newest sample. Nothing where
    /// too little of it was measured.
    #[must_use]
    pub fn view(&self, shard: &ShardBook, window: Window) -> Option<ShardView> {
        shard.view(&self.spans, window, self.step())
    }

    /// Whether a shard is in the newest sample.
    #[must_use]
    pub fn is_fresh(&self, shard: &ShardBook) -> bool {
        shard.last_step == self.step()
    }

    /// Whether a shard has been known for the whole of a long window.
    #[must_use]
    pub fn is_well_known(&self, shard: &ShardBook) -> bool {
        let known = u64::from(self.step().saturating_sub(shard.first_step) + 1);
        known * self.spans.step_ms >= self.spans.length_ms(Window::Long)
    }

    /// The least that a shard was full in any part of the long window that was
    /// measured; nothing if none was. What swings has parts in which it is not.
    #[must_use]
    pub fn least_fill(&self, shard: &ShardBook) -> Option<f64> {
        let parts = shard.ring.over(&self.spans, Window::Long, self.step());
        let fills = parts.map(|slot| slot.used(shard.storage).fill(&shard.capacity).1);
        fills.reduce(f64::min)
    }

    /// The slices of a shard over a window of which `measured` is the view.
    pub fn slices<'a>(
        &'a self,
        shard: &'a ShardBook,
        window: Window,
        measured: &ShardView,
    ) -> impl Iterator<Item = (&'a SliceId, SliceView)> {
        let (step, seconds) = (self.step(), measured.measured_ms as f64 / 1_000.0);
        let slices = shard.slices.iter();
        slices.map(move |(slice, book)| (slice, book.view(&self.spans, window, step, seconds)))
    }

    /// One slice of a shard over a window.
    #[must_use]
    pub fn slice(
        &self,
        shard: &ShardBook,
        slice: &SliceId,
        window: Window,
        measured: &ShardView,
    ) -> Option<SliceView> {
        let seconds = measured.measured_ms as f64 / 1_000.0;
        let book = shard.slices.get(slice)?;
        Some(book.view(&self.spans, window, self.step(), seconds))
    }

    /// The busiest keys of a shard, busiest first.
    #[must_use]
    pub fn keys(&self, shard: &ShardBook, window: Window, measured: &ShardView) -> Vec<KeyView> {
        let (step, seconds) = (self.step(), measured.measured_ms as f64 / 1_000.0);
        let mut keys: Vec<_> = shard
            .keys
            .iter()
            .map(|(key, (tenant, ring))| {
                let [calls, refused] = per_second(ring, &self.spans, window, step, seconds);
                KeyView {
                    key: key.clone(),
                    tenant: tenant.clone(),
                    calls,
                    refused,
                }
            })
            .collect();
        keys.sort_by(|a, b| b.calls.total_cmp(&a.calls));
        keys
    }

    /// The items of a shard, the most voted on first.
    #[must_use]
    pub fn items(&self, shard: &ShardBook, window: Window, measured: &ShardView) -> Vec<ItemView> {
        let (step, seconds) = (self.step(), measured.measured_ms as f64 / 1_000.0);
        let mut items: Vec<_> = shard
            .items
            .iter()
            .map(|(name, (lanes, ring))| {
                let [votes] = per_second(ring, &self.spans, window, step, seconds);
                ItemView {
                    name: name.clone(),
                    votes,
                    lanes: Arc::clone(lanes),
                }
            })
            .collect();
        items.sort_by(|a, b| b.votes.total_cmp(&a.votes));
        items
    }
}

fn per_second<const N: usize>(
    ring: &Ring<Few<N>>,
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

impl SliceBook {
    fn view(&self, spans: &Spans, window: Window, step: u32, seconds: f64) -> SliceView {
        let [votes, queries, bytes, errors, throttles, calls] =
            per_second(&self.ring, spans, window, step, seconds);
        let used = Resources {
            votes,
            queries,
            bytes,
            storage: self.storage,
            concurrency: calls,
        };
        SliceView {
            used,
            errors,
            throttles,
        }
    }
}

impl ShardBook {
    fn new(shard: &ShardSample, first_step: u32) -> Self {
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

    /// Where it stands.
    #[must_use]
    pub fn region(&self) -> &RegionId {
        &self.region
    }

    /// What it can do.
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

    fn take(&mut self, spans: &Spans, step: u32, ms: u64, sample: ShardSample) {
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
        let slot = Slot {
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
        let book = self.slices.entry(sample.slice).or_default();
        if let Some(storage) = sample.storage {
            book.storage = storage;
        }
        // An idle slice takes no room in the ring.
        let flow = sample.flow;
        if flow.is_idle() && sample.concurrency <= 0.0 {
            return;
        }
        // Kept as votes and so on times one, calls at a time times seconds,
        // so that all are divided by the seconds measured.
        let calls = sample.concurrency * ms as f64 / 1_000.0;
        let few = [
            flow.votes,
            flow.queries,
            flow.bytes,
            flow.errors,
            flow.throttles,
            calls,
        ];
        book.ring
            .push(spans, step, Few(few.map(|number| number as f32)));
    }

    fn take_key(&mut self, spans: &Spans, step: u32, sample: KeySample) {
        let entry = self.keys.entry(sample.key);
        let (_, ring) = entry.or_insert_with(|| (sample.tenant, Ring::default()));
        ring.push(
            spans,
            step,
            Few([sample.calls as f32, sample.refused as f32]),
        );
    }

    fn take_item(&mut self, spans: &Spans, step: u32, sample: ItemSample) {
        let (lanes, ring) = self.items.entry(sample.name).or_default();
        *lanes = sample.lanes.into();
        ring.push(spans, step, Few([sample.votes as f32]));
    }

    /// Drops what has left every window.
    fn forget(&mut self, spans: &Spans, step: u32) {
        if !step.is_multiple_of(spans.short_steps.max(1)) {
            return;
        }
        self.slices.retain(|_, book| {
            book.ring.forget(spans, step);
            book.storage > 0.0 || !book.ring.is_empty()
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

    fn view(&self, spans: &Spans, window: Window, step: u32) -> Option<ShardView> {
        let mut sum = Slot::default();
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
            .filter(|(_, told)| step.saturating_sub(*told) <= longest);
        let io_wait = sum.io_ms.map(|(wait, ms)| IoWait {
            queue: wait.queue / ms as f64,
            fsync: wait.fsync / ms as f64,
        });
        Some(ShardView {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: i64, ms: u64, votes: Option<f64>) -> Sample {
        let mut shard = ShardSample::new(
            "shard-1".parse().unwrap(),
            "eu".parse().unwrap(),
            Resources {
                votes: 100.0,
                storage: 1_000.0,
                ..Resources::default()
            },
        );
        shard.flow.votes = votes.unwrap_or_default();
        shard.storage = Some(500.0);
        let slice = SliceId {
            tenant_id: "acme".parse().unwrap(),
            slice: 0,
        };
        shard.slices.push(SliceSample {
            slice,
            flow: Flow {
                votes: votes.unwrap_or_default() / 2.0,
                ..Flow::default()
            },
            storage: Some(100.0),
            concurrency: 0.0,
        });
        let start = Timestamp::from_unix_ms(at_s * 1_000);
        let shards = votes.map(|_| shard).into_iter().collect();
        Sample {
            interval: Interval { start, ms },
            shards,
        }
    }

    fn view(book: &Book, window: Window) -> Option<ShardView> {
        book.view(book.shard(&"shard-1".parse().unwrap())?, window)
    }

    #[test]
    fn rates_are_over_the_time_that_was_measured() {
        let mut book = Book::default();
        for step in 0..60 {
            // Every third interval is missing.
            let votes = (step % 3 != 0).then_some(500.0);
            book.take(sample(step * 10, 10_000, votes)).unwrap();
        }
        let short = view(&book, Window::Short).unwrap();
        assert!((short.used.votes - 50.0).abs() < 1e-9);
        assert_eq!(
            short.fill(),
            Some((crate::resources::Dimension::Votes, 0.5))
        );
        let long = view(&book, Window::Long).unwrap();
        assert!((long.used.votes - 50.0).abs() < 1e-9);
        let shard = book.shard(&"shard-1".parse().unwrap()).unwrap();
        let (_, slice) = book.slices(shard, Window::Long, &long).next().unwrap();
        assert!((slice.used.votes - 25.0).abs() < 1e-3);
        assert!((slice.share(&long).unwrap() - 0.25).abs() < 1e-3);
    }

    #[test]
    fn too_little_measured_is_unknown_and_not_nought() {
        let mut book = Book::default();
        book.take(sample(0, 10_000, Some(500.0))).unwrap();
        assert_eq!(view(&book, Window::Short), None);
        for step in 1..6 {
            book.take(sample(step * 10, 10_000, Some(500.0))).unwrap();
        }
        assert!(view(&book, Window::Short).is_some());
        assert_eq!(view(&book, Window::Long), None);
        // The shard falls silent while others are measured.
        for step in 6..12 {
            book.take(sample(step * 10, 10_000, None)).unwrap();
        }
        assert_eq!(view(&book, Window::Short), None);
    }

    #[test]
    fn time_only_goes_forward() {
        let mut book = Book::default();
        book.take(sample(100, 10_000, Some(1.0))).unwrap();
        let late = book.take(sample(105, 10_000, Some(1.0))).unwrap_err();
        assert!(matches!(late, Refused::Late { .. }));
        assert_eq!(book.take(sample(110, 0, Some(1.0))), Err(Refused::Empty));
        assert!(book.take(sample(110, 10_000, Some(1.0))).is_ok());
    }

    #[test]
    fn a_longer_interval_than_a_step_is_still_a_rate() {
        let mut book = Book::default();
        book.take(sample(0, 600_000, Some(30_000.0))).unwrap();
        for window in [Window::Short, Window::Long] {
            assert!((view(&book, window).unwrap().used.votes - 50.0).abs() < 1e-9);
        }
        let shard = book.shard(&"shard-1".parse().unwrap()).unwrap();
        assert!(book.is_well_known(shard), "it was known all that time");
    }
}
