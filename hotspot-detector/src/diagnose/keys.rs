//! API keys that flood a shard with calls.

use std::collections::BTreeMap;

use ballast_domain::{ShardId, TenantId, Timestamp};

use super::cure::{Cure, HotspotCause};
use super::facts::{MeasuredFleet, ShardFacts, over};
use super::finding::{Finding, Rejected};
use super::settings::DiagnosisSettings;
use crate::detect::Hotspot;
use crate::format::{percent, rounded};
use crate::load::{KeyWindow, Window};
use crate::resources::Resources;

/// The share of its calls that a throttled key may always make: it is not cut off.
const CALLS_MIN: f64 = 0.05;

/// A throttle to more than this share of the current rate is not worth it.
const WORTH_IT: f64 = 0.9;

/// A key that floods a shard, and the load it causes.
pub(super) struct FloodingKey {
    pub(super) cause: HotspotCause,
    pub(super) cure: Cure,
    pub(super) evidence: Vec<String>,
    /// The load that the flood causes.
    pub(super) used: Resources,
}

/// A flooding key that is throttled already: rejected calls cost the shard little, and
/// another throttle would change nothing.
pub(super) struct ThrottledKey {
    cause: HotspotCause,
    /// Calls per second that pass the throttle.
    through: f64,
    pub(super) evidence: Vec<String>,
}

impl ThrottledKey {
    /// The finding for hotspots that nothing else explains.
    pub(super) fn into_finding(
        self,
        at: Timestamp,
        shard: &ShardId,
        hotspots: Vec<Hotspot>,
    ) -> Finding {
        Finding {
            at,
            shards: vec![shard.clone()],
            hotspots,
            cause: self.cause,
            evidence: self.evidence,
            cure: Cure::Nothing,
            expected: Vec::new(),
            otherwise: "If the calls are still a problem, revoke the key and contact the tenant."
                .to_owned(),
            rejected: vec![Rejected {
                cure: "throttle",
                because: format!(
                    "it will not help: only {} of its calls/s pass the current limit",
                    rounded(self.through)
                ),
            }],
            why_not: None,
        }
    }
}

/// The keys that flood a shard, and those that are throttled already. A key floods if most
/// of its calls are rejected or it is far above its tenant's limit; a merely busy key is
/// load of its tenant.
pub(super) fn floods(
    fleet: &MeasuredFleet<'_>,
    shard: &ShardFacts<'_>,
    limits: &BTreeMap<TenantId, f64>,
    settings: &DiagnosisSettings,
) -> (Vec<FloodingKey>, Vec<ThrottledKey>) {
    let keys = fleet
        .history
        .keys(shard.history, Window::Short, &shard.short);
    let listed: f64 = keys.iter().map(|key| key.calls).sum();
    let calls = shard.short.flow.calls().max(listed);
    let share = |key: &KeyWindow| if calls > 0.0 { key.calls / calls } else { 0.0 };
    let busy = keys.iter().filter(|key| share(key) >= settings.key_share);
    let (mut floods, mut throttled_keys) = (Vec::new(), Vec::new());
    for key in busy {
        let refused = key.refused / key.calls;
        let limit = limits.get(&key.tenant).copied();
        let is_refused = refused >= settings.refused_share;
        let is_over = limit.is_some_and(|limit| key.calls > limit * settings.over_limit);
        if !is_refused && !is_over {
            continue;
        }
        let cost = KeyCost::measure(fleet, shard, key);
        let to = match limit {
            Some(limit) => limit.min(cost.through),
            None => cost.accepted.min(cost.bearable(shard, settings)),
        };
        let to = to.max(1.0).ceil();
        let share = share(key);
        let mut evidence = flood_evidence(
            key,
            share,
            is_refused.then_some(refused),
            limit.filter(|_| is_over),
        );
        let cause = HotspotCause::AbusiveKey {
            key: key.key.clone(),
            tenant: key.tenant.clone(),
            share,
            refused,
        };
        if to > cost.through * WORTH_IT {
            let through = cost.through;
            evidence.push(format!(
                "it is throttled already: {} of its calls/s pass, and rejected calls cost the \
                 shard little",
                rounded(through)
            ));
            throttled_keys.push(ThrottledKey {
                cause,
                through,
                evidence,
            });
            continue;
        }
        floods.push(FloodingKey {
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
    (floods, throttled_keys)
}

/// What shows that a key floods its shard: its share of the calls, and the share of rejected
/// calls or the exceeded limit, where that is the reason.
fn flood_evidence(
    key: &KeyWindow,
    share: f64,
    refused: Option<f64>,
    limit: Option<f64>,
) -> Vec<String> {
    let mut evidence = vec![format!(
        "key {} of {} makes {} calls/s, {} of the shard's calls",
        key.key,
        key.tenant,
        rounded(key.calls),
        percent(share)
    )];
    if let Some(refused) = refused {
        evidence.push(format!("{} of its calls are rejected", percent(refused)));
    }
    if let Some(limit) = limit {
        evidence.push(format!("its tenant's limit is {}/s", rounded(limit)));
    }
    evidence
}

/// The load that a key's calls cause.
struct KeyCost {
    /// Calls per second that pass the rate limit.
    through: f64,
    /// Of these, the calls that are not rejected for another reason.
    accepted: f64,
    /// The load of the calls that pass: the key's share of its tenant's calls, applied to
    /// the tenant's load. Storage is not included.
    used: Resources,
}

impl KeyCost {
    fn measure(fleet: &MeasuredFleet<'_>, shard: &ShardFacts<'_>, key: &KeyWindow) -> Self {
        let mut used = Resources::default();
        let (mut errors, mut throttles) = (0.0, 0.0);
        for (slice, view) in fleet
            .history
            .slices(shard.history, Window::Short, &shard.short)
        {
            if slice.tenant_id == key.tenant {
                used += view.used;
                errors += view.errors;
                throttles += view.throttles;
            }
        }
        used.storage = 0.0;
        let share_of = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        // The reasons are not known per key: assume the tenant's ratio of throttles to errors.
        let throttled = key.refused * share_of(throttles, throttles + errors);
        let through = key.calls - throttled;
        let refused = key.refused - throttled;
        let of_tenant = share_of(through, used.votes + used.queries + errors).min(1.0);
        Self {
            through,
            accepted: (through - refused).max(through * CALLS_MIN),
            used: used.times(of_tenant),
        }
    }

    /// How many of the key's calls per second the shard can serve.
    fn bearable(&self, shard: &ShardFacts<'_>, settings: &DiagnosisSettings) -> f64 {
        let (capacity, load) = (shard.history.capacity(), &shard.short.used);
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
