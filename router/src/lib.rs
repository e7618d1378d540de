//! The router: takes requests with API keys and answers them from the tenant's shard.
//!
//! ```text
//!   request ──► admit: find the key ──► keyring: check it ──► tenant: active? is
//!               the origin allowed? ──► handler ──► response
//!   follow  ──  invalidates cached keys and routes by the change feed
//! ```
//! It reads routes through a port ([`ballast_domain::routes`]) and caches them, so it
//! continues to serve while the control plane is unavailable. A cached route may be
//! stale. That is harmless, because shards check epochs.
//!
//! For a vote, [`deliver`] finds the slice and its shard, and holds the request while the
//! shard cannot serve it. Results come from the [`live`] view, which the shards' feeds
//! keep up to date.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admit;
mod archived;
mod consistent_read;
mod cors;
mod deliver;
mod direct;
mod dual;
mod follow;
mod held;
mod key_in_request;
mod keyring;
pub mod limits;
mod live;
pub mod load;
mod mirror;
mod openapi;
mod original_request;
mod polls;
mod problem;
mod ref_counted;
mod request;
mod request_summary;
mod resolve;
#[cfg(test)]
mod resolve_tests;
mod results;
mod route_cache;
mod slots;
mod source_timeout;
#[cfg(test)]
mod testing;
mod votes;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderValue;
use axum::middleware::from_fn_with_state;
use axum::routing::any;
use ballast_domain::routes::RouteSource;
use ballast_domain::{Clock, Entropy};
use ballast_vote_shard::ShardDirectory;
use ballast_vote_shard::archive::ArchiveDirectory;
use ballast_web::openapi::{complete_document, document_routes};
use ballast_web::problem::wrong_method;
use tokio::sync::watch;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use direct::{DirectRequest, RESOLVE_PATTERN, VOTE_PATTERN};
pub use dual::DualReadCounts;
pub use follow::follow;
pub use held::HeldCounts;
pub use key_in_request::{KeyPlace, KeyPlaces};
pub use keyring::{CachedKey, Keyring, read_key};
pub use live::{CountsOrigin, CountsVersion, LiveView, MemoryView, PollAtShard, PollCounts};
pub use openapi::document;
pub use problem::RouterError;
pub use request_summary::HeldDuration;

use crate::dual::{CallStatsBySlice, DualReads};
use crate::held::{Gates, HeldRequestCounters, StaleRegistryMonitor};
use crate::limits::Limiter;
use crate::live::{Feeds, WatchHub};
use crate::load::LoadMeter;
use crate::mirror::ReplicaSyncs;
use crate::request::RequestIdGenerator;
use crate::results::ResultCache;
use crate::route_cache::RouteCache;
use crate::slots::{SlotAmount, SlotPool};
use crate::source_timeout::TimeoutSource;

/// The settings of a router.
#[derive(Debug, Clone)]
pub struct RouterSettings {
    /// Where to find a key in a request, in this order.
    pub key_places: KeyPlaces,
    /// How many keys, and how many tenants, are cached.
    pub cache_entries: usize,
    /// How long a cached key or route is used before it is read again.
    pub cache_ttl: Duration,
    /// The URL of this router, as returned in `shardURL`.
    pub public_url: String,
    /// The highest age of results.
    pub results_max_age: Duration,
    /// How long a request is held while its shard cannot serve it.
    pub hold_max: Duration,
    /// The most requests that are held at a time.
    pub held_max: usize,
    /// The same for one tenant.
    pub held_per_tenant_max: usize,
    /// The most bytes that held requests keep in memory.
    pub held_bytes_max: usize,
    /// The same for one tenant.
    pub held_bytes_per_tenant_max: usize,
    /// While both shards of a migration are read, one in this many reads of results
    /// compares the counts of both; 0 compares none.
    pub dual_read_sample: u64,
    /// The most viewers of live results.
    pub viewers_max: usize,
    /// The same for one tenant.
    pub viewers_per_tenant_max: usize,
    /// Whether load is counted, for hotspot detection.
    pub count_load: bool,
}

/// The ports that a router uses.
pub struct RouterPorts {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Random bytes, for the ids of polls and requests.
    pub entropy: Arc<dyn Entropy>,
    /// The source of keys and routes.
    pub source: Arc<dyn RouteSource>,
    /// The shards.
    pub shards: Arc<dyn ShardDirectory>,
    /// The archives with the votes of closed polls.
    pub archives: Arc<dyn ArchiveDirectory>,
    /// The live view of results.
    pub view: Arc<dyn LiveView>,
}

/// The state of a router, shared by all requests. Cheap to clone.
#[derive(Clone)]
pub struct RouterState {
    parts: Arc<RouterParts>,
}

