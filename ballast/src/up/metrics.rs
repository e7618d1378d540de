//! Metrics in OpenMetrics text. Labels are bounded: path patterns, methods and status codes, never
//! ids.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use ballast_control_plane::load::LoadMonitor;
use ballast_domain::ShardId;
use ballast_vote_shard::ShardUsage;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::connections::ConnectionTable;
use super::load_metrics::LoadGauges;
use super::router_metrics::RouterCounters;

/// Counts and latencies. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    registry: Arc<RwLock<Registry>>,
    requests: Family<RequestLabels, Counter>,
    latency: Family<RouteLabels, Histogram, fn() -> Histogram>,
    shards: Arc<ShardGauges>,
    executions: Family<ExecutionLabels, Gauge>,
    moves: RouterCounters,
    load: Arc<LoadGauges>,
    connections: ConnectionMetrics,
}

/// The connections of the listener, as of the last scrape.
#[derive(Clone, Default)]
struct ConnectionMetrics {
    open: Gauge,
    most: Gauge,
    shed: Counter,
}

/// Executions by status: five values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExecutionLabels {
    status: &'static str,
}

/// Usage of each shard, as of the last scrape.
#[derive(Default)]
struct ShardGauges {
    up: Family<ShardUsageLabels, Gauge>,
    polls: Family<ShardUsageLabels, Gauge>,
    voters: Family<ShardUsageLabels, Gauge>,
    bytes: Family<ShardUsageLabels, Gauge>,
    archived: Family<ShardUsageLabels, Gauge>,
    archive_bytes: Family<ShardUsageLabels, Gauge>,
}

/// Shards are few, and operators name them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardUsageLabels {
    shard: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: RouteLabel,
    status: u32,
}

/// A path's pattern: bounded, and cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RouteLabel(Arc<str>);

impl EncodeLabelValue for RouteLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        (&*self.0).encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: RouteLabel,
}

/// The metrics of one path, looked up once, for frequent requests.
#[derive(Clone)]
pub(crate) struct Meter {
    metrics: Metrics,
    method: Method,
    route: &'static str,
    fine: Counter,
    latency: Histogram,
}

impl Meter {
    /// Counts a request.
    pub(crate) fn request(&self, status: StatusCode, elapsed: Duration) {
        if status == StatusCode::OK {
            self.fine.inc();
            self.latency.observe(elapsed.as_secs_f64());
        } else {
            self.metrics
                .request(&self.method, self.route, status, elapsed);
        }
    }
}

/// From half a millisecond to eight seconds.
const BUCKETS_SECONDS: [f64; 15] = [
    0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 4.0,
    8.0,
];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("ballast");
        let requests = Family::default();
        let latency =
            Family::new_with_constructor((|| Histogram::new(BUCKETS_SECONDS)) as fn() -> Histogram);
        registry.register("http_requests", "Requests answered", requests.clone());
        registry.register(
            "http_request_duration_seconds",
            "Duration of requests",
            latency.clone(),
        );
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "This program", version);
        let shards = Arc::new(ShardGauges::default());
        for (name, help, gauge) in [
            ("shard_up", "Whether the shard takes votes", &shards.up),
            ("shard_polls", "Polls on the shard", &shards.polls),
            (
                "shard_voters_in_memory",
                "Voters of open polls in memory",
                &shards.voters,
            ),
            (
                "shard_disk_bytes",
                "Disk space used by the shard",
                &shards.bytes,
            ),
            (
                "shard_polls_archived",
                "Closed polls whose votes are in files",
                &shards.archived,
            ),
            (
                "shard_archive_bytes",
                "Size of these files",
                &shards.archive_bytes,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        let executions = Family::default();
        let help = "Stored workflow executions";
        registry.register("executions", help, executions.clone());
        let moves = RouterCounters::new(&mut registry);
        let load = Arc::new(LoadGauges::new(&mut registry));
        let connections = ConnectionMetrics::default();
        let help = "Open connections";
        registry.register("connections", help, connections.open.clone());
        let help = "Connections that may be open at once";
        registry.register("connections_max", help, connections.most.clone());
        let help = "Connections closed for others, or refused, because all places were taken";
        registry.register("connections_shed", help, connections.shed.clone());
        Self {
            registry: Arc::new(RwLock::new(registry)),
            requests,
            latency,
            shards,
            executions,
            moves,
            load,
            connections,
        }
    }
}

impl Metrics {
    /// The counts of one path.
    pub(crate) fn meter(&self, method: Method, route: &'static str) -> Meter {
        let label = RouteLabel(route.into());
        let labels = RequestLabels {
            method: method_label(&method),
            route: label.clone(),
            status: u32::from(StatusCode::OK.as_u16()),
        };
        Meter {
            fine: self.requests.get_or_create_owned(&labels),
            latency: self
                .latency
                .get_or_create_owned(&RouteLabels { route: label }),
            metrics: self.clone(),
            method,
            route,
        }
    }

    /// Counts a request.
    pub(crate) fn request(
        &self,
        method: &Method,
        route: &str,
        status: StatusCode,
        elapsed: Duration,
    ) {
        let route = RouteLabel(route.into());
        let labels = RequestLabels {
            method: method_label(method),
            route: route.clone(),
            status: u32::from(status.as_u16()),
        };
        self.requests.get_or_create(&labels).inc();
        self.latency
            .get_or_create(&RouteLabels { route })
            .observe(elapsed.as_secs_f64());
    }

    /// Updates the shard gauges; forgets removed shards.
    pub(crate) fn note_shards(&self, usages: &[(ShardId, ShardUsage)]) {
        let ShardGauges {
            up,
            polls,
            voters,
            bytes,
            archived,
            archive_bytes,
        } = &*self.shards;
        for family in [up, polls, voters, bytes, archived, archive_bytes] {
            family.clear();
        }
        for (id, usage) in usages {
            let shard = id.to_string();
            let labels = ShardUsageLabels { shard };
            let set = |family: &Family<ShardUsageLabels, Gauge>, value: u64| {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                family.get_or_create(&labels).set(value);
            };
            set(up, u64::from(usage.trouble.is_none()));
            set(polls, usage.polls);
            set(voters, usage.voters_in_memory);
            set(bytes, usage.disk_bytes);
            set(archived, usage.polls_archived);
            set(archive_bytes, usage.archive_bytes);
        }
    }

    /// Updates the execution gauges.
    pub(crate) fn note_executions(&self, counts: &BTreeMap<&'static str, u64>) {
        self.executions.clear();
        for (status, count) in counts {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.executions
                .get_or_create(&ExecutionLabels { status })
                .set(count);
        }
    }

    /// Updates the router's counters.
    pub(crate) fn note_router(&self, router: &ballast_router::RouterState) {
        self.moves.note(router);
    }

    /// Updates the figures of connections.
    pub(crate) fn note_connections(&self, table: &ConnectionTable) {
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.connections.open.set(gauge(table.open()));
        self.connections.most.set(gauge(table.most()));
        let shed = self.connections.shed.inner();
        shed.store(table.shed(), Ordering::Relaxed);
    }

    /// Updates the load gauges.
    pub(crate) fn note_load(&self, load: &LoadMonitor) {
        self.load.note(load);
    }

    /// Everything measured, as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        if encode(&mut text, &registry).is_err() {
            tracing::error!("metrics cannot be encoded");
        }
        text
    }
}

/// Clients may send any method; the label must stay bounded.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}
