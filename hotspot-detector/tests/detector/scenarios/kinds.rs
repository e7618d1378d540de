//! The kinds of scenarios, generated from a seed, each with its expected findings.

use ballast_domain::ShardId;
use ballast_domain::tenant::SliceId;
use ballast_hotspot_detector::diagnose::Finding;

use super::world::{LoadShape, SimulatedCounter, SimulatedFleet, SimulatedFlood};

/// An expected finding.
pub(crate) struct ExpectedFinding {
    pub(crate) cause: &'static str,
    pub(crate) cure: &'static str,
    /// The shard, if it is a single one.
    pub(crate) shard: Option<ShardId>,
    /// A slice that must be in the cure.
    pub(crate) slice: Option<SliceId>,
}

impl ExpectedFinding {
    pub(crate) fn matches(&self, finding: &Finding) -> bool {
        self.cause == finding.cause.name()
            && self.cure == finding.cure.name()
            && self
                .shard
                .iter()
                .all(|shard| finding.shards.contains(shard))
            && self
                .slice
                .iter()
                .all(|slice| finding.cure.slices().contains(&slice))
    }
}

pub(crate) struct Scenario {
    pub(crate) world: SimulatedFleet,
    /// The expected cures; no others are allowed.
    pub(crate) truths: Vec<ExpectedFinding>,
    /// A finding that must be reported without a cure.
    pub(crate) reported: Option<(&'static str, &'static str)>,
    pub(crate) minutes: u64,
}

/// A kind of scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScenarioKind {
    AbusiveKey,
    HotCounter,
    HotTenant,
    TenantBiggerThanAnyShard,
    WarmTenants,
    FullFleet,
    Spike,
    TwoAtOnce,
    Oscillating,
    Noise,
    // Beyond the ten.
    FullRegion,
    SickShard,
    CoolCounter,
    FullOfBytes,
    Gaps,
    OnePoll,
    SplitDoesNotHelp,
}

impl ScenarioKind {
    pub(crate) const TEN: [Self; 10] = [
        Self::AbusiveKey,
        Self::HotCounter,
        Self::HotTenant,
        Self::TenantBiggerThanAnyShard,
        Self::WarmTenants,
        Self::FullFleet,
        Self::Spike,
        Self::TwoAtOnce,
        Self::Oscillating,
        Self::Noise,
    ];

    pub(crate) const MORE: [Self; 7] = [
        Self::FullRegion,
        Self::SickShard,
        Self::CoolCounter,
        Self::FullOfBytes,
        Self::Gaps,
        Self::OnePoll,
        Self::SplitDoesNotHelp,
    ];

    pub(crate) fn make(self, seed: u64) -> Scenario {
        let mut world = SimulatedFleet::calm(seed.wrapping_mul(31).wrapping_add(self as u64));
        let mut reported = None;
        let truths = match self {
            Self::AbusiveKey => vec![abusive_key(&mut world, 0)],
            Self::HotCounter => vec![hot_counter(&mut world)],
            Self::HotTenant => vec![hot_tenant(&mut world, 0)],
            Self::TenantBiggerThanAnyShard => vec![bigger(&mut world)],
            Self::WarmTenants => vec![warm(&mut world)],
            Self::FullFleet => vec![full(&mut world, None)],
            Self::Spike => {
                reported = Some(("spike", "wait"));
                spike(&mut world);
                Vec::new()
            }
            Self::TwoAtOnce => vec![abusive_key(&mut world, 0), hot_tenant(&mut world, 1)],
            Self::Oscillating => {
                oscillating(&mut world);
                Vec::new()
            }
            Self::Noise => {
                noise(&mut world);
                Vec::new()
            }
            Self::FullRegion => vec![full(&mut world, Some("us"))],
            Self::SickShard => {
                reported = Some(("sick shard", "nothing"));
                let shard = world.some_shard();
                world.shards[shard].sick = world.chance.between(0.9, 1.0);
                Vec::new()
            }
            Self::CoolCounter => vec![cool_counter(&mut world)],
            Self::FullOfBytes => vec![full_of_bytes(&mut world)],
            Self::Gaps => {
                let truth = hot_tenant(&mut world, 0);
                world.gaps = 0.3;
                vec![truth]
            }
            Self::OnePoll => {
                reported = Some(("hot tenant", "nothing"));
                one_poll(&mut world);
                Vec::new()
            }
            Self::SplitDoesNotHelp => {
                world.comes_apart = false;
                vec![bigger(&mut world)]
            }
        };
        let minutes = if self == Self::CoolCounter || self == Self::Gaps {
            60
        } else {
            35
        };
        Scenario {
            world,
            truths,
            reported,
            minutes,
        }
    }
}

