//! A cache of tenants' routes and shards' routes. Entries live as in the keyring:
//! they expire, are invalidated by the change feed, and serve while the source is
//! unavailable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ballast_domain::routes::{RouteSource, ShardRoute, TenantRoute};
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId, Timestamp};
use quick_cache::sync::Cache;

use crate::held::Gates;
use crate::ref_counted::RefCountedMap;

/// How many shards are cached.
const SHARDS: usize = 10_000;

pub(crate) struct RouteCache {
    source: Arc<dyn RouteSource>,
    tenants: Cache<TenantId, CachedRoute>,
    shards: Cache<ShardId, Cached<ShardRoute>>,
    /// Counts invalidations: an answer that was read before one is not cached.
    invalidations: AtomicU64,
    ttl_ms: i64,
    /// Reads of routes that are in progress.
    reads: Arc<RefCountedMap<TenantId, RouteRead>>,
    /// Notified when a tenant's route changes.
    gates: Gates,
}

/// Coordinates concurrent reads of the same tenant's route, so that many requests
/// share one read.
#[derive(Debug, Default)]
struct RouteRead {
    turn: tokio::sync::Mutex<()>,
    /// How many reads have begun.
    begun: AtomicU64,
}

#[derive(Clone)]
struct Cached<T> {
    value: T,
    read_ms: i64,
}

type CachedRoute = Cached<Arc<TenantRoute>>;

impl RouteCache {
    pub(crate) fn new(
        source: Arc<dyn RouteSource>,
        entries: usize,
        ttl_ms: i64,
        gates: Gates,
    ) -> Self {
        Self {
            source,
            tenants: Cache::new(entries),
            shards: Cache::new(SHARDS),
            invalidations: AtomicU64::new(0),
            ttl_ms,
            reads: Arc::default(),
            gates,
        }
    }

    /// A tenant's route.
    pub(crate) async fn tenant(&self, id: &TenantId, now: Timestamp) -> Result<Arc<TenantRoute>> {
        let is_fresh = |cached: &CachedRoute| self.is_fresh(cached.read_ms, now);
        match self.tenants.get(id).filter(is_fresh) {
            Some(cached) => Ok(cached.value),
            None => self.read(id, now, is_fresh).await,
        }
    }

    /// Reads a route again that turned out to be stale, unless another request has
    /// done so. The cached route stays when the source is unavailable.
    pub(crate) async fn refresh(&self, stale: &Arc<TenantRoute>, now: Timestamp) {
        let is_another = |cached: &CachedRoute| !Arc::ptr_eq(&cached.value, stale);
        let _ = self.read(&stale.tenant_id, now, is_another).await;
    }

    /// Reads a tenant's route, one read at a time. A read that another request began
    /// after this call is good enough.
    async fn read(
        &self,
        id: &TenantId,
        now: Timestamp,
        is_enough: impl Fn(&CachedRoute) -> bool,
    ) -> Result<Arc<TenantRoute>> {
        let read = self.reads.enter(id.clone());
        let asked = read.begun.load(Ordering::Acquire);
        let _turn = read.turn.lock().await;
        let cached = self.tenants.peek(id);
        if let Some(cached) = &cached
            && (is_enough(cached) || read.begun.load(Ordering::Acquire) != asked)
        {
            return Ok(cached.value.clone());
        }
        read.begun.fetch_add(1, Ordering::AcqRel);
        let before = self.invalidations.load(Ordering::Acquire);
        let value = match self.source.tenant(id).await {
            Ok(answer) => answer.ok_or_else(|| missing_record(id.as_str()))?,
            Err(error) => {
                return cached
                    .map(|cached| cached.value)
                    .ok_or_else(|| error.into());
            }
        };
        let read_ms = now.unix_ms();
        let fresh = Cached {
            value: value.clone(),
            read_ms,
        };
        self.tenants.insert(id.clone(), fresh);
        if self.invalidations.load(Ordering::Acquire) != before {
            self.tenants.remove(id);
        }
        if cached.is_some_and(|cached| cached.value.slices != value.slices) {
            self.gates.route_changed(id);
        }
        Ok(value)
    }

    /// A shard's region and state.
    pub(crate) async fn shard(&self, id: &ShardId, now: Timestamp) -> Result<ShardRoute> {
        if let Some(cached) = self
            .shards
            .get(id)
            .filter(|cached| self.is_fresh(cached.read_ms, now))
        {
            return Ok(cached.value);
        }
        let before = self.invalidations.load(Ordering::Acquire);
        let shard = match self.source.shard(id).await {
            Ok(answer) => answer.ok_or_else(|| missing_record(id.as_str()))?,
            Err(error) => {
                return self
                    .shards
                    .get(id)
                    .map(|cached| cached.value)
                    .ok_or_else(|| error.into());
            }
        };
        self.shards.insert(
            id.clone(),
            Cached {
                value: shard.clone(),
                read_ms: now.unix_ms(),
            },
        );
        if self.invalidations.load(Ordering::Acquire) != before {
            self.shards.remove(id);
        }
        Ok(shard)
    }

    pub(crate) fn forget_tenant(&self, id: &TenantId) {
        self.invalidations.fetch_add(1, Ordering::AcqRel);
        self.tenants.remove(id);
        self.gates.route_changed(id);
    }

    pub(crate) fn forget_shard(&self, id: &ShardId) {
        self.invalidations.fetch_add(1, Ordering::AcqRel);
        self.shards.remove(id);
    }

    fn is_fresh(&self, read_ms: i64, now: Timestamp) -> bool {
        now.unix_ms() < read_ms.saturating_add(self.ttl_ms)
    }
}

/// A key or a route names a record that does not exist. The registry is
/// inconsistent.
fn missing_record(id: &str) -> Error {
    Error::new(ErrorCode::Unavailable, "the route is incomplete")
        .with_next_step("Try again; if it stays, the server's log names what is missing.")
        .with_source(format!("a route names {id}, which does not exist"))
}
