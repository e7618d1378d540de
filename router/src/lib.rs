//! The router: a request arrives with an API key and leaves with an answer
//! from the tenant's shard.
//!
//! ```text
//!   request ──► admit: key (where) ──► keyring (whose) ──► tenant (served?
//!               from this origin?) ──► handler ──► answer
//!   follower ── told by the route source what is stale, and forgets it
//! ```
//! It reads routes through a port ([`ballast_domain::routes`]) and keeps what
//! it has read, so it goes on serving while the control plane is away. What
//! it keeps may be stale; that is harmless, because shards check epochs.
//!
//! A vote takes this way on: [`deliver`] finds the slice and its shard, and
//! holds the request while the shard cannot take it. Results come from the
//! [`live`] view, which the shards' feeds keep up to date.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admit;
mod archived;
mod cors;
mod deliver;
mod direct;
mod dual;
mod follow;
mod held;
mod in_use;
mod key_in_request;
mod keyring;
pub mod limits;
mod live;
pub mod load;
mod mirror;
mod openapi;
mod original;
mod patient;
mod polls;
mod problem;
mod request;
mod resolve;
#[cfg(test)]
mod resolve_tests;
mod results;
mod route_cache;
mod slots;
#[cfg(test)]
mod testing;
mod truth;
mod votes;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderValue;
use axum::middleware::from_fn_with_state;
use axum::routing::any;
use ballast_domain::routes::RouteSource;
use ballast_domain::{Clock, Entropy};
use ballast_vote_shard::Shards;
use ballast_vote_shard::archive::Archives;
use ballast_web::openapi::{finished, pages};
use ballast_web::problem::wrong_method;
use tokio::sync::watch;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use admit::HeldFor;
pub use direct::{Direct, RESOLVE_PATTERN, VOTE_PATTERN};
pub use dual::DualReadCounts;
pub use follow::follow;
pub use held::HeldCounts;
pub use key_in_request::{KeyPlace, KeyPlaces};
pub use keyring::{Held, Keyring, read_key};
pub use live::{LiveView, MemoryView, Origin, Standing, Subject, Version};
pub use openapi::document;
pub use problem::RouterError;

use crate::dual::{Answering, DualReads};
use crate::held::{Ahead, Gates, HeldCounters};
use crate::limits::Limiter;
use crate::live::{Feeds, Hub};
use crate::load::LoadMeter;
use crate::mirror::Mirrors;
use crate::patient::Patient;
use crate::request::FreshRequests;
use crate::results::ResultCache;
use crate::route_cache::RouteCache;
use crate::slots::{Room, Slots};

/// What an operator may set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where a key is looked for, in this order.
    pub key_places: KeyPlaces,
    /// How many keys, and how many tenants, are kept.
    pub cache_entries: usize,
    /// How long something is kept without asking again.
    pub cache_ttl: Duration,
    /// Where this router is reached: what `shardURL` says.
    pub public_url: String,
    /// How old results may be.
    pub results_max_age: Duration,
    /// How long a request is held while its shard cannot take it.
    pub hold_max: Duration,
    /// How many requests are held at the most.
    pub held_max: usize,
    /// How many of them may be of one tenant.
    pub held_per_tenant_max: usize,
    /// How many bytes held requests may keep at the most.
    pub held_bytes_max: usize,
    /// How many of them may be of one tenant.
    pub held_bytes_per_tenant_max: usize,
    /// While both sides of a move are read, the counts of both are compared
    /// for one in so many reads of results; for none when it is 0.
    pub dual_read_sample: u64,
    /// How many viewers may watch results.
    pub viewers_max: usize,
    /// How many of them may be of one tenant.
    pub viewers_per_tenant_max: usize,
    /// Whether what passes is counted for those who look for hotspots.
    pub count_load: bool,
}

