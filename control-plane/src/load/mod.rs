//! Load: what every shard and tenant uses, now and in the past.
//!
//! ```text
//!   source ──► keep ──► book (windows, in memory) ──► now
//!                 └───► files (NDJSON, coarser with age) ──► history, replay
//! ```
//! It is measured elsewhere and arrives through
//! [`MetricSource`](ballast_hotspot_detector::load::MetricSource). What is kept
//! on disk is bounded in bytes, and a process that was killed goes on with what
//! it had written.

pub mod files;
pub mod history;
pub mod keep;
pub mod now;
pub mod outlook;
mod point;
pub mod usage;
pub mod whereabouts;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_domain::{Error, ErrorCode, Result, ShardId, Timestamp};
use ballast_hotspot_detector::cost::PriceList;
use ballast_hotspot_detector::load::{Book, Flow, Refused, Sample, Spans, Window};
use ballast_hotspot_detector::resources::Resources;

pub use files::LoadFiles;
pub use point::{LatencyBody, Rates};

use crate::plane::ControlPlane;

/// What an operator may set about load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSettings {
    /// What a shard of weight 1 can do; a dimension of 0 has no limit.
    pub capacity: Resources,
    /// What use costs.
    pub prices: PriceList,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            capacity: Resources {
                votes: 20_000.0,
                queries: 20_000.0,
                bytes: 0.0,
                storage: 100.0 * (1_u64 << 30) as f64,
                concurrency: 0.0,
            },
            prices: PriceList::default(),
        }
    }
}

/// The load as it is known. One for all who ask.
pub struct Load {
    files: Arc<LoadFiles>,
    known: Mutex<Known>,
}

/// What is in memory.
struct Known {
    book: Book,
    /// The newest sample: it tells something before a window is full.
    newest: Option<Sample>,
    /// How long calls of slices took, step by step, over the short window.
    latencies: VecDeque<HashMap<SliceId, Sketch>>,
    /// What passed through each shard since the start.
    totals: BTreeMap<ShardId, Flow>,
}

impl Load {
    /// What was recorded is where it goes on from.
    #[must_use]
    pub fn open(files: LoadFiles, spans: Spans) -> Self {
        Self {
            files: Arc::new(files),
            known: Mutex::new(Known {
                book: Book::new(spans),
                newest: None,
                latencies: VecDeque::new(),
                totals: BTreeMap::new(),
            }),
        }
    }

    /// The record on disk.
    pub fn files(&self) -> &Arc<LoadFiles> {
        &self.files
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Numbers that are a step old, at the worst.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The windows over what was measured, as they are now.
    pub fn book(&self) -> Book {
        self.known().book.clone()
    }

    /// Looks at the windows without copying them.
    pub fn with_book<T>(&self, look: impl FnOnce(&Book) -> T) -> T {
        look(&self.known().book)
    }

    /// How long the steps and windows are.
    pub fn spans(&self) -> Spans {
        *self.known().book.spans()
    }

    /// Has windows of other lengths from now on, filled from the record.
    pub fn resize(&self, spans: Spans, replayed: Vec<Sample>) {
        let mut book = Book::new(spans);
        for sample in replayed {
            // What comes late by the record's own order is left out.
            let _ = book.take(sample);
        }
        self.known().book = book;
    }

    /// Takes a sample in.
    pub fn take(
        &self,
        sample: &Sample,
        latencies: HashMap<SliceId, Sketch>,
    ) -> std::result::Result<(), Refused> {
        let mut known = self.known();
        known.book.take(sample.clone())?;
        for shard in &sample.shards {
            let total = known.totals.entry(shard.shard.clone()).or_default();
            ballast_hotspot_detector::load::ring::Merge::merge(total, &shard.flow);
        }
        known.newest = Some(sample.clone());
        known.latencies.push_back(latencies);
        let steps = known.book.spans().short_steps as usize;
        while known.latencies.len() > steps.max(1) {
            known.latencies.pop_front();
        }
        Ok(())
    }

    /// Forgets a shard that left the fleet.
    pub fn forget(&self, shard: &ShardId) {
        let mut known = self.known();
        known.book.remove(shard);
        known.totals.remove(shard);
    }

    /// What passed through each shard since the start.
    pub fn totals(&self) -> BTreeMap<ShardId, Flow> {
        self.known().totals.clone()
    }

    /// What was recorded in an interval, oldest first; off the runtime's threads.
    pub async fn recorded(&self, from: Timestamp, to: Timestamp) -> Result<Vec<Sample>> {
        let files = Arc::clone(&self.files);
        let read = tokio::task::spawn_blocking(move || {
            let mut samples = Vec::new();
            files.read(from, to, |sample| samples.push(sample))?;
            Ok(samples)
        });
        read.await.map_err(|_| cut_short())?.map_err(unreadable)
    }
}

pub(crate) fn unreadable(source: std::io::Error) -> Error {
    let error = Error::new(ErrorCode::Unavailable, "recorded load cannot be read");
    error.because(source).retry_after(5)
}

pub(crate) fn cut_short() -> Error {
    Error::new(
        ErrorCode::Unavailable,
        "reading recorded load was cut short",
    )
    .retry_after(1)
}

/// The load, if it is measured here.
pub(crate) fn load(plane: &ControlPlane) -> Result<&Arc<Load>> {
    plane.load().ok_or_else(|| {
        let error = Error::new(ErrorCode::Unavailable, "load is not measured yet");
        error.retry_after(1)
    })
}

/// The start of a window that ends at a moment.
pub(crate) fn window_start(spans: &Spans, window: Window, end: Timestamp) -> Timestamp {
    let ms = i64::try_from(spans.length_ms(window)).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(end.unix_ms().saturating_sub(ms))
}
