//! Detects a registry that is older than its shards: a shard knows a later epoch
//! of a slice than the registry has ever issued.
//!
//! The registry issues epochs before shards learn them. So this happens only when
//! somebody has replaced the registry by an older copy, or a shard by one of
//! another fleet. The fence then refuses every write. Waiting does not help, so an
//! error is logged: an operator must act.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ballast_domain::ShardId;
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::{Epoch, Slice};
use ballast_vote_shard::ShardError;
use ballast_vote_shard::shard::FenceError;

use crate::RouterState;
use crate::deliver::RouteKey;

/// The least time between two checks, however many requests time out.
const CHECK_INTERVAL_MS: i64 = 10_000;

/// When the registry was checked last, and how often it was too old.
#[derive(Debug)]
pub(crate) struct StaleRegistryMonitor {
    checked_at_ms: AtomicI64,
    detected: AtomicU64,
}

impl Default for StaleRegistryMonitor {
    fn default() -> Self {
        Self {
            checked_at_ms: AtomicI64::new(i64::MIN),
            detected: AtomicU64::new(0),
        }
    }
}

impl RouterState {
    /// How often a shard knew a later epoch than the registry had issued.
    pub fn stale_registry_count(&self) -> u64 {
        self.parts.stale_registry.detected.load(Ordering::Relaxed)
    }

    /// Checks, after a request was refused until its deadline, whether the shard
    /// is ahead of the registry, and not just ahead of this router's cached route.
    pub(super) async fn check_registry_age(
        &self,
        route: &TenantRoute,
        route_key: &RouteKey,
        refusal: &ShardError,
    ) {
        let Some(epoch) = epoch_of_refusal(refusal) else {
            return;
        };
        let Some((shard, _)) = owner_behind(route, route_key, epoch) else {
            return;
        };
        let monitor = &self.parts.stale_registry;
        let now_ms = self.parts.clock.now().unix_ms();
        let checked_at_ms = monitor.checked_at_ms.load(Ordering::Acquire);
        if now_ms < checked_at_ms.saturating_add(CHECK_INTERVAL_MS) {
            return;
        }
        monitor.checked_at_ms.store(now_ms, Ordering::Release);
        // The shard has answered before this read, so the read includes every epoch
        // that the shard can know.
        let Ok(Some(fresh)) = self.parts.source.tenant(&route.tenant_id).await else {
            return;
        };
        if let Some((owner, highest)) = owner_behind(&fresh, route_key, epoch)
            && owner == shard
        {
            monitor.detected.fetch_add(1, Ordering::Relaxed);
            let tenant = &route.tenant_id;
            tracing::error!(%tenant, %shard, shard_epoch = epoch.0, registry_epoch = highest.0, "the registry is older than the shard, which refuses votes of this tenant: see docs/operating.md");
        }
    }
}

/// The epoch that a shard named in its refusal, if it did.
fn epoch_of_refusal(refusal: &ShardError) -> Option<Epoch> {
    match refusal {
        ShardError::Fenced(FenceError::NotOwner { epoch }) => *epoch,
        ShardError::Fenced(FenceError::Sealed { epoch }) => Some(*epoch),
        _ => None,
    }
}

/// The owner by this route and the highest epoch issued for the slice, if that is
/// lower than `epoch`.
fn owner_behind<'r>(
    route: &'r TenantRoute,
    route_key: &RouteKey,
    epoch: Epoch,
) -> Option<(&'r ShardId, Epoch)> {
    let slice = route_key.slice(route)?;
    let highest = highest_epoch(slice);
    (epoch > highest).then_some((&slice.shard_id, highest))
}

fn highest_epoch(slice: &Slice) -> Epoch {
    slice
        .spent_epoch
        .map_or(slice.epoch, |spent| spent.max(slice.epoch))
}