struct RouterParts {
    settings: RouterSettings,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    requests: RequestIdGenerator,
    source: Arc<dyn RouteSource>,
    shards: Arc<dyn ShardDirectory>,
    archives: Arc<dyn ArchiveDirectory>,
    view: Arc<dyn LiveView>,
    keyring: Keyring,
    routes: RouteCache,
    limiter: Limiter,
    feeds: Feeds,
    results: ResultCache,
    hub: WatchHub,
    held_slots: Arc<SlotPool>,
    held_counters: HeldRequestCounters,
    stale_registry: StaleRegistryMonitor,
    gates: Gates,
    dual_reads: DualReads,
    call_stats: CallStatsBySlice,
    replica_syncs: ReplicaSyncs,
    viewers: Arc<SlotPool>,
    load: LoadMeter,
    /// The URL of this router, as a header value.
    public_url: Option<HeaderValue>,
    /// The `Vary` header: the headers that keys may be in.
    vary: HeaderValue,
    ending: watch::Sender<bool>,
}

impl RouterState {
    /// Makes a router over these ports.
    pub fn new(settings: RouterSettings, ports: RouterPorts) -> Self {
        let RouterPorts {
            clock,
            entropy,
            source,
            shards,
            archives,
            view,
        } = ports;
        let ttl_ms = i64::try_from(settings.cache_ttl.as_millis()).unwrap_or(i64::MAX);
        let entries = settings.cache_entries;
        let gates = Gates::default();
        let source: Arc<dyn RouteSource> = Arc::new(TimeoutSource(source));
        Self {
            parts: Arc::new(RouterParts {
                clock,
                requests: RequestIdGenerator::new(&*entropy),
                entropy,
                keyring: Keyring::new(source.clone(), entries, ttl_ms),
                routes: RouteCache::new(source.clone(), entries, ttl_ms, gates.clone()),
                source,
                limiter: Limiter::new(entries),
                shards,
                archives,
                view,
                feeds: Feeds::default(),
                results: ResultCache::default(),
                hub: WatchHub::default(),
                held_slots: create_held_slots(&settings),
                held_counters: HeldRequestCounters::default(),
                stale_registry: StaleRegistryMonitor::default(),
                gates,
                dual_reads: DualReads::default(),
                call_stats: CallStatsBySlice::default(),
                replica_syncs: ReplicaSyncs::default(),
                viewers: SlotPool::new(
                    SlotAmount::count_only(settings.viewers_max),
                    SlotAmount::count_only(settings.viewers_per_tenant_max),
                ),
                load: LoadMeter::new(settings.count_load),
                public_url: HeaderValue::from_str(&settings.public_url).ok(),
                vary: settings.key_places.vary(),
                ending: watch::Sender::new(false),
                settings,
            }),
        }
    }

    /// The limiter of tenants.
    pub fn limiter(&self) -> &Limiter {
        &self.parts.limiter
    }

    /// Ends viewers and feeds, for a clean stop.
    pub fn end(&self) {
        self.parts.ending.send_replace(true);
    }

    /// Waits until [`RouterState::end`].
    fn wait_for_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ending = self.parts.ending.subscribe();
        async move {
            // An error means that the state was dropped, which is an end as well.
            let _ = ending.wait_for(|ending| *ending).await;
        }
    }
}

/// Creates the slots for held requests.
fn create_held_slots(settings: &RouterSettings) -> Arc<SlotPool> {
    let in_all = SlotAmount {
        number: settings.held_max,
        bytes: settings.held_bytes_max,
    };
    let per_tenant = SlotAmount {
        number: settings.held_per_tenant_max,
        bytes: settings.held_bytes_per_tenant_max,
    };
    SlotPool::new(in_all, per_tenant)
}

/// The paths of the router, to be mounted at the root.
pub fn router(state: RouterState) -> Router {
    let (paths, document) = describe_routes().split_for_parts();
    paths
        // Any method: Envoy sends the method of the original request.
        .route(RESOLVE_PATTERN, any(resolve::resolve))
        .route("/resolve/", any(resolve::resolve))
        .route("/resolve/{*original}", any(resolve::resolve))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(state.clone(), admit::admit))
        // The OpenAPI document and its page need no key.
        .merge(document_routes(
            "",
            complete_document(document, openapi::describe_api()),
        ))
        .with_state(state)
}

/// Lists every path with its OpenAPI description.
fn describe_routes() -> OpenApiRouter<RouterState> {
    OpenApiRouter::with_openapi(openapi::generate_base())
        .routes(routes!(polls::list, polls::create))
        .routes(routes!(polls::show, polls::widen))
        .routes(routes!(polls::close))
        .routes(routes!(polls::export))
        .routes(routes!(polls::lanes))
        .routes(routes!(polls::import))
        .routes(routes!(votes::vote, votes::vote_by_post, votes::withdraw))
        .routes(routes!(votes::voter))
        .routes(routes!(votes::votes))
        .routes(routes!(results::results))
        .routes(routes!(live::live))
}
