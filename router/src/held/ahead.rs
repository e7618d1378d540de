//! A shard that knows a later epoch of a slice than the registry ever gave out.
//!
//! It cannot be while the registry is whole: epochs are given out there, and a
//! shard hears of them afterwards. Somebody put an older copy of the registry in
//! its place, or a shard of another fleet. Nothing is written then, because the
//! fence refuses it; but waiting does not help either, and a human must know.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ballast_domain::ShardId;
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::{Epoch, Slice};
use ballast_vote_shard::ShardError;
use ballast_vote_shard::shard::Fenced;

use crate::State;
use crate::deliver::Target;

/// How often it is looked into, however many wait in vain.
const PAUSE_MS: i64 = 10_000;

/// What was found since the start.
#[derive(Debug)]
pub(crate) struct Ahead {
    looked_at_ms: AtomicI64,
    found: AtomicU64,
}

impl Default for Ahead {
    fn default() -> Self {
        Self {
            looked_at_ms: AtomicI64::new(i64::MIN),
            found: AtomicU64::new(0),
        }
    }
}

impl State {
    /// How often a shard was found to know a later epoch than the registry has
    /// given out.
    pub fn found_ahead(&self) -> u64 {
        self.parts.ahead.found.load(Ordering::Relaxed)
    }

    /// Looks into a refusal that lasted: whether the shard is ahead of the
    /// registry, and not just this router's route behind it.
    pub(super) async fn look_into(&self, route: &TenantRoute, target: &Target, told: &ShardError) {
        let Some(epoch) = refused_at(told) else {
            return;
        };
        let Some((shard, _)) = outrun(route, target, epoch) else {
            return;
        };
        let (ahead, now_ms) = (&self.parts.ahead, self.parts.clock.now().unix_ms());
        let looked = ahead.looked_at_ms.load(Ordering::Acquire);
        if now_ms < looked.saturating_add(PAUSE_MS) {
            return;
        }
        ahead.looked_at_ms.store(now_ms, Ordering::Release);
        // The shard was asked before: what was given out until then is in this answer.
        let Ok(Some(fresh)) = self.parts.source.tenant(&route.tenant_id).await else {
            return;
        };
        if let Some((owner, spent)) = outrun(&fresh, target, epoch)
            && owner == shard
        {
            ahead.found.fetch_add(1, Ordering::Relaxed);
            let tenant = &route.tenant_id;
            tracing::error!(%tenant, %shard, shard_epoch = epoch.0, registry_epoch = spent.0, "the registry is older than the shard, and takes no votes of this tenant: see docs/operating.md");
        }
    }
}

/// The epoch at which a shard refused, if it knows one.
fn refused_at(told: &ShardError) -> Option<Epoch> {
    match told {
        ShardError::Fenced(Fenced::Moved { epoch }) => *epoch,
        ShardError::Fenced(Fenced::Sealed { epoch }) => Some(*epoch),
        _ => None,
    }
}

/// Who owns the target by this route, and the last epoch that was given out for
/// it, if that is lower than this one.
fn outrun<'r>(
    route: &'r TenantRoute,
    target: &Target,
    epoch: Epoch,
) -> Option<(&'r ShardId, Epoch)> {
    let slice = target.slice(route)?;
    let spent = spent(slice);
    (epoch > spent).then_some((&slice.shard_id, spent))
}

fn spent(slice: &Slice) -> Epoch {
    slice
        .spent_epoch
        .map_or(slice.epoch, |spent| spent.max(slice.epoch))
}
