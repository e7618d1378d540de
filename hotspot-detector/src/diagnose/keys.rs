//! API keys that flood a shard.

use std::collections::BTreeMap;

use ballast_domain::TenantId;

use super::cure::{Cause, Cure};
use super::facts::{Fleet, ShardFacts, over};
use super::settings::Settings;
use crate::load::{KeyView, Window};
use crate::resources::Resources;
use crate::words::{percent, rounded};

/// So many of its calls a key may always make: it is throttled, not cut off.
const CALLS_MIN: f64 = 0.05;

/// A key that floods a shard, and what the shard would use without the flood.
pub(super) struct Flood {
    pub(super) cause: Cause,
    pub(super) cure: Cure,
    pub(super) evidence: Vec<String>,
    /// What the flood uses.
    pub(super) used: Resources,
}

/// The keys that flood a shard. A key that is merely busy is not one of them:
/// then its tenant is hot. Most of its calls are refused, or its tenant has a
/// limit and is far above it.
pub(super) fn floods(
    fleet: &Fleet<'_>,
    shard: &ShardFacts<'_>,
    limits: &BTreeMap<TenantId, f64>,
    settings: &Settings,
) -> Vec<Flood> {
    let keys = fleet.book.keys(shard.book, Window::Short, &shard.short);
    let named: f64 = keys.iter().map(|key| key.calls).sum();
    let calls = shard.short.flow.calls().max(named);
    let share = |key: &KeyView| if calls > 0.0 { key.calls / calls } else { 0.0 };
    let busy = keys.iter().filter(|key| share(key) >= settings.key_share);
    busy.filter_map(|key| {
        let refused = key.refused / key.calls;
        let limit = limits.get(&key.tenant).copied();
        let is_refused = refused >= settings.refused_share;
        let is_over = limit.is_some_and(|limit| key.calls > limit * settings.over_limit);
        if !is_refused && !is_over {
            return None;
        }
        let accepted = (key.calls - key.refused).max(key.calls * CALLS_MIN);
        let to = match limit {
            Some(limit) => limit.min(key.calls),
            None => accepted.min(bearable(fleet, shard, key, settings)),
        };
        let to = to.max(1.0).ceil();
        let (share, rate) = (share(key), rounded(key.calls));
        let mut evidence = vec![format!(
            "key {} of {} makes {rate} calls/s, {} of the shard's",
            key.key,
            key.tenant,
            percent(share)
        )];
        if is_refused {
            evidence.push(format!("{} of its calls are refused", percent(refused)));
        }
        if let Some(limit) = limit.filter(|_| is_over) {
            evidence.push(format!("its tenant's limit is {}/s", rounded(limit)));
        }
        Some(Flood {
            cause: Cause::AbusiveKey {
                key: key.key.clone(),
                tenant: key.tenant.clone(),
                share,
                refused,
            },
            cure: Cure::Throttle {
                key: key.key.clone(),
                tenant: key.tenant.clone(),
                to,
            },
            evidence,
            used: used_by(fleet, shard, key, 1.0 - to / key.calls),
        })
    })
    .collect()
}

/// How many of its calls the shard could bear.
fn bearable(fleet: &Fleet<'_>, shard: &ShardFacts<'_>, key: &KeyView, settings: &Settings) -> f64 {
    let capacity = shard.book.capacity();
    let all = used_by(fleet, shard, key, 1.0);
    let parts = over(&shard.short.used, capacity, settings.aim)
        .into_iter()
        .map(|d| {
            let excess = shard.short.used[d] - capacity[d] * settings.aim;
            if all[d] > 0.0 {
                (1.0 - excess / all[d]).max(CALLS_MIN)
            } else {
                1.0
            }
        });
    key.calls * parts.fold(1.0, f64::min)
}

/// What a part of a key's calls use: of its tenant's use, as much as they are of
/// the tenant's calls. Bytes stored stay.
fn used_by(fleet: &Fleet<'_>, shard: &ShardFacts<'_>, key: &KeyView, part: f64) -> Resources {
    let mut used = Resources::default();
    let mut calls = 0.0;
    for (slice, view) in fleet.book.slices(shard.book, Window::Short, &shard.short) {
        if slice.tenant_id == key.tenant {
            used += view.used;
            calls += view.used.votes + view.used.queries + view.errors + view.throttles;
        }
    }
    used.storage = 0.0;
    let of_tenant = if calls > 0.0 {
        (key.calls / calls).min(1.0)
    } else {
        0.0
    };
    used.times(of_tenant * part.clamp(0.0, 1.0))
}
