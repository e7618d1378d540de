//! The tenants' records, for those who cut slices.

use std::time::Duration;

use async_trait::async_trait;
use ballast_domain::registry::{CommitError, StoreError};
use ballast_domain::slicing::{Layout, RecutPhase};
use ballast_domain::tenant::Tenant;
use ballast_domain::{TenantId, Timestamp};
use ballast_migration_engine::ports::{Layouts, SeenLayout};

use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// After a cut was called off, the next one waits for so long; twice as long
/// each time.
const REST: Duration = Duration::from_secs(1);

/// The tenants' records in the registry.
#[derive(Clone)]
pub struct TenantLayouts {
    plane: ControlPlane,
}

impl TenantLayouts {
    /// Those of this control plane.
    #[must_use]
    pub fn new(plane: ControlPlane) -> Self {
        Self { plane }
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<Versioned<Tenant>>, StoreError> {
        typed::get::<Tenant>(self.plane.registry(), id.as_str()).await
    }
}

/// What the audit log says of a change.
fn action(then: &Layout) -> &'static str {
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
impl Layouts for TenantLayouts {
    async fn read(&self, tenant: &TenantId) -> Result<Option<SeenLayout>, StoreError> {
        let found = self.tenant(tenant).await?;
        Ok(found.map(|found| SeenLayout {
            layout: found.value.layout(),
            sealing_since: sealing_since(&found.value),
        }))
    }

    async fn swap(
        &self,
        tenant: &TenantId,
        seen: &SeenLayout,
        then: &Layout,
    ) -> Result<bool, StoreError> {
        // Changes of this tenant made here go one after the other, instead of
        // running into each other while nobody can vote.
        let _turn = self.plane.turn(tenant.as_str()).await;
        let Some(mut found) = self.tenant(tenant).await? else {
            return Ok(false);
        };
        // Another change of the tenant does not matter; one of its slices does.
        // And what nobody wants any more is not begun.
        if found.value.layout() != seen.layout || found.value.slicing.is_none() {
            return Ok(false);
        }
        let now = self.plane.now();
        found.value.set_layout(then.clone(), now);
        if action(then) == "tenant.recut.abort"
            && let Some(slicing) = &mut found.value.slicing
        {
            slicing.failures += 1;
            let rest = REST.saturating_mul(1 << (slicing.failures - 1).min(6));
            let rest = i64::try_from(rest.as_millis()).unwrap_or(i64::MAX);
            let until = now.unix_ms().saturating_add(rest);
            slicing.not_before = Some(Timestamp::from_unix_ms(until));
        }
        let cut = seen.layout.recut.as_ref().or(then.recut.as_ref());
        let id = cut.map_or_else(String::new, |cut| cut.recut_id.to_string());
        let intent = Intent::ballast("recut", &id);
        let write = typed::update(found.version, &found.value)?;
        let commit = intent.commit(action(then), vec![write], Vec::new());
        match self.plane.registry().commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
