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
//! So far it resolves keys to shards for other proxies; votes come next.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admit;
mod cors;
mod follow;
mod key_in_request;
mod keyring;
pub mod limits;
mod original;
mod problem;
mod resolve;
#[cfg(test)]
mod resolve_tests;
mod route_cache;
#[cfg(test)]
mod testing;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::any;
use ballast_domain::routes::RouteSource;
use ballast_domain::{Clock, Error, ErrorCode};

pub use follow::follow;
pub use key_in_request::{KeyPlace, KeyPlaces};
pub use keyring::{Held, Keyring, read_key};
pub use problem::RouterError;

use crate::limits::Limiter;
use crate::route_cache::RouteCache;

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
}

/// The router's parts. Cheap to clone.
#[derive(Clone)]
pub struct State {
    parts: Arc<Parts>,
}

struct Parts {
    settings: Settings,
    clock: Arc<dyn Clock>,
    source: Arc<dyn RouteSource>,
    keyring: Keyring,
    routes: RouteCache,
    limiter: Limiter,
}

impl State {
    /// A router that reads from this source.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, source: Arc<dyn RouteSource>) -> Self {
        let ttl_ms = i64::try_from(settings.cache_ttl.as_millis()).unwrap_or(i64::MAX);
        let keyring = Keyring::new(source.clone(), settings.cache_entries, ttl_ms);
        let routes = RouteCache::new(source.clone(), settings.cache_entries, ttl_ms);
        let limiter = Limiter::new(settings.cache_entries);
        Self {
            parts: Arc::new(Parts {
                settings,
                clock,
                source,
                keyring,
                routes,
                limiter,
            }),
        }
    }

    /// What holds tenants to their limits.
    pub fn limiter(&self) -> &Limiter {
        &self.parts.limiter
    }
}

/// The router's paths, to be mounted at the root.
pub fn router(state: State) -> Router {
    Router::new()
        // Any method: Envoy asks with the method of the request it asks about.
        .route("/resolve", any(resolve::resolve))
        .route("/resolve/", any(resolve::resolve))
        .route("/resolve/{*original}", any(resolve::resolve))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(state.clone(), admit::admit))
        .with_state(state)
}

async fn wrong_method() -> RouterError {
    let detail = "the path is there, but it does not take this method";
    Error::new(ErrorCode::MethodNotAllowed, detail).into()
}
