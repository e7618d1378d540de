//! The fleet cache, and the fleet record that guards it.
//!
//! Placement decides from an in-memory snapshot. Its commit then requires that
//! the registry's *fleet record* still has the version of that snapshot. Every
//! change of a shard updates the record, so a stale snapshot costs a retry and
//! never a wrong placement, whichever process made the change.
//!
//! Slice counts in a snapshot may lag. They only steer the choice: the commit
//! checks the density limit itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use ballast_domain::placement::PlacementFleet;
use ballast_domain::registry::{
    ABSENT, Entity, Precondition, RecordKey, RecordKind, RecordQuery, RecordWrite, Registry,
    RegistryResult, slices_tally,
};
use ballast_domain::shard::Shard;
use ballast_domain::{RegionId, ShardId, ZoneId};

use crate::registry::typed::{self, Versioned};

/// All shards at one version of the fleet record.
#[derive(Debug, Clone)]
pub struct VersionedFleet {
    version: u64,
    shards: Vec<Versioned<Shard>>,
    /// The same shards in the form that placement uses.
    pub fleet: PlacementFleet,
}

/// Cache of the newest snapshot.
pub struct FleetCache {
    snapshot: RwLock<Arc<VersionedFleet>>,
}

fn fleet_key() -> RecordKey {
    RecordKey::new(RecordKind::Fleet, "fleet")
}

impl VersionedFleet {
    /// Reads the fleet from the registry.
    pub async fn read(registry: &dyn Registry) -> RegistryResult<Self> {
        // Read the guard before the shards: if a change comes between, the version
        // is too old and the dependent commit fails.
        let version = registry
            .get(&fleet_key())
            .await?
            .map_or(ABSENT, |record| record.version);
        let shards = read_shards(registry).await?;
        let tallies = registry
            .tallies(RecordKind::Tenant, &slices_tally(""))
            .await?;
        Ok(Self {
            version,
            fleet: PlacementFleet::from_records(shards.iter().map(|shard| &shard.value), &tallies),
            shards,
        })
    }

    /// The fleet as it was at a revision.
    pub async fn read_at(registry: &dyn Registry, revision: u64) -> RegistryResult<PlacementFleet> {
        let shards: Vec<Versioned<Shard>> = registry
            .list_at(RecordKind::Shard, revision)
            .await?
            .iter()
            .map(typed::decode)
            .collect::<RegistryResult<_>>()?;
        let tallies = registry
            .tallies_at(RecordKind::Tenant, &slices_tally(""), revision)
            .await?;
        Ok(PlacementFleet::from_records(
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

    /// The precondition for committing a placement made from this snapshot.
    pub fn expect_unchanged(&self) -> Precondition {
        Precondition::Version(fleet_key(), self.version)
    }

    /// The write that accompanies every change of a shard.
    pub fn version_bump(&self) -> RecordWrite {
        RecordWrite {
            key: fleet_key(),
            expected: self.version,
            body: Some("{}".to_owned()),
            terms: Some(Vec::new()),
            tallies: Vec::new(),
        }
    }

    /// Whether the registry has never had a fleet.
    pub fn is_new(&self) -> bool {
        self.version == ABSENT
    }

    /// The regions that contain shards.
    pub fn regions(&self) -> BTreeSet<RegionId> {
        self.shards
            .iter()
            .map(|shard| shard.value.region.clone())
            .collect()
    }

    /// The zone tags in use.
    pub fn zones(&self) -> BTreeSet<ZoneId> {
        self.shards
            .iter()
            .flat_map(|shard| shard.value.zones.iter().cloned())
            .collect()
    }
}

async fn read_shards(registry: &dyn Registry) -> RegistryResult<Vec<Versioned<Shard>>> {
    const PAGE: u32 = 1_000;
    let mut shards: Vec<Versioned<Shard>> = Vec::new();
    loop {
        let query = RecordQuery {
            after: shards
                .last()
                .map(|shard| shard.value.record_id().to_owned()),
            ..RecordQuery::all(RecordKind::Shard, PAGE)
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
    pub async fn load(registry: &dyn Registry) -> RegistryResult<Self> {
        let snapshot = VersionedFleet::read(registry).await?;
        Ok(Self {
            snapshot: RwLock::new(Arc::new(snapshot)),
        })
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<VersionedFleet> {
        self.snapshot
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Reads the fleet again.
    pub async fn refresh(&self, registry: &dyn Registry) -> RegistryResult<Arc<VersionedFleet>> {
        let fresh = Arc::new(VersionedFleet::read(registry).await?);
        let mut held = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // Refreshes may overtake each other: keep the newer one.
        if fresh.version >= held.version {
            *held = fresh.clone();
        }
        Ok(held.clone())
    }

    /// Applies new slice counts.
    pub fn update_counts(&self, tallies: &BTreeMap<String, u64>) {
        let mut held = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut next = VersionedFleet::clone(&held);
        next.fleet =
            PlacementFleet::from_records(next.shards.iter().map(|shard| &shard.value), tallies);
        *held = Arc::new(next);
    }
}
