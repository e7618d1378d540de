//! The newest measurements of every shard, bounded in memory, and the windows
//! over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, Timestamp};

use super::ring::{Spans, Window};
use super::sample::{Interval, Sample};
use super::shard_book::{ShardBook, per_second};
use super::view::{ItemView, KeyView, ShardView, SliceView};

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
        shard.least_fill(&self.spans, self.step())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Flow, ShardSample, SliceSample};
    use crate::resources::Resources;

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
