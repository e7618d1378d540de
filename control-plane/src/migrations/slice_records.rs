//! The [`RouteStore`] port over the registry: slices' routes inside tenant records.

use async_trait::async_trait;
use ballast_domain::moving::{MigrationPhase, SliceRoute};
use ballast_domain::registry::{CommitError, RegistryError};
use ballast_domain::tenant::{Slice, SliceId, Tenant};
use ballast_migration_engine::ports::{RouteRecord, RouteStore};

use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::slicing;

/// Slice records in the registry.
#[derive(Clone)]
pub struct SliceRecords {
    plane: ControlPlane,
}

impl SliceRecords {
    /// Uses the records of this control plane.
    #[must_use]
    pub fn new(plane: ControlPlane) -> Self {
        Self { plane }
    }

    async fn tenant(&self, slice: &SliceId) -> Result<Option<Versioned<Tenant>>, RegistryError> {
        typed::get::<Tenant>(self.plane.registry(), slice.tenant_id.as_str()).await
    }
}

pub(super) fn find_slice_mut(tenant: &mut Tenant, slice: u32) -> Option<&mut Slice> {
    let mut slices = tenant.slices.iter_mut();
    slices.find(|known| known.slice == slice)
}

/// The audit action of a route change.
fn audit_action(then: &SliceRoute) -> &'static str {
    match then.moving.as_ref().map(|moving| moving.phase) {
        Some(MigrationPhase::Copying) => "tenant.move.copy",
        Some(MigrationPhase::Sealing { .. }) => "tenant.move.seal",
        Some(MigrationPhase::Aborting) => "tenant.move.abort",
        Some(MigrationPhase::Window) => "tenant.move.cutover",
        Some(MigrationPhase::Cleaning) => "tenant.move.clean",
        None => "tenant.move.end",
    }
}

#[async_trait]
impl RouteStore for SliceRecords {
    async fn read(&self, slice: &SliceId) -> Result<Option<RouteRecord>, RegistryError> {
        let Some(mut tenant) = self.tenant(slice).await? else {
            return Ok(None);
        };
        let version = tenant.version;
        Ok(
            find_slice_mut(&mut tenant.value, slice.slice).map(|part| RouteRecord {
                route: part.route(),
                version,
                sealing_since: part.sealing_since,
            }),
        )
    }

    async fn swap(
        &self,
        slice: &SliceId,
        seen: &RouteRecord,
        then: &SliceRoute,
    ) -> Result<bool, RegistryError> {
        // Serialise changes of this tenant in this process: a compare-and-swap
        // conflict would prolong the write pause.
        let _turn = self.plane.lock_subject(slice.tenant_id.as_str()).await;
        let Some(mut tenant) = self.tenant(slice).await? else {
            return Ok(false);
        };
        // A migration and a split or merge claim the same record: reject one of them.
        let begins = seen.route.moving.is_none() && then.moving.is_some();
        if begins && slicing::is_to_be_cut(&tenant.value, slice.slice) {
            return Ok(false);
        }
        let Some(part) = find_slice_mut(&mut tenant.value, slice.slice) else {
            return Ok(false);
        };
        // Only a concurrent change of this slice matters, not one of the tenant.
        if tenant.version != seen.version && part.route() != seen.route {
            return Ok(false);
        }
        part.set_route(then.clone(), self.plane.now());
        let moving = seen.route.moving.as_ref().or(then.moving.as_ref());
        let id = moving.map_or_else(String::new, |moving| moving.migration_id.to_string());
        let intent = Intent::ballast("move", &id);
        let write = typed::update(tenant.version, &tenant.value)?;
        let commit = intent.commit(audit_action(then), vec![write], Vec::new());
        match self.plane.registry().commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