/// What the router needs of others.
pub struct Ports {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where the names of polls and requests come from.
    pub entropy: Arc<dyn Entropy>,
    /// Where routes come from.
    pub source: Arc<dyn RouteSource>,
    /// Where votes go.
    pub shards: Arc<dyn Shards>,
    /// Where the votes of closed polls are that no shard holds any more.
    pub archives: Arc<dyn Archives>,
    /// Where results are kept.
    pub view: Arc<dyn LiveView>,
}

/// The router's parts. Cheap to clone.
#[derive(Clone)]
pub struct State {
    parts: Arc<Parts>,
}

struct Parts {
    settings: Settings,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    requests: FreshRequests,
    source: Arc<dyn RouteSource>,
    shards: Arc<dyn Shards>,
    archives: Arc<dyn Archives>,
    view: Arc<dyn LiveView>,
    keyring: Keyring,
    routes: RouteCache,
    limiter: Limiter,
    feeds: Feeds,
    results: ResultCache,
    hub: Hub,
    held: Arc<Slots>,
    held_counters: HeldCounters,
    ahead: Ahead,
    gates: Gates,
    dual_reads: DualReads,
    answering: Answering,
    mirrors: Mirrors,
    viewers: Arc<Slots>,
    load: LoadMeter,
    /// Where this router is reached, as a header says it.
    public_url: Option<HeaderValue>,
    /// What answers depend on beside the path: where keys are.
    vary: HeaderValue,
    ending: watch::Sender<bool>,
}

impl State {
    /// A router over these ports.
    pub fn new(settings: Settings, ports: Ports) -> Self {
        let Ports {
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
        let source: Arc<dyn RouteSource> = Arc::new(Patient(source));
        Self {
            parts: Arc::new(Parts {
                clock,
                requests: FreshRequests::new(&*entropy),
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
                hub: Hub::default(),
                held: held_slots(&settings),
                held_counters: HeldCounters::default(),
                ahead: Ahead::default(),
                gates,
                dual_reads: DualReads::default(),
                answering: Answering::default(),
                mirrors: Mirrors::default(),
                viewers: Slots::new(
                    Room::places(settings.viewers_max),
                    Room::places(settings.viewers_per_tenant_max),
                ),
                load: LoadMeter::new(settings.count_load),
                public_url: HeaderValue::from_str(&settings.public_url).ok(),
                vary: settings.key_places.vary(),
                ending: watch::Sender::new(false),
                settings,
            }),
        }
    }

    /// What holds tenants to their limits.
    pub fn limiter(&self) -> &Limiter {
        &self.parts.limiter
    }

    /// Ends what would go on for ever: viewers and feeds. For a clean stop.
    pub fn end(&self) {
        self.parts.ending.send_replace(true);
    }

    /// Waits until [`State::end`].
    fn ending(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ending = self.parts.ending.subscribe();
        async move {
            // The sender is gone with the state: that is an end, too.
            let _ = ending.wait_for(|ending| *ending).await;
        }
    }
}

/// Places for requests that wait.
fn held_slots(settings: &Settings) -> Arc<Slots> {
    let in_all = Room {
        number: settings.held_max,
        bytes: settings.held_bytes_max,
    };
    let per_tenant = Room {
        number: settings.held_per_tenant_max,
        bytes: settings.held_bytes_per_tenant_max,
    };
    Slots::new(in_all, per_tenant)
}

/// The router's paths, to be mounted at the root.
pub fn router(state: State) -> Router {
    let (paths, document) = described().split_for_parts();
    paths
        // Any method: Envoy asks with the method of the request it asks about.
        .route(RESOLVE_PATTERN, any(resolve::resolve))
        .route("/resolve/", any(resolve::resolve))
        .route("/resolve/{*original}", any(resolve::resolve))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(state.clone(), admit::admit))
        // Neither the document nor its page needs a key.
        .merge(pages("", finished(document, openapi::edge())))
        .with_state(state)
}

/// Every path with its description.
fn described() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(openapi::base())
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
