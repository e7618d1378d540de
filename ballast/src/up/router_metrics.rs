//! Exports the router's counters: held requests, and the results of dual reads during migrations.

use std::sync::atomic::Ordering;

use ballast_router as router;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

/// The result of a held request or of a dual read: a few values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

type Results = Family<ResultLabels, Counter>;
type Seconds = Counter<f64, std::sync::atomic::AtomicU64>;

/// The router's counts, as of the last scrape.
#[derive(Clone)]
pub(super) struct RouterCounters {
    held: Results,
    held_seconds: Seconds,
    dual_reads: Results,
    epochs_ahead: Counter,
}

impl RouterCounters {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let counters = Self {
            held: Family::default(),
            held_seconds: Counter::default(),
            dual_reads: Family::default(),
            epochs_ahead: Counter::default(),
        };
        registry.register(
            "held_requests",
            "Requests that were held",
            counters.held.clone(),
        );
        registry.register_with_unit(
            "held",
            "Time that requests were held; not part of their duration",
            Unit::Seconds,
            counters.held_seconds.clone(),
        );
        registry.register(
            "dual_reads",
            "Reads of both shards of a migration; any straggler or difference is an incident",
            counters.dual_reads.clone(),
        );
        registry.register(
            "epochs_ahead",
            "Times a shard had a later epoch than the registry: any is an incident",
            counters.epochs_ahead.clone(),
        );
        counters
    }

    /// Takes over what the router has counted.
    pub(super) fn note(&self, router: &router::RouterState) {
        let held = router.held_counts();
        for (result, count) in [
            ("answered", held.answered),
            ("gaveUp", held.gave_up),
            ("gone", held.gone),
            ("refused", held.refused),
        ] {
            set(&self.held, result, count);
        }
        let found = router.dual_read_totals();
        for (result, count) in [
            ("compared", found.compared),
            ("difference", found.differences),
            ("straggler", found.stragglers),
            ("unread", found.unread),
            ("unsettled", found.unsettled),
        ] {
            set(&self.dual_reads, result, count);
        }
        let ahead = self.epochs_ahead.inner();
        ahead.store(router.stale_registry_count(), Ordering::Relaxed);
        let seconds = std::time::Duration::from_millis(held.ms).as_secs_f64();
        let total = self.held_seconds.inner();
        total.store(seconds.to_bits(), Ordering::Relaxed);
    }
}

/// Counts only grow: what the router counted is what is shown.
fn set(family: &Results, result: &'static str, count: u64) {
    let counter = family.get_or_create(&ResultLabels { result });
    counter.inner().store(count, Ordering::Relaxed);
}
