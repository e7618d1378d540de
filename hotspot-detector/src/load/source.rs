//! Sources of measurements: in process, from Prometheus, from a record.

use async_trait::async_trait;
use ballast_domain::Timestamp;

use super::sample::LoadSample;

/// Produces samples. An unreachable shard is left out of the sample instead of being
/// reported as idle. Consecutive samples never count the same call twice.
#[async_trait]
pub trait MetricSource: Send {
    /// The measurements since the last sample, up to `now`; `None` if no time has passed.
    async fn sample(&mut self, now: Timestamp) -> Option<LoadSample>;
}
