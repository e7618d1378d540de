//! The recent measurements of every shard, in bounded memory, and the windows over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, Timestamp};

use super::ring::{Spans, Window};
use super::sample::{Interval, LoadSample};
use super::shard_history::{ShardHistory, per_second};
use super::view::{ItemWindow, KeyWindow, ShardWindow, SliceWindow};

/// Why a sample is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// It begins before the previous one ended.
    #[error("the sample begins at {start}, before the previous one ended ({newest})")]
    Late {
        /// Its start.
        start: Timestamp,
        /// The end of the previous sample.
        newest: Timestamp,
    },
    /// It has no length.
    #[error("the sample's interval is empty")]
    Empty,
}

/// The recent measurements of every shard.
#[derive(Debug, Clone, Default)]
pub struct LoadHistory {
    spans: Spans,
    newest: Option<Interval>,
    shards: BTreeMap<ShardId, ShardHistory>,
}

impl LoadHistory {
    /// An empty history with these windows.
    #[must_use]
    pub fn new(spans: Spans) -> Self {
        Self {
            spans,
            ..Self::default()
        }
    }

    /// The lengths of its windows.
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

    /// Adds a sample. Samples must be in order of time.
    pub fn add_sample(&mut self, sample: LoadSample) -> Result<(), SampleError> {
        let (interval, start, end) = (
            sample.interval,
            sample.interval.start,
            sample.interval.end(),
        );
        if sample.interval.ms == 0 {
            return Err(SampleError::Empty);
        }
        if let Some(newest) = self.newest().filter(|newest| start < *newest) {
            return Err(SampleError::Late { start, newest });
        }
        // The step is the one that the interval ends in.
        let step = self.spans.step_at(end.unix_ms() - 1);
        let first = self.spans.step_at(start.unix_ms());
        for shard in sample.shards {
            let name = shard.shard.clone();
            let history = self
                .shards
                .entry(name)
                .or_insert_with(|| ShardHistory::new(&shard, first));
            let ms = shard.measured_ms.unwrap_or(sample.interval.ms);
            history.take(&self.spans, step, ms, shard);
        }
        self.newest = Some(interval);
        Ok(())
    }

    /// Its shards, by name.
    pub fn shards(&self) -> impl Iterator<Item = (&ShardId, &ShardHistory)> {
        self.shards.iter()
    }

    /// One shard.
    #[must_use]
    pub fn shard(&self, shard: &ShardId) -> Option<&ShardHistory> {
        self.shards.get(shard)
    }

    /// Drops a shard that no longer exists.
    pub fn remove(&mut self, shard: &ShardId) {
        self.shards.remove(shard);
    }

    fn step(&self) -> u32 {
        let newest = self.newest().map_or(0, Timestamp::unix_ms);
        self.spans.step_at(newest - 1)
    }

    /// A shard over a window that ends with the newest sample; `None` if too little of it was
    /// measured.
    #[must_use]
    pub fn view(&self, shard: &ShardHistory, window: Window) -> Option<ShardWindow> {
        shard.view(&self.spans, window, self.step())
    }

    /// Whether a shard is in the newest sample.
    #[must_use]
    pub fn is_fresh(&self, shard: &ShardHistory) -> bool {
        shard.last_step == self.step()
    }

    /// Whether a shard has been measured for at least a long window.
    #[must_use]
    pub fn is_well_known(&self, shard: &ShardHistory) -> bool {
        let known = u64::from(self.step().saturating_sub(shard.first_step) + 1);
        known * self.spans.step_ms >= self.spans.length_ms(Window::Long)
    }

    /// The lowest fill of a shard in any measured part of the long window; `None` if nothing
    /// was measured. A swinging load has parts with a low fill.
    #[must_use]
    pub fn least_fill(&self, shard: &ShardHistory) -> Option<f64> {
        shard.least_fill(&self.spans, self.step())
    }