fn truth(
    cause: &'static str,
    cure: &'static str,
    world: &SimulatedFleet,
    shard: usize,
    slice: Option<usize>,
) -> ExpectedFinding {
    ExpectedFinding {
        cause,
        cure,
        shard: Some(world.shards[shard].name.clone()),
        slice: slice.map(|tenant| world.tenants[tenant].slice.clone()),
    }
}

fn abusive_key(world: &mut SimulatedFleet, shard: usize) -> ExpectedFinding {
    let tenant = world.some_tenant_on(shard);
    let capacity = world.shards[shard].capacity;
    let refused = world.chance.between(0.6, 0.99);
    // The accepted calls use a part of the shard's capacity; the rest is rejected.
    let accepted = capacity.queries * world.chance.between(0.2, 0.5);
    let flood = SimulatedFlood {
        tenant,
        key: format!("key-{tenant}-bad").parse().unwrap(),
        calls: (accepted / (1.0 - refused)).max(capacity.votes * 0.6),
        refused: refused.max(1.0 - accepted / (capacity.votes * 0.6)),
        concurrency: capacity.concurrency * world.chance.between(0.9, 1.3),
        at: world.chance.between(11.0, 14.0),
        limit: None,
    };
    world.floods.push(flood);
    truth("abusive key", "throttle", world, shard, None)
}

fn hot_counter(world: &mut SimulatedFleet) -> ExpectedFinding {
    let shard = world.some_shard();
    let tenant = world.some_tenant_on(shard);
    let room = world.shards[shard].capacity.votes * 0.35;
    let lanes = if room < 6_000.0 { 2 } else { 4 };
    let counter = SimulatedCounter {
        tenant,
        name: world.item(tenant),
        votes: (f64::from(lanes) * 1_000.0 * world.chance.between(0.9, 1.6)).min(room),
        lanes: vec![100_000; lanes as usize],
        at: world.chance.between(11.0, 14.0),
        until: 1_000.0,
        waits: world.chance.between(0.5, 0.9),
    };
    world.counters.push(counter);
    truth("hot counter", "more lanes", world, shard, None)
}

fn hot_tenant(world: &mut SimulatedFleet, shard: usize) -> ExpectedFinding {
    let more = (0.42 - world.fill(shard)).max(0.02);
    world.settle(shard, 2, more);
    let others = world.fill(shard);
    let quiet = 0.05;
    let tenant = world.tenant(shard, quiet);
    // Enough to overload its shard, not too much for an empty one.
    let least = 1.0 - others;
    let share = world
        .chance
        .between(least, least.max(0.62))
        .clamp(0.52, 0.62);
    let at = world.chance.between(11.0, 14.0);
    world.tenants[tenant].shape = LoadShape::Step {
        at,
        factor: share / quiet,
    };
    // So that one shard at least has room for it.
    let empty = world.shards.len();
    let capacity = world.shards[0].capacity;
    world.shards.push(super::world::SimulatedShard {
        name: format!("shard-{}", empty + 1).parse().unwrap(),
        region: "eu",
        capacity,
        sick: 0.0,
    });
    world.settle(empty, 3, 0.05);
    truth("hot tenant", "move", world, shard, Some(tenant))
}

fn bigger(world: &mut SimulatedFleet) -> ExpectedFinding {
    let shard = world.some_shard();
    let quiet = 0.05;
    let tenant = world.tenant(shard, quiet);
    let share = world.chance.between(0.95, 1.5);
    let at = world.chance.between(11.0, 14.0);
    world.tenants[tenant].shape = LoadShape::Step {
        at,
        factor: share / quiet,
    };
    world.tenants[tenant].base.storage *= 0.2;
    truth("hot tenant", "split", world, shard, Some(tenant))
}

/// A tenant that is too much for any shard, because of one poll: its counter
/// has lanes enough.
fn one_poll(world: &mut SimulatedFleet) {
    let shard = world.some_shard();
    let tenant = world.tenant(shard, 0.05);
    let votes = world.shards[shard].capacity.votes * world.chance.between(0.95, 1.3);
    let counter = SimulatedCounter {
        tenant,
        name: world.item(tenant),
        votes,
        lanes: vec![100_000; (votes / 400.0) as usize],
        at: world.chance.between(11.0, 14.0),
        until: 1_000.0,
        waits: 0.0,
    };
    world.counters.push(counter);
}

