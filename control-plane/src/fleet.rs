//! The fleet as this process knows it, and the record that guards it.
//!
//! Placement decides from a snapshot in memory; its commit then demands that
//! the registry's *fleet record* still has the version the snapshot was read
//! at. Every change of a shard changes that record. So a stale snapshot costs
//! a retry, never a wrong placement, whichever process made the change.
//!
//! The counts of slices in a snapshot may lag behind: they steer, while the
//! density limit itself is checked in the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use ballast_domain::placement::Fleet;
use ballast_domain::registry::{
    ABSENT, Entity, Expect, Kind, RecordKey, RecordQuery, Registry, StoreResult, Write, slices_on,
};
use ballast_domain::shard::Shard;
use ballast_domain::{RegionId, ShardId, ZoneId};

use crate::registry::typed::{self, Versioned};

/// All shards at one version of the fleet record.
#[derive(Debug, Clone)]
pub struct FleetSnapshot {
    version: u64,
    shards: Vec<Versioned<Shard>>,
    /// The same shards as placement sees them.
    pub fleet: Fleet,
}

/// The newest snapshot.
pub struct FleetCache {
    snapshot: RwLock<Arc<FleetSnapshot>>,
}

fn fleet_key() -> RecordKey {
    RecordKey::new(Kind::Fleet, "fleet")
}

impl FleetSnapshot {
    /// Reads the fleet from the registry.
    pub async fn read(registry: &dyn Registry) -> StoreResult<Self> {
        // The guard is read before the shards: should a change come between,
        // the version is too old, and the commit that relies on it is refused.
        let version = registry
            .get(&fleet_key())
            .await?
            .map_or(ABSENT, |record| record.version);
        let shards = read_shards(registry).await?;
        let tallies = registry.tallies(Kind::Tenant, &slices_on("")).await?;
        Ok(Self {
            version,
            fleet: Fleet::from_records(shards.iter().map(|shard| &shard.value), &tallies),
            shards,
        })
    }

    /// The fleet as it was at a revision.
    pub async fn read_at(registry: &dyn Registry, revision: u64) -> StoreResult<Fleet> {
        let shards: Vec<Versioned<Shard>> = registry
            .list_at(Kind::Shard, revision)
            .await?
            .iter()
            .map(typed::decode)
            .collect::<StoreResult<_>>()?;
        let tallies = registry
            .tallies_at(Kind::Tenant, &slices_on(""), revision)
            .await?;
        Ok(Fleet::from_records(
            shards.iter().map(|shard| &shard.value),
            &tallies,
        ))
    }

    /// The shards' records.
    pub fn shards(&self) -> &[Versioned<Shard>] {
        &self.shards
    }

    /// One shard's record.
    pub fn shard(&self, id: &ShardId) -> Option<&Versioned<Shard>> {
        self.shards.iter().find(|shard| shard.value.shard_id == *id)
    }

    /// What a placement made from this snapshot demands of its commit.
    pub fn unchanged(&self) -> Expect {
        Expect::Version(fleet_key(), self.version)
    }

    /// The write that goes with every change of a shard.
    pub fn touched(&self) -> Write {
        Write {
            key: fleet_key(),
            expected: self.version,
            body: Some("{}".to_owned()),
            terms: Some(Vec::new()),
            tallies: Vec::new(),
        }
    }

    /// Whether there has never been a fleet here.
    pub fn is_new(&self) -> bool {
        self.version == ABSENT
    }

    /// The regions that shards stand in.
    pub fn regions(&self) -> BTreeSet<RegionId> {
        self.shards
            .iter()
            .map(|shard| shard.value.region.clone())
            .collect()
    }

    /// The zones that shards carry.
    pub fn zones(&self) -> BTreeSet<ZoneId> {
        self.shards
            .iter()
            .flat_map(|shard| shard.value.zones.iter().cloned())
            .collect()
    }
}

async fn read_shards(registry: &dyn Registry) -> StoreResult<Vec<Versioned<Shard>>> {
    const PAGE: u32 = 1_000;
    let mut shards: Vec<Versioned<Shard>> = Vec::new();
    loop {
        let query = RecordQuery {
            after: shards
                .last()
                .map(|shard| shard.value.record_id().to_owned()),
            ..RecordQuery::all(Kind::Shard, PAGE)
        };
        let page = typed::list(registry, &query).await?;
        let last = page.len() < PAGE as usize;
        shards.extend(page);
        if last {
            return Ok(shards);
        }
    }
}

impl FleetCache {
    /// Reads the fleet for the first time.
    pub async fn load(registry: &dyn Registry) -> StoreResult<Self> {
        let snapshot = FleetSnapshot::read(registry).await?;
        Ok(Self {
            snapshot: RwLock::new(Arc::new(snapshot)),
        })
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<FleetSnapshot> {
        self.snapshot
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Reads the fleet again.
    pub async fn refresh(&self, registry: &dyn Registry) -> StoreResult<Arc<FleetSnapshot>> {
        let fresh = Arc::new(FleetSnapshot::read(registry).await?);
        let mut held = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // Two refreshes may overtake each other; the newer one stays.
        if fresh.version >= held.version {
            *held = fresh.clone();
        }
        Ok(held.clone())
    }

    /// Takes new counts of slices in.
    pub fn recount(&self, tallies: &BTreeMap<String, u64>) {
        let mut held = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut next = FleetSnapshot::clone(&held);
        next.fleet = Fleet::from_records(next.shards.iter().map(|shard| &shard.value), tallies);
        *held = Arc::new(next);
    }
}
