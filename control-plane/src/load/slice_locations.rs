//! Which slices are on which shard, kept in memory by following the registry's
//! change feed: read every few seconds, for very many tenants.

use std::collections::{BTreeSet, HashMap};

use ballast_domain::registry::{RecordKind, RecordQuery, Registry, RegistryEvent, RegistryResult};
use ballast_domain::tenant::{SliceId, Tenant};
use ballast_domain::{ShardId, TenantId};

use crate::registry::typed;

/// Tenants or events read per page.
const PAGE: u32 = 1_000;

/// Locations of slices, as of a revision.
#[derive(Debug, Default)]
pub struct SliceLocations {
    revision: Option<u64>,
    tenants: HashMap<TenantId, Vec<(u32, ShardId)>>,
    shards: HashMap<ShardId, BTreeSet<SliceId>>,
}

impl SliceLocations {
    /// The slices that a shard owns.
    pub fn slices_on(&self, shard: &ShardId) -> Option<&BTreeSet<SliceId>> {
        self.shards.get(shard)
    }

    /// Whether any shard owns a slice.
    pub fn has_owner(&self, slice: &SliceId) -> bool {
        let slices = self.tenants.get(&slice.tenant_id).into_iter().flatten();
        slices.into_iter().any(|(number, _)| *number == slice.slice)
    }

    /// Applies changes from the feed; returns whether any slice moved.
    pub async fn follow(&mut self, registry: &dyn Registry) -> RegistryResult<bool> {
        let Some(mut revision) = self.revision else {
            self.read_all(registry).await?;
            return Ok(true);
        };
        let mut any = false;
        loop {
            let events = registry.changes(revision, PAGE).await?;
            let Some(last) = events.last() else { break };
            revision = last.revision;
            for event in events.iter().filter(|it| it.key.kind == RecordKind::Tenant) {
                any |= self.apply_event(event)?;
            }
            self.revision = Some(revision);
        }
        Ok(any)
    }

    async fn read_all(&mut self, registry: &dyn Registry) -> RegistryResult<()> {
        // Changes during this read are applied afterwards.
        let revision = registry.revision().await?;
        *self = Self::default();
        let mut after = None;
        loop {
            let query = RecordQuery {
                after: after.take(),
                ..RecordQuery::all(RecordKind::Tenant, PAGE)
            };
            let page = typed::list::<Tenant>(registry, &query).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.value.tenant_id.to_string());
            for tenant in &page {
                self.replace_tenant(&tenant.value);
            }
        }
        self.revision = Some(revision);
        Ok(())
    }

    fn apply_event(&mut self, event: &RegistryEvent) -> RegistryResult<bool> {
        let Some(body) = &event.after else {
            // Tenants are closed but never removed.
            return Ok(false);
        };
        let tenant: Tenant = serde_json::from_str(body).map_err(|source| {
            ballast_domain::registry::RegistryError::new("read a tenant that changed", source)
        })?;
        Ok(self.replace_tenant(&tenant))
    }

    fn replace_tenant(&mut self, tenant: &Tenant) -> bool {
        let now: Vec<_> = tenant
            .slices
            .iter()
            .map(|slice| (slice.slice, slice.shard_id.clone()))
            .collect();
        let id = &tenant.tenant_id;
        let name = |slice: u32| SliceId {
            tenant_id: id.clone(),
            slice,
        };
        if self.tenants.get(id) == Some(&now) {
            return false;
        }
        for (slice, shard) in self.tenants.remove(id).into_iter().flatten() {
            if let Some(slices) = self.shards.get_mut(&shard) {
                slices.remove(&name(slice));
            }
        }
        for (slice, shard) in &now {
            let slices = self.shards.entry(shard.clone()).or_default();
            slices.insert(name(*slice));
        }
        self.tenants.insert(id.clone(), now);
        true
    }
}