    /// The slices of a shard over the window of `measured`.
    pub fn slices<'a>(
        &'a self,
        shard: &'a ShardHistory,
        window: Window,
        measured: &ShardWindow,
    ) -> impl Iterator<Item = (&'a SliceId, SliceWindow)> {
        let (step, seconds) = (self.step(), measured.measured_ms as f64 / 1_000.0);
        let slices = shard.slices.iter();
        slices
            .map(move |(slice, history)| (slice, history.view(&self.spans, window, step, seconds)))
    }

    /// One slice of a shard over a window.
    #[must_use]
    pub fn slice(
        &self,
        shard: &ShardHistory,
        slice: &SliceId,
        window: Window,
        measured: &ShardWindow,
    ) -> Option<SliceWindow> {
        let seconds = measured.measured_ms as f64 / 1_000.0;
        let history = shard.slices.get(slice)?;
        Some(history.view(&self.spans, window, self.step(), seconds))
    }

    /// The busiest keys of a shard, busiest first.
    #[must_use]
    pub fn keys(
        &self,
        shard: &ShardHistory,
        window: Window,
        measured: &ShardWindow,
    ) -> Vec<KeyWindow> {
        let (step, seconds) = (self.step(), measured.measured_ms as f64 / 1_000.0);
        let mut keys: Vec<_> = shard
            .keys
            .iter()
            .map(|(key, (tenant, ring))| {
                let [calls, refused] = per_second(ring, &self.spans, window, step, seconds);
                KeyWindow {
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

    /// The items of a shard, most votes first.
    #[must_use]
    pub fn items(
        &self,
        shard: &ShardHistory,
        window: Window,
        measured: &ShardWindow,
    ) -> Vec<ItemWindow> {
        let (step, seconds) = (self.step(), measured.measured_ms as f64 / 1_000.0);
        let mut items: Vec<_> = shard
            .items
            .iter()
            .map(|(name, (lanes, ring))| {
                let [votes] = per_second(ring, &self.spans, window, step, seconds);
                ItemWindow {
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

    fn sample(at_s: i64, ms: u64, votes: Option<f64>) -> LoadSample {
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
        LoadSample {
            interval: Interval { start, ms },
            shards,
        }
    }

    fn view(history: &LoadHistory, window: Window) -> Option<ShardWindow> {
        history.view(history.shard(&"shard-1".parse().unwrap())?, window)
    }

    #[test]
    fn rates_are_relative_to_the_measured_time() {
        let mut history = LoadHistory::default();
        for step in 0..60 {
            // Every third interval is missing.
            let votes = (step % 3 != 0).then_some(500.0);
            history
                .add_sample(sample(step * 10, 10_000, votes))
                .unwrap();
        }
        let short = view(&history, Window::Short).unwrap();
        assert!((short.used.votes - 50.0).abs() < 1e-9);
        assert_eq!(
            short.fill(),
            Some((crate::resources::Dimension::Votes, 0.5))
        );
        let long = view(&history, Window::Long).unwrap();
        assert!((long.used.votes - 50.0).abs() < 1e-9);
        let shard = history.shard(&"shard-1".parse().unwrap()).unwrap();
        let (_, slice) = history.slices(shard, Window::Long, &long).next().unwrap();
        assert!((slice.used.votes - 25.0).abs() < 1e-3);
        assert!((slice.share(&long).unwrap() - 0.25).abs() < 1e-3);
    }

    #[test]
    fn too_few_measurements_are_unknown_and_not_zero() {
        let mut history = LoadHistory::default();
        history.add_sample(sample(0, 10_000, Some(500.0))).unwrap();
        assert_eq!(view(&history, Window::Short), None);
        for step in 1..6 {
            history
                .add_sample(sample(step * 10, 10_000, Some(500.0)))
                .unwrap();
        }
        assert!(view(&history, Window::Short).is_some());
        assert_eq!(view(&history, Window::Long), None);
        // The shard is not measured while others are.
        for step in 6..12 {
            history.add_sample(sample(step * 10, 10_000, None)).unwrap();
        }
        assert_eq!(view(&history, Window::Short), None);
    }

    #[test]
    fn late_and_empty_samples_are_rejected() {
        let mut history = LoadHistory::default();
        history.add_sample(sample(100, 10_000, Some(1.0))).unwrap();
        let late = history
            .add_sample(sample(105, 10_000, Some(1.0)))
            .unwrap_err();
        assert!(matches!(late, SampleError::Late { .. }));
        assert_eq!(
            history.add_sample(sample(110, 0, Some(1.0))),
            Err(SampleError::Empty)
        );
        assert!(history.add_sample(sample(110, 10_000, Some(1.0))).is_ok());
    }

    #[test]
    fn a_longer_interval_than_a_step_is_still_a_rate() {
        let mut history = LoadHistory::default();
        history
            .add_sample(sample(0, 600_000, Some(30_000.0)))
            .unwrap();
        for window in [Window::Short, Window::Long] {
            assert!((view(&history, window).unwrap().used.votes - 50.0).abs() < 1e-9);
        }
        let shard = history.shard(&"shard-1".parse().unwrap()).unwrap();
        assert!(
            history.is_well_known(shard),
            "it was measured for the whole interval"
        );
    }
}
