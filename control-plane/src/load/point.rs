//! Load as it is told: rates, levels, percentiles and heat.

use ballast_domain::sketch::Sketch;
use ballast_hotspot_detector::load::{Flow, IoWait, ShardSample, ShardView, SliceView};
use ballast_hotspot_detector::resources::Resources;
use serde::Serialize;

/// How long calls took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct LatencyBody {
    /// Half of them took no longer.
    pub p50: f64,
    /// 95 % of them took no longer.
    pub p95: f64,
    /// 99 % of them took no longer.
    pub p99: f64,
}

impl LatencyBody {
    /// The percentiles of a sketch; nothing if there were no calls.
    #[must_use]
    pub fn of(sketch: &Sketch) -> Option<Self> {
        Some(Self {
            p50: sketch.quantile(0.50)?,
            p95: sketch.quantile(0.95)?,
            p99: sketch.quantile(0.99)?,
        })
    }
}

/// What is used, per second or at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// How hot it is, from 0 to 1: of a shard, how much of what it can do is
    /// done, or how much of the time its writes wait; of a tenant, how much of
    /// its shard it uses. The fullest dimension counts.
    pub heat: f64,
    /// Votes counted.
    pub votes_per_second: f64,
    /// Queries answered.
    pub queries_per_second: f64,
    /// Bytes of bodies, in and out.
    pub bytes_per_second: f64,
    /// Calls that failed or were refused.
    pub errors_per_second: f64,
    /// Calls turned away because there were too many.
    pub throttles_per_second: f64,
    /// Bytes stored; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_bytes: Option<f64>,
    /// Calls at a time, on average; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<f64>,
}

/// Never more than all, and never below nothing.
fn heat(pressure: Option<f64>) -> f64 {
    pressure.unwrap_or(0.0).clamp(0.0, 1.0)
}

impl Rates {
    fn of_flow(flow: &Flow) -> Self {
        Self {
            votes_per_second: flow.votes,
            queries_per_second: flow.queries,
            bytes_per_second: flow.bytes,
            errors_per_second: flow.errors,
            throttles_per_second: flow.throttles,
            ..Self::default()
        }
    }

    /// A shard over a window.
    pub(super) fn of_view(view: &ShardView) -> Self {
        Self {
            heat: heat(view.pressure()),
            storage_bytes: view.knows_storage.then_some(view.used.storage),
            concurrency: view.knows_concurrency.then_some(view.used.concurrency),
            ..Self::of_flow(&view.flow)
        }
    }

    /// A shard in one sample that measured so long.
    pub(super) fn of_sample(shard: &ShardSample, ms: u64) -> Self {
        let measured = shard.measured_ms.unwrap_or(ms).max(1);
        let flow = shard.flow.times(1_000.0 / measured as f64);
        let used = used(&flow, shard.storage, shard.concurrency);
        let wait = shard.io_wait.map_or(0.0, |wait: IoWait| wait.share());
        Self {
            heat: heat(Some(used.fill(&shard.capacity).1.max(wait))),
            storage_bytes: shard.storage,
            concurrency: shard.concurrency,
            ..Self::of_flow(&flow)
        }
    }

    /// A slice over a window, on a shard of this capacity.
    pub(super) fn of_slice(slice: &SliceView, capacity: &Resources) -> Self {
        let used = &slice.used;
        Self {
            heat: heat(Some(used.fill(capacity).1)),
            votes_per_second: used.votes,
            queries_per_second: used.queries,
            bytes_per_second: used.bytes,
            errors_per_second: slice.errors,
            throttles_per_second: slice.throttles,
            storage_bytes: Some(used.storage),
            concurrency: Some(used.concurrency),
        }
    }

    /// A slice's flow in a sample of so many milliseconds.
    pub(super) fn of_slice_flow(
        (flow, storage, concurrency): (&Flow, Option<f64>, f64),
        ms: u64,
        capacity: &Resources,
    ) -> Self {
        let flow = flow.times(1_000.0 / ms.max(1) as f64);
        let used = used(&flow, storage, Some(concurrency));
        Self {
            heat: heat(Some(used.fill(capacity).1)),
            storage_bytes: storage,
            concurrency: Some(concurrency),
            ..Self::of_flow(&flow)
        }
    }

    /// Adds another part of the same tenant: the hottest part counts.
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

fn used(flow: &Flow, storage: Option<f64>, concurrency: Option<f64>) -> Resources {
    Resources {
        votes: flow.votes,
        queries: flow.queries,
        bytes: flow.bytes,
        storage: storage.unwrap_or(0.0),
        concurrency: concurrency.unwrap_or(0.0),
    }
}
