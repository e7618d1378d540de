//! The inputs of a placement: the shards of a fleet at one revision, and one slice.

use std::collections::BTreeMap;

use super::score::{shard_hash, slice_hash};
use crate::id::{RegionId, ShardId, TenantId, ZoneId};
use crate::registry::slices_tally;
use crate::residency::Residency;
use crate::shard::{Pressure, Shard, ShardState};
use crate::tenant::{Pin, Tenant, TenantStatus};

/// A shard, as placement needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementShard {
    /// Its id.
    pub id: ShardId,
    /// The hash of its name.
    pub hash: u64,
    /// Its region.
    pub region: RegionId,
    /// Its tags.
    pub zones: Vec<ZoneId>,
    /// Its capacity weight.
    pub weight: f64,
    /// Its state.
    pub state: ShardState,
    /// Whether it is calm or busy.
    pub pressure: Pressure,
    /// How many slices it holds.
    pub slices: u64,
    /// How many it may hold.
    pub max_slices: u64,
}

impl PlacementShard {
    /// A shard that holds this many slices.
    pub fn new(shard: &Shard, slices: u64) -> Self {
        Self {
            hash: shard_hash(&shard.shard_id),
            id: shard.shard_id.clone(),
            region: shard.region.clone(),
            zones: shard.zones.clone(),
            weight: shard.weight,
            state: shard.state,
            pressure: shard.pressure,
            slices,
            max_slices: shard.max_slices,
        }
    }

    /// Its share of the density limit: 1 is full.
    pub fn utilisation(&self) -> f64 {
        self.slices as f64 / self.max_slices.max(1) as f64
    }
}

/// The shards of a fleet at one revision, in the order of their ids.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlacementFleet {
    shards: Vec<PlacementShard>,
}

impl PlacementFleet {
    /// A fleet of these shards.
    pub fn new(mut shards: Vec<PlacementShard>) -> Self {
        shards.sort_by(|one, two| one.id.cmp(&two.id));
        shards.dedup_by(|one, two| one.id == two.id);
        Self { shards }
    }

    /// A fleet of the registry's shards and its tallies of slices.
    pub fn from_records<'a>(
        shards: impl IntoIterator<Item = &'a Shard>,
        tallies: &BTreeMap<String, u64>,
    ) -> Self {
        let slices = |shard: &Shard| tallies.get(&slices_tally(shard.shard_id.as_str()));
        Self::new(
            shards
                .into_iter()
                .map(|shard| PlacementShard::new(shard, slices(shard).copied().unwrap_or(0)))
                .collect(),
        )
    }

    /// The shards.
    pub fn shards(&self) -> &[PlacementShard] {
        &self.shards
    }

    /// One shard.
    pub fn get(&self, id: &ShardId) -> Option<&PlacementShard> {
        self.position(id).map(|place| &self.shards[place])
    }

    /// One shard, mutable: for what-if questions.
    pub fn get_mut(&mut self, id: &ShardId) -> Option<&mut PlacementShard> {
        self.position(id).map(|place| &mut self.shards[place])
    }

    /// This fleet with one more shard, or with a shard replaced.
    #[must_use]
    pub fn with(mut self, shard: PlacementShard) -> Self {
        match self.shards.binary_search_by(|have| have.id.cmp(&shard.id)) {
            Ok(place) => self.shards[place] = shard,
            Err(place) => self.shards.insert(place, shard),
        }
        self
    }

    /// This fleet without one of its shards.
    #[must_use]
    pub fn without(mut self, id: &ShardId) -> Self {
        self.shards.retain(|shard| shard.id != *id);
        self
    }

    pub(super) fn position(&self, id: &ShardId) -> Option<usize> {
        self.shards.binary_search_by(|shard| shard.id.cmp(id)).ok()
    }
}

/// A slice, with everything that decides where it belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementSubject {
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its number.
    pub slice: u32,
    /// The hash of its name.
    pub hash: u64,
    /// The tenant's home region.
    pub home_region: RegionId,
    /// The tenant's residency policy.
    pub residency: Residency,
    /// The tags that it requires of a shard.
    pub zones: Vec<ZoneId>,
    /// The tenant's pin.
    pub pin: Option<Pin>,
    /// Its current shard; `None` before it is placed.
    pub current: Option<ShardId>,
    /// The shards that were passed over when it was placed.
    pub passed_over: Vec<ShardId>,
    /// Whether its tenant is closed: it then stays until it is purged.
    pub closed: bool,
}

impl PlacementSubject {
    /// A slice of a tenant; `None` when the tenant has no such slice.
    pub fn from_slice(tenant: &Tenant, slice: u32) -> Option<Self> {
        let placed = tenant.slices.iter().find(|have| have.slice == slice)?;
        Some(Self {
            current: Some(placed.shard_id.clone()),
            passed_over: placed.passed_over.clone(),
            ..Self::unplaced(tenant, slice)
        })
    }

    /// The slice as if it had not been placed yet.
    pub fn unplaced(tenant: &Tenant, slice: u32) -> Self {
        Self {
            tenant_id: tenant.tenant_id.clone(),
            slice,
            hash: slice_hash(&tenant.tenant_id, slice),
            home_region: tenant.home_region.clone(),
            residency: tenant.residency.clone(),
            zones: tenant.zones.clone(),
            pin: tenant.pin.clone(),
            current: None,
            passed_over: Vec::new(),
            closed: tenant.status == TenantStatus::Closed,
        }
    }
}
