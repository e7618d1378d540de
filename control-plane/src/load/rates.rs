//! Load as the API shows it: rates, levels, percentiles and heat.

use ballast_domain::sketch::Sketch;
use ballast_hotspot_detector::load::{Flow, IoWait, ShardSample, ShardWindow, SliceWindow};
use ballast_hotspot_detector::resources::Resources;
use serde::Serialize;

/// Latency percentiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct LatencyBody {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl LatencyBody {
    /// The percentiles of a sketch; `None` without calls.
    #[must_use]
    pub fn from_sketch(sketch: &Sketch) -> Option<Self> {
        Some(Self {
            p50: sketch.quantile(0.50)?,
            p95: sketch.quantile(0.95)?,
            p99: sketch.quantile(0.99)?,
        })
    }
}

/// Rates per second, and levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// Heat in the fullest dimension: 1 is the whole capacity, and more is overload.
    /// Of a shard: the share of its capacity in use, or of the time that its writes
    /// wait. Of a tenant: the share of its shard's capacity that it uses.
    pub heat: f64,
    /// Votes counted.
    pub votes_per_second: f64,
    /// Queries answered.
    pub queries_per_second: f64,
    /// Bytes of bodies, in and out.
    pub bytes_per_second: f64,
    /// Calls that failed or were refused.
    pub errors_per_second: f64,
    /// Calls throttled.
    pub throttles_per_second: f64,
    /// Bytes stored; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_bytes: Option<f64>,
    /// Average number of concurrent calls; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<f64>,
}

/// Heat has no upper bound: an overloaded shard is above 1.
fn to_heat(pressure: Option<f64>) -> f64 {
    pressure.unwrap_or(0.0).max(0.0)
}

impl Rates {
    fn from_flow(flow: &Flow) -> Self {
        Self {
            votes_per_second: flow.votes,
            queries_per_second: flow.queries,
            bytes_per_second: flow.bytes,
            errors_per_second: flow.errors,
            throttles_per_second: flow.throttles,
            ..Self::default()
        }
    }

    /// Rates of a shard over a window.
    pub(super) fn from_view(view: &ShardWindow) -> Self {
        Self {
            heat: to_heat(view.pressure()),
            storage_bytes: view.knows_storage.then_some(view.used.storage),
            concurrency: view.knows_concurrency.then_some(view.used.concurrency),
            ..Self::from_flow(&view.flow)
        }
    }

    /// Rates of a shard in one sample of `ms` milliseconds.
    pub(super) fn from_sample(shard: &ShardSample, ms: u64) -> Self {
        let measured = shard.measured_ms.unwrap_or(ms).max(1);
        let flow = shard.flow.times(1_000.0 / measured as f64);
        let used = to_resources(&flow, shard.storage, shard.concurrency);
        let wait = shard.io_wait.map_or(0.0, |wait: IoWait| wait.share());
        Self {
            heat: to_heat(Some(used.fill(&shard.capacity).1.max(wait))),
            storage_bytes: shard.storage,
            concurrency: shard.concurrency,
            ..Self::from_flow(&flow)
        }
    }

    /// Rates of a slice over a window, on a shard of this capacity.
    pub(super) fn from_slice(slice: &SliceWindow, capacity: &Resources) -> Self {
        let used = &slice.used;
        Self {
            heat: to_heat(Some(used.fill(capacity).1)),
            votes_per_second: used.votes,
            queries_per_second: used.queries,
            bytes_per_second: used.bytes,
            errors_per_second: slice.errors,
            throttles_per_second: slice.throttles,
            storage_bytes: Some(used.storage),
            concurrency: Some(used.concurrency),
        }
    }

    /// Rates of a slice in a sample of `ms` milliseconds.
    pub(super) fn from_slice_flow(
        (flow, storage, concurrency): (&Flow, Option<f64>, f64),
        ms: u64,
        capacity: &Resources,
    ) -> Self {
        let flow = flow.times(1_000.0 / ms.max(1) as f64);
        let used = to_resources(&flow, storage, Some(concurrency));
        Self {
            heat: to_heat(Some(used.fill(capacity).1)),
            storage_bytes: storage,
            concurrency: Some(concurrency),
            ..Self::from_flow(&flow)
        }
    }

    /// Adds the rates of another slice of the same tenant; the higher heat counts.
    pub(super) fn add(&mut self, more: &Self) {
        let sum = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        *self = Self {
            heat: self.heat.max(more.heat),
            votes_per_second: self.votes_per_second + more.votes_per_second,
            queries_per_second: self.queries_per_second + more.queries_per_second,
            bytes_per_second: self.bytes_per_second + more.bytes_per_second,
            errors_per_second: self.errors_per_second + more.errors_per_second,
            throttles_per_second: self.throttles_per_second + more.throttles_per_second,
            storage_bytes: sum(self.storage_bytes, more.storage_bytes),
            concurrency: sum(self.concurrency, more.concurrency),
        };
    }
}

fn to_resources(flow: &Flow, storage: Option<f64>, concurrency: Option<f64>) -> Resources {
    Resources {
        votes: flow.votes,
        queries: flow.queries,
        bytes: flow.bytes,
        storage: storage.unwrap_or(0.0),
        concurrency: concurrency.unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_not_cut_off_at_the_capacity() {
        let capacity = Resources {
            votes: 100.0,
            ..Resources::default()
        };
        let name = "shard-1".parse().unwrap();
        let mut shard = ShardSample::new(name, "eu".parse().unwrap(), capacity);
        shard.flow.votes = 127.0;
        assert!((Rates::from_sample(&shard, 1_000).heat - 1.27).abs() < 1e-9);
        let slice = Rates::from_slice_flow((&shard.flow, None, 0.0), 1_000, &capacity);
        assert!((slice.heat - 1.27).abs() < 1e-9);
    }
}
