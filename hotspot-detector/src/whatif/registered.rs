//! Adds registry data to a fleet from recorded load: residency, zones, pins and dials of
//! slices, and shard records.

use std::collections::BTreeMap;

use ballast_domain::shard;
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};

use crate::plan::FleetSnapshot;

/// Sets registry data on shards and slices. Returns the number of slices unknown to the
/// registry, which stay unchanged.
pub fn apply_registry(
    fleet: &mut FleetSnapshot,
    shards: &[shard::Shard],
    tenants: &[Tenant],
) -> usize {
    for known in shards {
        let mut measured = fleet.shards.iter_mut();
        if let Some(shard) = measured.find(|shard| shard.record.shard_id == known.shard_id) {
            shard.record = known.clone();
        }
    }
    let mut known = BTreeMap::new();
    for tenant in tenants {
        for part in &tenant.slices {
            let id = SliceId {
                tenant_id: tenant.tenant_id.clone(),
                slice: part.slice,
            };
            known.insert(id, (tenant, part));
        }
    }
    let mut unknown = 0;
    for slice in &mut fleet.slices {
        let Some((tenant, part)) = known.get(&slice.id) else {
            unknown += 1;
            continue;
        };
        slice.home_region = tenant.home_region.clone();
        slice.residency = tenant.residency.clone();
        slice.zones = tenant.zones.clone();
        slice.pin = tenant.pin.clone().map(Box::new);
        slice.dial = tenant.dial;
        slice.passed_over = part.passed_over.clone();
        slice.closed = tenant.status == TenantStatus::Closed;
    }
    unknown
}

#[cfg(test)]
mod tests {
    use ballast_domain::Timestamp;
    use ballast_domain::shard::{Pressure, ShardState};
    use ballast_domain::tenant::Dial;
    use serde_json::json;

    use super::*;
    use crate::plan::{PlanShard, PlanSlice, PlanTerms};
    use crate::resources::Resources;
    use crate::whatif::{FleetChange, simulate_changes};

    fn shard(name: &str, zone: &str) -> shard::Shard {
        shard::Shard {
            shard_id: name.parse().unwrap(),
            url: String::new(),
            region: "eu".parse().unwrap(),
            zones: vec![zone.parse().unwrap()],
            weight: 1.0,
            state: ShardState::Active,
            max_slices: 100,
            pressure: Pressure::Calm,
            created_at: Timestamp::from_unix_ms(0),
        }
    }

    /// A fleet as reconstructed from a record: two shards, and slices without registry data.
    fn measured(names: &[&str]) -> FleetSnapshot {
        let capacity = Resources {
            votes: 100.0,
            ..Resources::default()
        };
        let shards = ["a", "b"].map(|name| {
            let mut shard = PlanShard::new(shard(name, "any"), capacity);
            shard.record.zones.clear();
            shard
        });
        let slices = names.iter().map(|name| PlanSlice {
            id: SliceId {
                tenant_id: name.parse().unwrap(),
                slice: 0,
            },
            shard_id: "a".parse().unwrap(),
            demand: Resources::default(),
            bytes: 10,
            home_region: "eu".parse().unwrap(),
            residency: ballast_domain::residency::Residency::default(),
            zones: Vec::new(),
            pin: None,
            dial: Dial::Active,
            in_scope: true,
            placed_at: Timestamp::from_unix_ms(0),
            passed_over: Vec::new(),
            moving_to: None,
            closed: false,
        });
        FleetSnapshot {
            revision: 0,
            at: Timestamp::from_unix_ms(1_800_000_000_000),
            shards: shards.to_vec(),
            slices: slices.collect(),
        }
    }

    fn tenant(name: &str, more: serde_json::Value) -> Tenant {
        let mut tenant = json!({
            "tenantID": name, "name": name, "status": "active", "homeRegion": "eu",
            "residency": { "policy": "strict" }, "zones": [], "limits": {}, "corsOrigins": [],
            "slices": [{
                "slice": 0, "shardID": "a", "epoch": 1, "placedAt": "2026-01-01T00:00:00Z"
            }],
            "createdAt": "2026-01-01T00:00:00Z",
        });
        for (field, value) in more.as_object().unwrap() {
            tenant[field] = value.clone();
        }
        serde_json::from_value(tenant).unwrap()
    }

    #[test]
    fn moves_that_the_registry_forbids_are_not_simulated() {
        let mut fleet = measured(&["free", "stopped", "tied", "unknown"]);
        let drain = [FleetChange::Drain {
            shard_id: "a".parse().unwrap(),
        }];
        let moved = |fleet: &FleetSnapshot| -> Vec<String> {
            let answer = simulate_changes(fleet, &PlanTerms::default(), &drain).unwrap();
            let moves = answer.plan.moves.iter();
            let mut moved: Vec<_> = moves.map(|it| it.slice.tenant_id.to_string()).collect();
            moved.sort();
            moved
        };
        assert_eq!(moved(&fleet), ["free", "stopped", "tied", "unknown"]);
        let tenants = [
            tenant("free", json!({})),
            tenant("stopped", json!({ "dial": "stop" })),
            tenant("tied", json!({ "zones": ["green"] })),
        ];
        let shards = [shard("a", "green"), shard("b", "blue")];
        assert_eq!(apply_registry(&mut fleet, &shards, &tenants), 1);
        assert_eq!(moved(&fleet), ["free", "unknown"]);
    }
}
