//! API keys that flood a shard.

use std::collections::BTreeMap;

use ballast_domain::{ShardId, TenantId, Timestamp};

use super::cure::{Cause, Cure};
use super::facts::{Fleet, ShardFacts, over};
use super::finding::{Finding, Rejected};
use super::settings::Settings;
use crate::detect::Hotspot;
use crate::load::{KeyView, Window};
use crate::resources::Resources;
use crate::words::{percent, rounded};

/// So many of its calls a key may always make: it is throttled, not cut off.
const CALLS_MIN: f64 = 0.05;

/// A throttle that lets through more of what is let through now is none.
const WORTH_IT: f64 = 0.9;

/// A key that floods a shard, and what the shard would use without the flood.
pub(super) struct Flood {
    pub(super) cause: Cause,
    pub(super) cure: Cure,
    pub(super) evidence: Vec<String>,
    /// What the flood uses.
    pub(super) used: Resources,
}

/// A key that floods a shard and is held back already: what is refused costs
/// the shard little, and holding it back once more changes nothing.
pub(super) struct Held {
    cause: Cause,
    /// Calls a second that are let through.
    through: f64,
    pub(super) evidence: Vec<String>,
}

impl Held {
    /// The finding where nothing else explains hotspots.
    pub(super) fn held(self, at: Timestamp, shard: &ShardId, hotspots: Vec<Hotspot>) -> Finding {
        Finding {
            at,
            shards: vec![shard.clone()],
            hotspots,
            cause: self.cause,
            evidence: self.evidence,
            cure: Cure::Nothing,
            expected: Vec::new(),
            otherwise: "If the calls are a burden all the same, revoke the key and ask the tenant."
                .to_owned(),
            rejected: vec![Rejected {
                cure: "throttle",
                because: format!(
                    "it will not help, because only {} of its calls a second are let through \
                     already",
                    rounded(self.through)
                ),
            }],
            why_not: None,
        }
    }
}

/// The keys that flood a shard, and those of them that are held back already. A
/// key that is merely busy is not one of them: then its tenant is hot. Most of
/// its calls are refused, or its tenant has a limit and is far above it.
pub(super) fn floods(
    fleet: &Fleet<'_>,
    shard: &ShardFacts<'_>,
    limits: &BTreeMap<TenantId, f64>,
    settings: &Settings,
) -> (Vec<Flood>, Vec<Held>) {
    let keys = fleet.book.keys(shard.book, Window::Short, &shard.short);
    let named: f64 = keys.iter().map(|key| key.calls).sum();
    let calls = shard.short.flow.calls().max(named);
    let share = |key: &KeyView| if calls > 0.0 { key.calls / calls } else { 0.0 };
    let busy = keys.iter().filter(|key| share(key) >= settings.key_share);
    let (mut floods, mut all_held) = (Vec::new(), Vec::new());
    for key in busy {
        let refused = key.refused / key.calls;
        let limit = limits.get(&key.tenant).copied();
        let is_refused = refused >= settings.refused_share;
        let is_over = limit.is_some_and(|limit| key.calls > limit * settings.over_limit);
        if !is_refused && !is_over {
            continue;
        }
        let cost = Cost::of(fleet, shard, key);
        let to = match limit {
            Some(limit) => limit.min(cost.through),
            None => cost.accepted.min(cost.bearable(shard, settings)),
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
        let cause = Cause::AbusiveKey {
            key: key.key.clone(),
            tenant: key.tenant.clone(),
            share,
            refused,
        };
        if to > cost.through * WORTH_IT {
            let through = cost.through;
            evidence.push(format!(
                "it is held back already: {} of its calls a second are let through, and what is \
                 refused costs the shard little",
                rounded(through)
            ));
            all_held.push(Held {
                cause,
                through,
                evidence,
            });
            continue;
        }
        floods.push(Flood {
            cause,
            cure: Cure::Throttle {
                key: key.key.clone(),
                tenant: key.tenant.clone(),
                to,
            },
            evidence,
            used: cost.used.times(1.0 - to / cost.through),
        });
    }
    (floods, all_held)
}

/// What a key's calls use.
struct Cost {
    /// Calls a second that are not turned away as too many: those cost.
    through: f64,
    /// Of these, those that are not refused for another reason.
    accepted: f64,
    /// What those that are let through use: of its tenant's use, as much as they
    /// are of the tenant's calls. Bytes stored stay.
    used: Resources,
}

impl Cost {
    fn of(fleet: &Fleet<'_>, shard: &ShardFacts<'_>, key: &KeyView) -> Self {
        let mut used = Resources::default();
        let (mut errors, mut throttles) = (0.0, 0.0);
        for (slice, view) in fleet.book.slices(shard.book, Window::Short, &shard.short) {
            if slice.tenant_id == key.tenant {
                used += view.used;
                errors += view.errors;
                throttles += view.throttles;
            }
        }
        used.storage = 0.0;
        let of = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        // Of a key's refused calls it is not told why: as of its tenant's.
        let throttled = key.refused * of(throttles, throttles + errors);
        let through = key.calls - throttled;
        let refused = key.refused - throttled;
        let of_tenant = of(through, used.votes + used.queries + errors).min(1.0);
        Self {
            through,
            accepted: (through - refused).max(through * CALLS_MIN),
            used: used.times(of_tenant),
        }
    }

    /// How many of its calls the shard could bear.
    fn bearable(&self, shard: &ShardFacts<'_>, settings: &Settings) -> f64 {
        let (capacity, load) = (shard.book.capacity(), &shard.short.used);
        let parts = over(load, capacity, settings.aim).into_iter().map(|d| {
            let excess = load[d] - capacity[d] * settings.aim;
            match self.used[d] > 0.0 {
                true => (1.0 - excess / self.used[d]).max(CALLS_MIN),
                false => 1.0,
            }
        });
        self.through * parts.fold(1.0, f64::min)
    }
}
