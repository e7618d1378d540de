//! What the router counts itself, brought to where it is exposed: requests that
//! were held.

use std::sync::atomic::Ordering;

use ballast_router as router;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

/// What became of a request that had to wait: three ways.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

type Results = Family<ResultLabels, Counter>;
type Seconds = Counter<f64, std::sync::atomic::AtomicU64>;

/// The router's own counts, as of the last look.
#[derive(Clone)]
pub(super) struct RouterCounters {
    held: Results,
    held_seconds: Seconds,
}

impl RouterCounters {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let counters = Self {
            held: Family::default(),
            held_seconds: Counter::default(),
        };
        registry.register(
            "held_requests",
            "Requests that had to wait for their shard",
            counters.held.clone(),
        );
        registry.register_with_unit(
            "held",
            "How long requests waited for their shard; not part of their duration",
            Unit::Seconds,
            counters.held_seconds.clone(),
        );
        counters
    }

    /// Takes over what the router has counted.
    pub(super) fn note(&self, router: &router::State) {
        let held = router.held();
        let answered = held.requests.saturating_sub(held.gave_up);
        for (result, count) in [
            ("answered", answered),
            ("gaveUp", held.gave_up),
            ("refused", held.refused),
        ] {
            set(&self.held, result, count);
        }
        let seconds = std::time::Duration::from_millis(held.ms).as_secs_f64();
        let told = self.held_seconds.inner();
        told.store(seconds.to_bits(), Ordering::Relaxed);
    }
}

/// Counts only grow: what the router counted is what is shown.
fn set(family: &Results, result: &'static str, count: u64) {
    let counter = family.get_or_create(&ResultLabels { result });
    counter.inner().store(count, Ordering::Relaxed);
}
