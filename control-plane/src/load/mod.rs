//! Load: what every shard and tenant uses, now and in the past.
//!
//! ```text
//!   source ──► recorder ──► book (windows, in memory) ──► current
//!                     └───► files (NDJSON, coarser with age) ──► history, replay
//! ```
//! Measurements arrive through
//! [`MetricSource`](ballast_hotspot_detector::load::MetricSource). The files have a
//! size limit, and a restarted process continues from them.

pub mod current;
pub mod files;
pub mod history;
pub mod outlook;
mod rates;
pub mod recorder;
pub mod slice_locations;
pub mod usage;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_domain::{Error, ErrorCode, Result, ShardId, Timestamp};
use ballast_hotspot_detector::cost::PriceList;
use ballast_hotspot_detector::load::{Flow, LoadHistory, LoadSample, SampleError, Spans, Window};
use ballast_hotspot_detector::resources::Resources;

pub use files::LoadFiles;
pub use rates::{LatencyBody, Rates};

use crate::plane::ControlPlane;

/// Settings of load measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSettings {
    /// Capacity of a shard of weight 1; a dimension of 0 has no limit.
    pub capacity: Resources,
    /// The price list.
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

/// Measured load: windows in memory and files on disk.
pub struct LoadMonitor {
    files: Arc<LoadFiles>,
    state: Mutex<LoadState>,
}

/// The in-memory part.
struct LoadState {
    book: LoadHistory,
    /// The newest sample: shown before a window is full.
    newest: Option<LoadSample>,
    /// Latencies by slice, step by step, over the short window.
    latencies: VecDeque<HashMap<SliceId, Sketch>>,
    /// Totals per shard since the process started.
    totals: BTreeMap<ShardId, Flow>,
}

impl LoadMonitor {
    /// Creates empty windows over existing files.
    #[must_use]
    pub fn open(files: LoadFiles, spans: Spans) -> Self {
        Self {
            files: Arc::new(files),
            state: Mutex::new(LoadState {
                book: LoadHistory::new(spans),
                newest: None,
                latencies: VecDeque::new(),
                totals: BTreeMap::new(),
            }),
        }
    }

    /// The files on disk.
    pub fn files(&self) -> &Arc<LoadFiles> {
        &self.files
    }

    fn lock(&self) -> MutexGuard<'_, LoadState> {
        // In the worst case a poisoned state is one step old.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the windows.
    pub fn book(&self) -> LoadHistory {
        self.lock().book.clone()
    }

    /// Reads the windows without copying them.
    pub fn with_book<T>(&self, look: impl FnOnce(&LoadHistory) -> T) -> T {
        look(&self.lock().book)
    }

    /// Lengths of steps and windows.
    pub fn spans(&self) -> Spans {
        *self.lock().book.spans()
    }

    /// Replaces the windows, filled from recorded samples.
    pub fn resize(&self, spans: Spans, replayed: Vec<LoadSample>) {
        let mut book = LoadHistory::new(spans);
        for sample in replayed {
            // Skip samples that are out of order.
            let _ = book.add_sample(sample);
        }
        self.lock().book = book;
    }

    /// Adds a sample.
    pub fn add_sample(
        &self,
        sample: &LoadSample,
        latencies: HashMap<SliceId, Sketch>,
    ) -> std::result::Result<(), SampleError> {
        let mut known = self.lock();
        known.book.add_sample(sample.clone())?;
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
    pub fn forget_shard(&self, shard: &ShardId) {
        let mut known = self.lock();
        known.book.remove(shard);
        known.totals.remove(shard);
    }

    /// Totals per shard since the process started.
    pub fn totals(&self) -> BTreeMap<ShardId, Flow> {
        self.lock().totals.clone()
    }

    /// Reads recorded samples, oldest first, on a blocking thread.
    pub async fn read_samples(&self, from: Timestamp, to: Timestamp) -> Result<Vec<LoadSample>> {
        let files = Arc::clone(&self.files);
        let read = tokio::task::spawn_blocking(move || {
            let mut samples = Vec::new();
            files.read(from, to, |sample| samples.push(sample))?;
            Ok(samples)
        });
        read.await
            .map_err(|_| read_interrupted())?
            .map_err(read_failed)
    }
}

pub(crate) fn read_failed(source: std::io::Error) -> Error {
    let error = Error::new(ErrorCode::Unavailable, "recorded load cannot be read");
    error.with_source(source).retry_after(5)
}

pub(crate) fn read_interrupted() -> Error {
    Error::new(
        ErrorCode::Unavailable,
        "reading recorded load was interrupted",
    )
    .retry_after(1)
}

/// The load monitor, if load is measured here.
pub(crate) fn load_monitor(plane: &ControlPlane) -> Result<&Arc<LoadMonitor>> {
    plane.load_monitor().ok_or_else(|| {
        let error = Error::new(ErrorCode::Unavailable, "load is not measured yet");
        error.retry_after(1)
    })
}

/// The start of a window that ends at a moment.
pub(crate) fn window_start(spans: &Spans, window: Window, end: Timestamp) -> Timestamp {
    let ms = i64::try_from(spans.length_ms(window)).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(end.unix_ms().saturating_sub(ms))
}
