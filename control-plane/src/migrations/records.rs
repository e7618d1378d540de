//! The slices' records, for those who work on moves: parts of the tenants'.

use async_trait::async_trait;
use ballast_domain::moving::{Phase, Route};
use ballast_domain::registry::{CommitError, StoreError};
use ballast_domain::tenant::{Slice, SliceId, Tenant};
use ballast_migration_engine::ports::{Records, Seen};

use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::slicing;

/// The slices' records in the registry.
#[derive(Clone)]
pub struct SliceRecords {
    plane: ControlPlane,
}

impl SliceRecords {
    /// Those of this control plane.
    #[must_use]
    pub fn new(plane: ControlPlane) -> Self {
        Self { plane }
    }

    async fn tenant(&self, slice: &SliceId) -> Result<Option<Versioned<Tenant>>, StoreError> {
        typed::get::<Tenant>(self.plane.registry(), slice.tenant_id.as_str()).await
    }
}

pub(super) fn part(tenant: &mut Tenant, slice: u32) -> Option<&mut Slice> {
    let mut slices = tenant.slices.iter_mut();
    slices.find(|known| known.slice == slice)
}

/// What the audit log says of a change.
fn action(then: &Route) -> &'static str {
    match then.moving.as_ref().map(|moving| moving.phase) {
        Some(Phase::Copying) => "tenant.move.copy",
        Some(Phase::Sealing { .. }) => "tenant.move.seal",
        Some(Phase::Aborting) => "tenant.move.abort",
        Some(Phase::Window) => "tenant.move.cutover",
        Some(Phase::Cleaning) => "tenant.move.clean",
        None => "tenant.move.end",
    }
}

#[async_trait]
impl Records for SliceRecords {
    async fn read(&self, slice: &SliceId) -> Result<Option<Seen>, StoreError> {
        let Some(mut tenant) = self.tenant(slice).await? else {
            return Ok(None);
        };
        let version = tenant.version;
        Ok(part(&mut tenant.value, slice.slice).map(|part| Seen {
            route: part.route(),
            version,
            sealing_since: part.sealing_since,
        }))
    }

    async fn swap(&self, slice: &SliceId, seen: &Seen, then: &Route) -> Result<bool, StoreError> {
        // Changes of this tenant made here go one after the other, instead of
        // running into each other while nobody can vote.
        let _turn = self.plane.turn(slice.tenant_id.as_str()).await;
        let Some(mut tenant) = self.tenant(slice).await? else {
            return Ok(false);
        };
        // A move and a cut claim the same record: one of them is refused.
        let begins = seen.route.moving.is_none() && then.moving.is_some();
        if begins && slicing::is_to_be_cut(&tenant.value, slice.slice) {
            return Ok(false);
        }
        let Some(part) = part(&mut tenant.value, slice.slice) else {
            return Ok(false);
        };
        // Another change of the tenant does not matter; one of the slice does.
        if tenant.version != seen.version && part.route() != seen.route {
            return Ok(false);
        }
        part.set_route(then.clone(), self.plane.now());
        let moving = seen.route.moving.as_ref().or(then.moving.as_ref());
        let id = moving.map_or_else(String::new, |moving| moving.move_id.to_string());
        let intent = Intent::ballast("move", &id);
        let write = typed::update(tenant.version, &tenant.value)?;
        let commit = intent.commit(action(then), vec![write], Vec::new());
        match self.plane.registry().commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
