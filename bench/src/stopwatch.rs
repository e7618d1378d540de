//! Measuring: the one place of this crate that reads a clock.

use std::time::{Duration, Instant};

/// Runs from its start on.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    // A benchmark measures real time; nothing it does depends on it.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Many measurements of the same thing.
#[derive(Debug, Clone)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// Takes in those of another.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The value below which this share of the samples lies.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = (sorted.len() as f64 * share) as usize;
        sorted
            .get(place.min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

/// The memory this process has resident, in bytes; 0 where Linux's `/proc`
/// does not say.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4_096;
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = told.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}
