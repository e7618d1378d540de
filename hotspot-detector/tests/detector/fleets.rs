//! Small fleets for tests, and random ones with every kind of obstacle.

use proptest::prelude::*;

use ballast_domain::Actor;
use ballast_domain::clock::Timestamp;
use ballast_domain::id::{RegionId, ShardId, ZoneId};
use ballast_domain::residency::Residency;
use ballast_domain::shard::{self, Pressure, ShardState};
use ballast_domain::tenant::{Pin, SliceId};
use ballast_hotspot_detector::plan::{Dial, FleetSnapshot, PlanShard, PlanSlice};
use ballast_hotspot_detector::resources::Resources;

pub(crate) const NOW: Timestamp = Timestamp::from_unix_ms(1_794_800_000_000);

pub(crate) fn region(n: usize) -> RegionId {
    format!("region-{n}").parse().unwrap()
}

pub(crate) fn zone(n: usize) -> ZoneId {
    format!("zone-{n}").parse().unwrap()
}

pub(crate) fn shard_id(n: usize) -> ShardId {
    format!("shard-{n}").parse().unwrap()
}

/// A shard in region 0 with room for 100 of everything.
pub(crate) fn shard(n: usize) -> PlanShard {
    let record = shard::Shard {
        shard_id: shard_id(n),
        url: format!("file:shards/{n}"),
        region: region(0),
        zones: Vec::new(),
        weight: 1.0,
        state: ShardState::Active,
        max_slices: 1_000,
        pressure: Pressure::Calm,
        created_at: NOW.plus_seconds(-1_000_000),
    };
    let capacity = Resources {
        votes: 100.0,
        queries: 100.0,
        storage: 100.0,
        ..Resources::default()
    };
    PlanShard::new(record, capacity)
}

/// A slice of region 0 that was placed long ago.
pub(crate) fn slice(name: &str, on: usize, demand: Resources) -> PlanSlice {
    PlanSlice {
        id: SliceId {
            tenant_id: name.parse().unwrap(),
            slice: 0,
        },
        shard_id: shard_id(on),
        demand,
        // Storage is counted in MiB here.
        bytes: (demand.storage as u64) << 20,
        home_region: region(0),
        residency: Residency::Strict,
        zones: Vec::new(),
        pin: None,
        dial: Dial::Active,
        in_scope: true,
        placed_at: NOW.plus_seconds(-900_000),
        passed_over: Vec::new(),
        moving_to: None,
        closed: false,
    }
}

pub(crate) fn votes(votes: f64, storage: f64) -> Resources {
    Resources {
        votes,
        storage,
        ..Resources::default()
    }
}

pub(crate) fn pin(to: usize) -> Option<Box<Pin>> {
    Some(Box::new(Pin {
        shard_id: shard_id(to),
        actor: Actor::ballast("test"),
        reason: None,
        at: NOW,
    }))
}

pub(crate) fn fleet(shards: Vec<PlanShard>, slices: Vec<PlanSlice>) -> FleetSnapshot {
    FleetSnapshot {
        revision: 7,
        at: NOW,
        shards,
        slices,
    }
}

prop_compose! {
    fn any_shard(n: usize)(
        state in prop_oneof![
            12 => Just(ShardState::Active),
            2 => Just(ShardState::Draining),
            1 => Just(ShardState::Down),
        ],
        at in 0usize..2,
        zones in prop::collection::vec(0usize..2, 0..2),
        weight in prop_oneof![Just(1.0), Just(2.0)],
        slices_max in prop_oneof![3 => Just(1_000u64), 1 => 1u64..12],
        busy in any::<bool>(),
        size in 0.5f64..2.0,
        overhead in prop_oneof![4 => Just(0.0), 1 => 0.0f64..30.0],
        storage_unlimited in prop::bool::weighted(0.1),
    ) -> PlanShard {
        let mut made = shard(n);
        made.record.state = state;
        made.record.region = region(at);
        made.record.zones = zones.into_iter().map(zone).collect();
        made.record.weight = weight;
        made.record.max_slices = slices_max;
        made.record.pressure = if busy { Pressure::Busy } else { Pressure::Calm };
        made.capacity = made.capacity.times(size);
        made.overhead.votes = overhead;
        if storage_unlimited {
            made.capacity.storage = 0.0;
        }
        made
    }
}

prop_compose! {
    fn any_slice(n: usize, shards: usize)(
        on in 0..shards,
        load in (0.0f64..25.0, 0.0f64..25.0, 0.0f64..25.0),
        big in prop::bool::weighted(0.05),
        home in 0usize..2,
        travels in prop::bool::weighted(0.3),
        wants in prop::option::weighted(0.2, 0usize..2),
        pinned in prop::option::weighted(0.1, 0..shards),
        dial in prop_oneof![
            10 => Just(Dial::Active),
            1 => Just(Dial::Essential),
            1 => Just(Dial::Pause),
            1 => Just(Dial::Stop),
        ],
        fresh in prop::bool::weighted(0.1),
        moving in prop::option::weighted(0.05, 0..shards),
        closed in prop::bool::weighted(0.05),
    ) -> PlanSlice {
        let factor = if big { 6.0 } else { 1.0 };
        let demand = Resources {
            votes: load.0 * factor,
            queries: load.1,
            storage: load.2.round(),
            ..Resources::default()
        };
        let mut made = slice(&format!("tenant-{n}"), on, demand);
        made.home_region = region(home);
        if travels {
            made.residency = Residency::Permitted { secondary_regions: vec![region(1 - home)] };
        }
        made.zones = wants.into_iter().map(zone).collect();
        made.pin = pinned.and_then(pin);
        made.dial = dial;
        if fresh {
            made.placed_at = NOW.plus_seconds(-60);
        }
        made.moving_to = moving.filter(|to| *to != on).map(shard_id);
        made.closed = closed;
        made
    }
}

/// A random fleet with every kind of obstacle.
pub(crate) fn any_fleet() -> impl Strategy<Value = FleetSnapshot> {
    (2usize..9, 0usize..60).prop_flat_map(|(shards, slices)| {
        let all: Vec<_> = (0..shards).map(any_shard).collect();
        let slices: Vec<_> = (0..slices).map(|n| any_slice(n, shards)).collect();
        (all, slices).prop_map(|(shards, slices)| fleet(shards, slices))
    })
}
