//! The [`RouteSource`] port over the registry: what routers read.

use std::sync::Arc;

use async_trait::async_trait;
use ballast_domain::credential::CredentialHash;
use ballast_domain::key::ApiKey;
use ballast_domain::migration::Migration;
use ballast_domain::moving::MigrationId;
use ballast_domain::registry::{RecordKind, Registry, RegistryError, RegistryResult, hash_term};
use ballast_domain::routes::{
    KeyGrant, RouteInvalidation, RouteSource, ShardRoute, StreamedPosition, TenantRoute,
};
use ballast_domain::shard::Shard;
use ballast_domain::tenant::Tenant;
use ballast_domain::{KeyId, ShardId, TenantId, Timestamp};

use crate::registry::typed;

/// Changes read per call.
const FEED_PAGE: u32 = 1_000;

/// Serves routes straight from a registry.
#[derive(Clone)]
pub struct RegistryRoutes {
    registry: Arc<dyn Registry>,
}

impl RegistryRoutes {
    /// Serves routes from this registry.
    pub fn new(registry: Arc<dyn Registry>) -> Self {
        Self { registry }
    }
}

#[async_trait]
impl RouteSource for RegistryRoutes {
    async fn grant(&self, hash: &CredentialHash) -> RegistryResult<Option<KeyGrant>> {
        let found = typed::find::<ApiKey>(&*self.registry, hash_term(hash)).await?;
        Ok(found.map(|key| KeyGrant::new(*hash, &key.value)))
    }

    async fn tenant(&self, id: &TenantId) -> RegistryResult<Option<Arc<TenantRoute>>> {
        let found = typed::get::<Tenant>(&*self.registry, id.as_str()).await?;
        Ok(found.map(|tenant| {
            let Tenant {
                tenant_id,
                status,
                home_region,
                limits,
                cors_origins,
                slices,
                ..
            } = tenant.value;
            Arc::new(TenantRoute {
                tenant_id,
                status,
                home_region,
                limits,
                cors_origins,
                slices,
            })
        }))
    }

    async fn shard(&self, id: &ShardId) -> RegistryResult<Option<ShardRoute>> {
        let found = typed::get::<Shard>(&*self.registry, id.as_str()).await?;
        Ok(found.map(|shard| {
            let Shard { region, state, .. } = shard.value;
            ShardRoute { region, state }
        }))
    }

    async fn streamed_back(&self, id: &MigrationId) -> RegistryResult<StreamedPosition> {
        let found = typed::get::<Migration>(&*self.registry, &id.0).await?;
        Ok(match found.map(|found| found.value.figures.streamed_back) {
            Some(Some(back)) => StreamedPosition::UpTo(back.position),
            // A copy is being rebuilt there, or the cutover has only just been recorded.
            Some(None) => StreamedPosition::NotYet,
            None => StreamedPosition::Unknown,
        })
    }

    async fn stale_since(&self, revision: u64) -> RegistryResult<(u64, Vec<RouteInvalidation>)> {
        self.registry.wait_past(revision).await?;
        let events = self.registry.changes(revision, FEED_PAGE).await?;
        let next = events.last().map_or(revision, |event| event.revision);
        let bad = |source| RegistryError::new("read a changed id", source);
        let stale = events.into_iter().filter_map(|event| {
            let id = &event.key.id;
            match event.key.kind {
                RecordKind::Key => Some(id.parse().map(RouteInvalidation::Key)),
                RecordKind::Tenant => Some(id.parse().map(RouteInvalidation::Tenant)),
                RecordKind::Shard => Some(id.parse().map(RouteInvalidation::Shard)),
                RecordKind::Token
                | RecordKind::Fleet
                | RecordKind::Workflow
                | RecordKind::Execution
                | RecordKind::Migration
                | RecordKind::Hotspot
                | RecordKind::Plan
                | RecordKind::Settings
                | RecordKind::Share => None,
            }
        });
        Ok((next, stale.collect::<Result<_, _>>().map_err(bad)?))
    }

    async fn revision(&self) -> RegistryResult<u64> {
        self.registry.revision().await
    }

    async fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> RegistryResult<()> {
        let uses: Vec<_> = uses
            .into_iter()
            .map(|(id, at)| (id.to_string(), at))
            .collect();
        self.registry.mark_used(RecordKind::Key, &uses).await
    }
}