fn warm(world: &mut SimulatedFleet) -> ExpectedFinding {
    let shard = world.some_shard();
    world.tenants.retain(|tenant| tenant.shard != shard);
    let many = 6 + world.chance.below(8);
    let fill = world.chance.between(0.99, 1.15);
    let first = world.tenants.len();
    world.settle(shard, many, fill * 0.4);
    let at = world.chance.between(11.0, 14.0);
    for tenant in &mut world.tenants[first..] {
        tenant.shape = LoadShape::Step { at, factor: 2.5 };
    }
    truth("warm tenants", "move", world, shard, None)
}

fn full(world: &mut SimulatedFleet, region: Option<&'static str>) -> ExpectedFinding {
    if let Some(region) = region {
        let first = world.shards.len() / 2;
        for shard in &mut world.shards[first..] {
            shard.region = region;
        }
    }
    let at = world.chance.between(11.0, 14.0);
    let filled: Vec<_> = (0..world.shards.len())
        .filter(|at| region.is_none_or(|region| world.shards[*at].region == region))
        .collect();
    let level = world.chance.between(0.97, 1.05);
    for shard in &filled {
        let factor = level / world.fill(*shard);
        for tenant in world
            .tenants
            .iter_mut()
            .filter(|tenant| tenant.shard == *shard)
        {
            tenant.shape = LoadShape::Step { at, factor };
        }
    }
    ExpectedFinding {
        cause: if region.is_some() {
            "full region"
        } else {
            "full fleet"
        },
        cure: "add shards",
        shard: None,
        slice: None,
    }
}

fn spike(world: &mut SimulatedFleet) {
    let shard = world.some_shard();
    let at = world.chance.between(11.0, 14.0);
    let until = at + world.chance.between(2.8, 3.8);
    let factor = world.chance.between(1.2, 1.35) / world.fill(shard);
    for tenant in world
        .tenants
        .iter_mut()
        .filter(|tenant| tenant.shard == shard)
    {
        tenant.shape = LoadShape::Pulse { at, until, factor };
    }
}

fn oscillating(world: &mut SimulatedFleet) {
    let shard = world.some_shard();
    let period = world.chance.between(2.0, 6.0);
    let factor = world.chance.between(0.97, 1.05) / world.fill(shard);
    for tenant in world
        .tenants
        .iter_mut()
        .filter(|tenant| tenant.shard == shard)
    {
        tenant.shape = LoadShape::Wave { period, factor };
    }
}

fn noise(world: &mut SimulatedFleet) {
    world.noise = world.chance.between(0.3, 0.6);
    world.gaps = world.chance.between(0.0, 0.2);
    let factor = world.chance.between(5.0, 15.0);
    for tenant in &mut world.tenants {
        tenant.shape = LoadShape::Jitter { factor };
    }
}

fn cool_counter(world: &mut SimulatedFleet) -> ExpectedFinding {
    let shard = world.some_shard();
    let tenant = world.some_tenant_on(shard);
    let lanes = 40 + world.chance.below(100);
    // The later ones have hardly a vote: those are to go.
    let some = |lane| match lane < 10 {
        true => 100_000,
        false => (world.chance.below(40) / 13) as u64,
    };
    let filled = (0..lanes).map(some).collect();
    let counter = SimulatedCounter {
        tenant,
        name: world.item(tenant),
        votes: lanes as f64 * 60.0_f64.min(world.shards[shard].capacity.votes * 0.3 / lanes as f64),
        lanes: filled,
        at: 0.0,
        until: world.chance.between(11.0, 14.0),
        waits: 0.0,
    };
    world.counters.push(counter);
    truth("cool counter", "fewer lanes", world, shard, None)
}

/// The user's first rule: nearly full and slow.
fn full_of_bytes(world: &mut SimulatedFleet) -> ExpectedFinding {
    let shard = world.some_shard();
    let tenants: Vec<_> = (0..world.tenants.len())
        .filter(|at| world.tenants[*at].shard == shard)
        .collect();
    let stored: f64 = tenants
        .iter()
        .map(|at| world.tenants[*at].base.storage)
        .sum();
    let wanted = world.shards[shard].capacity.storage * world.chance.between(0.97, 0.98);
    for tenant in tenants {
        world.tenants[tenant].base.storage *= wanted / stored;
    }
    world.shards[shard].sick = 0.0;
    truth("warm tenants", "move", world, shard, None)
}
