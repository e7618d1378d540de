//! Where measurements come from: in process, from Prometheus, from a record.

use async_trait::async_trait;
use ballast_domain::Timestamp;

use super::sample::Sample;

/// Measures. A shard that could not be reached is left out of the sample: it
/// is not told as idle. Two calls never count the same thing twice.
#[async_trait]
pub trait MetricSource: Send {
    /// What was measured since the last sample, up to `now`. Nothing if no
    /// time has passed.
    async fn sample(&mut self, now: Timestamp) -> Option<Sample>;
}
