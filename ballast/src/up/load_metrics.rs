//! Exports load metrics. Labels are bounded: shards are few, and only the hottest tenants are
//! labelled.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ballast_control_plane::load::current::{LoadFilter, ShardLoadBody};
use ballast_control_plane::load::{LatencyBody, LoadMonitor};
use ballast_domain::ShardId;
use ballast_hotspot_detector::load::Flow;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Tenants that are named.
const TENANTS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabels {
    shard: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TenantLabels {
    tenant: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LatencyLabels {
    shard: String,
    call: &'static str,
    quantile: &'static str,
}

type Level = Gauge<f64, std::sync::atomic::AtomicU64>;
type Total = Counter<f64, std::sync::atomic::AtomicU64>;

/// The load as of the last scrape.
#[derive(Default)]
pub(super) struct LoadGauges {
    votes: Family<ShardLabels, Total>,
    queries: Family<ShardLabels, Total>,
    bytes: Family<ShardLabels, Total>,
    errors: Family<ShardLabels, Total>,
    throttles: Family<ShardLabels, Total>,
    heat: Family<ShardLabels, Level>,
    io_wait: Family<ShardLabels, Level>,
    concurrency: Family<ShardLabels, Level>,
    latency: Family<LatencyLabels, Level>,
    tenant_heat: Family<TenantLabels, Level>,
    tenant_votes: Family<TenantLabels, Level>,
    tenant_queries: Family<TenantLabels, Level>,
    /// The totals exported so far; counters only grow.
    exported: Mutex<BTreeMap<ShardId, Flow>>,
}

impl LoadGauges {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        for (name, help, total) in [
            ("load_votes", "Votes counted, by shard", &gauges.votes),
            (
                "load_queries",
                "Queries answered, by shard",
                &gauges.queries,
            ),
            (
                "load_bytes",
                "Bytes of bodies in and out, by shard",
                &gauges.bytes,
            ),
            (
                "load_errors",
                "Calls that failed or were refused, by shard",
                &gauges.errors,
            ),
            (
                "load_throttles",
                "Calls rejected by rate limits, by shard",
                &gauges.throttles,
            ),
        ] {
            registry.register(name, help, total.clone());
        }
        for (name, help, level) in [
            (
                "load_heat",
                "Utilisation of the shard's capacity: 1 is all of it, more is overload",
                &gauges.heat,
            ),
            (
                "load_io_wait",
                "Share of time in which its writes waited, 0 to 1",
                &gauges.io_wait,
            ),
            (
                "load_concurrency",
                "Mean number of concurrent calls",
                &gauges.concurrency,
            ),
        ] {
            registry.register(name, help, level.clone());
        }
        gauges.register_latencies_and_tenants(registry);
        gauges
    }

    fn register_latencies_and_tenants(&self, registry: &mut Registry) {
        registry.register(
            "load_latency_milliseconds",
            "Latency of the shard's calls in the last short window",
            self.latency.clone(),
        );
        for (name, help, level) in [
            (
                "load_tenant_heat",
                "Share of its shard's capacity that a tenant uses: 1 is all of it, more is overload; the 20 hottest",
                &self.tenant_heat,
            ),
            (
                "load_tenant_votes_per_second",
                "Votes of a tenant; the 20 hottest",
                &self.tenant_votes,
            ),
            (
                "load_tenant_queries_per_second",
                "Queries of a tenant; the 20 hottest",
                &self.tenant_queries,
            ),
        ] {
            registry.register(name, help, level.clone());
        }
    }

    /// Updates the gauges from the load monitor.
    pub(super) fn note(&self, load: &LoadMonitor) {
        self.note_totals(load.totals());
        let now = load.current_load(&LoadFilter {
            tenants_max: Some(TENANTS),
            ..LoadFilter::default()
        });
        for family in [&self.heat, &self.io_wait, &self.concurrency] {
            family.clear();
        }
        self.latency.clear();
        now.shards.iter().for_each(|shard| self.note_shard(shard));
        for family in [&self.tenant_heat, &self.tenant_votes, &self.tenant_queries] {
            family.clear();
        }
        for tenant in now.tenants {
            let labels = TenantLabels {
                tenant: tenant.tenant_id.to_string(),
            };
            let set = |family: &Family<TenantLabels, Level>, value| {
                family.get_or_create(&labels).set(value);
            };
            set(&self.tenant_heat, tenant.rates.heat);
            set(&self.tenant_votes, tenant.rates.votes_per_second);
            set(&self.tenant_queries, tenant.rates.queries_per_second);
        }
    }

    fn note_totals(&self, totals: BTreeMap<ShardId, Flow>) {
        let mut exported = self.exported.lock().unwrap_or_else(PoisonError::into_inner);
        for (shard, total) in &totals {
            let before = exported.get(shard).copied().unwrap_or_default();
            let labels = ShardLabels {
                shard: shard.to_string(),
            };
            let add = |family: &Family<ShardLabels, Total>, now: f64, before: f64| {
                family
                    .get_or_create(&labels)
                    .inc_by((now - before).max(0.0));
            };
            add(&self.votes, total.votes, before.votes);
            add(&self.queries, total.queries, before.queries);
            add(&self.bytes, total.bytes, before.bytes);
            add(&self.errors, total.errors, before.errors);
            add(&self.throttles, total.throttles, before.throttles);
        }
        *exported = totals;
    }

    fn note_shard(&self, shard: &ShardLoadBody) {
        let name = shard.shard_id.to_string();
        let labels = ShardLabels {
            shard: name.clone(),
        };
        self.heat.get_or_create(&labels).set(shard.rates.heat);
        let wait = shard.io_queue.unwrap_or(0.0) + shard.io_fsync.unwrap_or(0.0);
        self.io_wait.get_or_create(&labels).set(wait.min(1.0));
        let calls = shard.rates.concurrency.unwrap_or(0.0);
        self.concurrency.get_or_create(&labels).set(calls);
        for (call, latency) in [("vote", shard.vote_latency), ("query", shard.query_latency)] {
            let Some(LatencyBody { p50, p95, p99 }) = latency else {
                continue;
            };
            for (quantile, ms) in [("0.5", p50), ("0.95", p95), ("0.99", p99)] {
                let labels = LatencyLabels {
                    shard: name.clone(),
                    call,
                    quantile,
                };
                self.latency.get_or_create(&labels).set(ms);
            }
        }
    }
}
