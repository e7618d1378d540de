//! The [`Layouts`] port over the registry: reads and changes tenants' layouts.

use std::time::Duration;

use async_trait::async_trait;
use ballast_domain::registry::{CommitError, RegistryError};
use ballast_domain::slicing::{RecutPhase, SliceLayout};
use ballast_domain::tenant::Tenant;
use ballast_domain::{TenantId, Timestamp};
use ballast_migration_engine::ports::{LayoutRecord, LayoutStore};

use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// Backoff after a cut was called off; doubles each time.
const BACKOFF: Duration = Duration::from_secs(1);

/// Tenants' layouts in the registry.
#[derive(Clone)]
pub struct TenantLayouts {
    plane: ControlPlane,
}

impl TenantLayouts {
    /// Uses the records of this control plane.
    #[must_use]
    pub fn new(plane: ControlPlane) -> Self {
        Self { plane }
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<Versioned<Tenant>>, RegistryError> {
        typed::get::<Tenant>(self.plane.registry(), id.as_str()).await
    }
}

/// The audit action of a layout change.
fn audit_action(then: &SliceLayout) -> &'static str {
    match then.recut.as_ref().map(|cut| cut.phase) {
        Some(RecutPhase::Sealing) => "tenant.recut.seal",
        Some(RecutPhase::Cut) => "tenant.recut.cut",
        Some(RecutPhase::Aborting) => "tenant.recut.abort",
        None => "tenant.recut.end",
    }
}

fn sealing_since(tenant: &Tenant) -> Option<Timestamp> {
    let cut = tenant.slicing.as_ref()?.recut.as_ref()?;
    let own = tenant.slices.iter();
    let own = own.filter(|slice| cut.parents.contains(&slice.slice));
    own.filter_map(|slice| slice.sealing_since).min()
}

#[async_trait]
impl LayoutStore for TenantLayouts {
    async fn read(&self, tenant: &TenantId) -> Result<Option<LayoutRecord>, RegistryError> {
        let found = self.tenant(tenant).await?;
        Ok(found.map(|found| LayoutRecord {
            layout: found.value.layout(),
            sealing_since: sealing_since(&found.value),
        }))
    }

    async fn swap(
        &self,
        tenant: &TenantId,
        seen: &LayoutRecord,
        then: &SliceLayout,
    ) -> Result<bool, RegistryError> {
        // Serialise changes of this tenant in this process: a compare-and-swap
        // conflict would prolong the write pause.
        let _turn = self.plane.lock_subject(tenant.as_str()).await;
        let Some(mut found) = self.tenant(tenant).await? else {
            return Ok(false);
        };
        // Only a concurrent change of the slices matters, not one of the tenant.
        // Also stop if the request was withdrawn.
        if found.value.layout() != seen.layout || found.value.slicing.is_none() {
            return Ok(false);
        }
        let now = self.plane.now();
        found.value.set_layout(then.clone(), now);
        if audit_action(then) == "tenant.recut.abort"
            && let Some(slicing) = &mut found.value.slicing
        {
            slicing.failures += 1;
            let rest = BACKOFF.saturating_mul(1 << (slicing.failures - 1).min(6));
            let rest = i64::try_from(rest.as_millis()).unwrap_or(i64::MAX);
            let until = now.unix_ms().saturating_add(rest);
            slicing.not_before = Some(Timestamp::from_unix_ms(until));
        }
        let cut = seen.layout.recut.as_ref().or(then.recut.as_ref());
        let id = cut.map_or_else(String::new, |cut| cut.recut_id.to_string());
        let intent = Intent::ballast("recut", &id);
        let write = typed::update(found.version, &found.value)?;
        let commit = intent.commit(audit_action(then), vec![write], Vec::new());
        match self.plane.registry().commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
