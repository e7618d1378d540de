//! Where measurements come from: in process, from Prometheus, from a record.

use ballast_domain::Timestamp;

use super::sample::Sample;

/// Measures. A shard that could not be reached is left out of the sample: it
/// is not told as idle. Two calls never count the same thing twice.
pub trait MetricSource: Send {
    /// What was measured since the last sample, up to `now`. Nothing if no
    /// whole interval has passed.
    fn sample(&mut self, now: Timestamp) -> Option<Sample>;
}
