//! Tenant → where it is, from memory; the same life as the keyring's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ballast_domain::routes::{RouteSource, ShardRoute, TenantRoute};
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId, Timestamp};
use quick_cache::sync::Cache;

use crate::held::Gates;
use crate::in_use::InUse;

/// Shards that are kept.
const SHARDS: usize = 10_000;

pub(crate) struct RouteCache {
    source: Arc<dyn RouteSource>,
    tenants: Cache<TenantId, KeptRoute>,
    shards: Cache<ShardId, Kept<ShardRoute>>,
    /// As in the keyring: an answer under way meanwhile is not kept.
    forgotten: AtomicU64,
    ttl_ms: i64,
    /// Tenants whose route is being read.
    readings: Arc<InUse<TenantId, Reading>>,
    /// Who waits for a tenant's route to change is told.
    gates: Gates,
}

/// Where those meet who read the same tenant's route, so that many who wait
/// for the same news ask for it once.
#[derive(Debug, Default)]
struct Reading {
    turn: tokio::sync::Mutex<()>,
    /// How many of them have begun.
    begun: AtomicU64,
}

#[derive(Clone)]
struct Kept<T> {
    value: T,
    read_ms: i64,
}

type KeptRoute = Kept<Arc<TenantRoute>>;

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
            forgotten: AtomicU64::new(0),
            ttl_ms,
            readings: Arc::default(),
            gates,
        }
    }

    /// Where a tenant is.
    pub(crate) async fn tenant(&self, id: &TenantId, now: Timestamp) -> Result<Arc<TenantRoute>> {
        let is_fresh = |kept: &KeptRoute| self.is_fresh(kept.read_ms, now);
        match self.tenants.get(id).filter(is_fresh) {
            Some(kept) => Ok(kept.value),
            None => self.read(id, now, is_fresh).await,
        }
    }

    /// Reads a route anew that has turned out to be stale, unless somebody has
    /// done so meanwhile. What is kept stays when the source is away.
    pub(crate) async fn refresh(&self, stale: &Arc<TenantRoute>, now: Timestamp) {
        let is_another = |kept: &KeptRoute| !Arc::ptr_eq(&kept.value, stale);
        let _ = self.read(&stale.tenant_id, now, is_another).await;
    }

    /// Reads a route, one at a time of the same tenant: what somebody else has
    /// read since this one asked is as good.
    async fn read(
        &self,
        id: &TenantId,
        now: Timestamp,
        is_enough: impl Fn(&KeptRoute) -> bool,
    ) -> Result<Arc<TenantRoute>> {
        let reading = self.readings.enter(id.clone());
        let asked = reading.begun.load(Ordering::Acquire);
        let _turn = reading.turn.lock().await;
        let kept = self.tenants.peek(id);
        if let Some(kept) = &kept
            && (is_enough(kept) || reading.begun.load(Ordering::Acquire) != asked)
        {
            return Ok(kept.value.clone());
        }
        reading.begun.fetch_add(1, Ordering::AcqRel);
        let before = self.forgotten.load(Ordering::Acquire);
        let value = match self.source.tenant(id).await {
            Ok(answer) => answer.ok_or_else(|| gone(id.as_str()))?,
            Err(away) => return kept.map(|kept| kept.value).ok_or_else(|| away.into()),
        };
        let read_ms = now.unix_ms();
        let fresh = Kept {
            value: value.clone(),
            read_ms,
        };
        self.tenants.insert(id.clone(), fresh);
        if self.forgotten.load(Ordering::Acquire) != before {
            self.tenants.remove(id);
        }
        if kept.is_some_and(|kept| kept.value.slices != value.slices) {
            self.gates.route_changed(id);
        }
        Ok(value)
    }

    /// Where a shard stands and whether it serves.
    pub(crate) async fn shard(&self, id: &ShardId, now: Timestamp) -> Result<ShardRoute> {
        if let Some(kept) = self
            .shards
            .get(id)
            .filter(|kept| self.is_fresh(kept.read_ms, now))
        {
            return Ok(kept.value);
        }
        let before = self.forgotten.load(Ordering::Acquire);
        let shard = match self.source.shard(id).await {
            Ok(answer) => answer.ok_or_else(|| gone(id.as_str()))?,
            Err(away) => {
                return self
                    .shards
                    .get(id)
                    .map(|kept| kept.value)
                    .ok_or_else(|| away.into());
            }
        };
        self.shards.insert(
            id.clone(),
            Kept {
                value: shard.clone(),
                read_ms: now.unix_ms(),
            },
        );
        if self.forgotten.load(Ordering::Acquire) != before {
            self.shards.remove(id);
        }
        Ok(shard)
    }

    pub(crate) fn forget_tenant(&self, id: &TenantId) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.tenants.remove(id);
        self.gates.route_changed(id);
    }

    pub(crate) fn forget_shard(&self, id: &ShardId) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.shards.remove(id);
    }

    fn is_fresh(&self, read_ms: i64, now: Timestamp) -> bool {
        now.unix_ms() < read_ms.saturating_add(self.ttl_ms)
    }
}

/// A key or a route points at something that is not there: ours to mend.
fn gone(id: &str) -> Error {
    Error::new(ErrorCode::Unavailable, "the route is incomplete")
        .next("Try again; if it stays, the server's log names what is missing.")
        .because(format!("a route points at {id}, which is not there"))
}
