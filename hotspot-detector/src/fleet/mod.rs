//! Generated fleets: tenants with Zipf-distributed load, daily and weekly seasons, flash crowds
//! and growth. For tests, what-if simulations and benchmarks.
//!
//! ```text
//!   shape + seed ─► generator ─► shards, slices (one after the other)
//!                            └─► load of tenant n at a moment
//! ```
//! Everything is a function of the shape, the seed and a number, without state: tenant 999,999
//! costs no more than tenant 0, and the same seed gives the same fleet on every machine.

mod chance;
mod load;
mod record;
mod shape;

pub use shape::{FleetShape, SliceSpread};

use ballast_domain::bounds::SLICES_PER_SHARD_DEFAULT;
use ballast_domain::clock::Timestamp;
use ballast_domain::id::{BadId, RegionId, ShardId, ZoneId};
use ballast_domain::placement::{
    PlacementFleet as Placement, PlacementShard, PlacementSubject, decide, slice_hash,
};
use ballast_domain::residency::Residency;
use ballast_domain::shard::{self, Pressure, ShardState};
use ballast_domain::tenant::SliceId;

use crate::plan::{Dial, FleetSnapshot, PlanShard, PlanSlice};
use crate::resources::Resources;
use chance::SeededHash;

/// Generates a fleet, part by part.
#[derive(Debug, Clone)]
pub struct Generator {
    shape: FleetShape,
    chance: SeededHash,
    regions: Vec<RegionId>,
    zones: Vec<ZoneId>,
    /// The mean load of a tenant on an average day.
    mean: Resources,
    /// The load share of the first tenant by rank.
    top: f64,
    placement: Placement,
    shards: Vec<shard::Shard>,
}

impl Generator {
    /// A generator of fleets of this shape.
    ///
    /// # Errors
    ///
    /// If the shape has too many regions or zones for valid IDs.
    pub fn new(shape: FleetShape) -> Result<Self, BadId> {
        let ids =
            |kind: &'static str, count: u32| (0..count.max(1)).map(move |n| format!("{kind}-{n}"));
        let regions = ids("region", shape.regions)
            .map(|name| name.parse())
            .collect::<Result<Vec<RegionId>, _>>()?;
        let zones = ids("zone", shape.zones)
            .map(|name| name.parse())
            .collect::<Result<Vec<ZoneId>, _>>()?;
        let mut generator = Self {
            chance: SeededHash::new(shape.seed),
            regions,
            zones,
            mean: load::mean(&shape),
            top: load::top(&shape),
            placement: Placement::default(),
            shards: Vec::new(),
            shape,
        };
        generator.shards = (0..generator.shape.shards)
            .map(|n| generator.record(n))
            .collect::<Result<_, _>>()?;
        let views = generator
            .shards
            .iter()
            .map(|shard| PlacementShard::new(shard, 0));
        generator.placement = Placement::new(views.collect());
        Ok(generator)
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &FleetShape {
        &self.shape
    }

    fn record(&self, n: u32) -> Result<shard::Shard, BadId> {
        let heavy = self.chance.share(chance::HEAVY, u64::from(n)) < self.shape.heavy_shards;
        let zones = self.zones.len() as u32;
        Ok(shard::Shard {
            shard_id: format!("shard-{n:05}").parse::<ShardId>()?,
            url: format!("file:shards/{n:05}"),
            region: self.regions[n as usize % self.regions.len()].clone(),
            // Every shard has one zone, in turn within its region.
            zones: vec![self.zones[(n / self.regions.len() as u32 % zones) as usize].clone()],
            weight: if heavy { 2.0 } else { 1.0 },
            state: ShardState::Active,
            max_slices: SLICES_PER_SHARD_DEFAULT,
            pressure: Pressure::Calm,
            created_at: self.shape.start,
        })
    }

    /// The shards, with capacities proportional to their weights, so that the fleet has the
    /// fill of the shape.
    pub fn shards(&self) -> impl Iterator<Item = PlanShard> + '_ {
        let weights: f64 = self.shards.iter().map(|shard| shard.weight).sum();
        let all = self
            .mean
            .times(self.shape.tenants as f64 / self.shape.fill.max(0.01));
        self.shards.iter().map(move |record| {
            let capacity = all.times(record.weight / weights);
            PlanShard::new(record.clone(), capacity)
        })
    }

