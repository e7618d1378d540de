//! Tenant → where it is, from memory; the same life as the keyring's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ballast_domain::routes::{RouteSource, ShardRoute, TenantRoute};
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId, Timestamp};
use quick_cache::sync::Cache;

/// Shards that are kept.
const SHARDS: usize = 10_000;

pub(crate) struct RouteCache {
    source: Arc<dyn RouteSource>,
    tenants: Cache<TenantId, Kept<Arc<TenantRoute>>>,
    shards: Cache<ShardId, Kept<ShardRoute>>,
    /// As in the keyring: an answer under way meanwhile is not kept.
    forgotten: AtomicU64,
    ttl_ms: i64,
    /// Held by whoever reads a route anew, so that many who wait for the same
    /// news ask for it once.
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Kept<T> {
    value: T,
    read_ms: i64,
}

impl RouteCache {
    pub(crate) fn new(source: Arc<dyn RouteSource>, entries: usize, ttl_ms: i64) -> Self {
        Self {
            source,
            tenants: Cache::new(entries),
            shards: Cache::new(SHARDS),
            forgotten: AtomicU64::new(0),
            ttl_ms,
            refreshing: tokio::sync::Mutex::new(()),
        }
    }

    /// Where a tenant is.
    pub(crate) async fn tenant(&self, id: &TenantId, now: Timestamp) -> Result<Arc<TenantRoute>> {
        if let Some(kept) = self
            .tenants
            .get(id)
            .filter(|kept| self.is_fresh(kept.read_ms, now))
        {
            return Ok(kept.value);
        }
        let before = self.forgotten.load(Ordering::Acquire);
        let route = match self.source.tenant(id).await {
            Ok(answer) => answer.ok_or_else(|| gone(id.as_str()))?,
            Err(away) => {
                return self
                    .tenants
                    .get(id)
                    .map(|kept| kept.value)
                    .ok_or_else(|| away.into());
            }
        };
        self.tenants.insert(
            id.clone(),
            Kept {
                value: route.clone(),
                read_ms: now.unix_ms(),
            },
        );
        if self.forgotten.load(Ordering::Acquire) != before {
            self.tenants.remove(id);
        }
        Ok(route)
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

    /// Reads a route anew that has turned out to be stale, unless somebody has
    /// done so meanwhile. What is kept stays when the source is away.
    pub(crate) async fn refresh(&self, stale: &Arc<TenantRoute>, now: Timestamp) {
        let _one_at_a_time = self.refreshing.lock().await;
        let id = &stale.tenant_id;
        let unchanged = self
            .tenants
            .peek(id)
            .is_none_or(|kept| Arc::ptr_eq(&kept.value, stale));
        if !unchanged {
            return;
        }
        let before = self.forgotten.load(Ordering::Acquire);
        if let Ok(Some(value)) = self.source.tenant(id).await {
            let read_ms = now.unix_ms();
            self.tenants.insert(id.clone(), Kept { value, read_ms });
            if self.forgotten.load(Ordering::Acquire) != before {
                self.tenants.remove(id);
            }
        }
    }

    pub(crate) fn forget_tenant(&self, id: &TenantId) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.tenants.remove(id);
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