    /// The slices with their load at a moment, one per tenant.
    pub fn slices(&self, at: Timestamp) -> impl Iterator<Item = PlanSlice> + '_ {
        (0..self.shape.tenants).filter_map(move |n| self.slice(n, at))
    }

    /// The slice of the n-th tenant; `None` if no shard is allowed to hold it.
    fn slice(&self, n: u64, at: Timestamp) -> Option<PlanSlice> {
        let id = SliceId {
            tenant_id: format!("tenant-{n:07}").parse().ok()?,
            slice: 0,
        };
        let hash = slice_hash(&id.tenant_id, 0);
        let region = self.chance.below(chance::REGION, n, self.regions.len());
        let home_region = self.regions[region].clone();
        let wants_zone = self.chance.share(chance::ZONE, n) < self.shape.zoned;
        let zone = self.chance.below(chance::WHICH_ZONE, n, self.zones.len());
        let travels =
            self.regions.len() > 1 && self.chance.share(chance::TRAVELS, n) < self.shape.permitted;
        let second = self.regions[(region + 1) % self.regions.len()].clone();
        let demand = self.load(n, at);
        let mut slice = PlanSlice {
            shard_id: self.shards.first()?.shard_id.clone(),
            demand,
            bytes: demand.storage as u64,
            home_region,
            residency: if travels {
                Residency::Permitted {
                    secondary_regions: vec![second],
                }
            } else {
                Residency::Strict
            },
            zones: if wants_zone {
                vec![self.zones[zone].clone()]
            } else {
                Vec::new()
            },
            pin: None,
            dial: self.dial(n),
            in_scope: true,
            placed_at: self.shape.start,
            passed_over: Vec::new(),
            moving_to: None,
            closed: false,
            id,
        };
        slice.shard_id = self.spread(&slice, hash, region)?;
        Some(slice)
    }

    fn dial(&self, n: u64) -> Dial {
        let share = self.chance.share(chance::DIAL, n);
        if share < self.shape.dialled / 2.0 {
            Dial::Essential
        } else if share < self.shape.dialled {
            Dial::Pause
        } else {
            Dial::Active
        }
    }

    fn spread(&self, slice: &PlanSlice, hash: u64, region: usize) -> Option<ShardId> {
        match self.shape.spread {
            SliceSpread::ByScore => {
                let subject = PlacementSubject {
                    current: None,
                    ..slice.subject()
                };
                decide(&self.placement, &subject).shard_id
            }
            SliceSpread::AtRandom => {
                // Every n-th shard is in the region, and every m-th of those has the zone.
                let (regions, zones) = (self.regions.len(), self.zones.len());
                let zone = slice.zones.first().and_then(|wanted| {
                    let mut all = self.zones.iter();
                    all.position(|zone| zone == wanted)
                });
                let first = region + zone.unwrap_or(0) * regions;
                let step = zone.map_or(regions, |_| regions * zones);
                let count = self.shards.len().checked_sub(first)?.div_ceil(step);
                let pick = first + (hash % count.max(1) as u64) as usize * step;
                self.shards.get(pick).map(|shard| shard.shard_id.clone())
            }
        }
    }

    /// The whole fleet at a moment.
    #[must_use]
    pub fn fleet(&self, at: Timestamp) -> FleetSnapshot {
        let mut slices = Vec::with_capacity(self.shape.tenants as usize);
        slices.extend(self.slices(at));
        FleetSnapshot {
            revision: 1,
            at,
            shards: self.shards().collect(),
            slices,
        }
    }
}
