//! Changing a tenant: limits, policies, names; suspend, resume, close.

use ballast_domain::error::ErrorCode;
use ballast_domain::limits::TenantLimits;
use ballast_domain::object::optional_object;
use ballast_domain::registry::Precondition;
use ballast_domain::residency::Residency;
use ballast_domain::tenant::{Dial, Tenant, TenantStatus};
use ballast_domain::{Error, RegionId, Result, TenantId, ZoneId};
use serde::{Deserialize, Deserializer};

use super::get;
use crate::change::{Attempts, Edit, IfMatch};
use crate::fleet::VersionedFleet;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::validate;

/// Fields to change; absent fields stay as they are.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantPatch {
    /// Its display name.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// The organisation it belongs to; `null` removes it.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    pub organisation: Option<Option<String>>,
    /// Its home region. The data itself moves later.
    pub home_region: Option<RegionId>,
    /// Where else its data may be stored.
    #[serde(default, deserialize_with = "optional_object")]
    pub residency: Option<Residency>,
    /// Only shards with one of these zone tags may hold it.
    #[schema(max_items = 32)]
    pub zones: Option<Vec<ZoneId>>,
    /// Its limits.
    #[serde(default, deserialize_with = "optional_object")]
    pub limits: Option<LimitsPatch>,
    /// Allowed browser origins.
    #[schema(max_items = 32)]
    pub cors_origins: Option<Vec<String>>,
    /// What Ballast may do to it without approval: `active` (anything that helps),
    /// `essential` (only what is necessary), `pause` or `stop` (nothing).
    pub dial: Option<Dial>,
}

/// Limits to change: a number sets one, `null` removes it, absent keeps it.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsPatch {
    /// Votes accepted per second.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 100_000_000)]
    pub votes_per_second: Option<Option<u64>>,
    /// Concurrent queries.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 1_000_000)]
    pub concurrent_queries: Option<Option<u64>>,
    /// Retention of closed polls, in days.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 36_500)]
    pub retention_days: Option<Option<u64>>,
}

/// Distinguishes `null` (`Some(None)`) from an absent field (`None`).
fn deserialize_present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl TenantPatch {
    fn apply(&self, tenant: &mut Tenant) {
        let Self {
            name,
            organisation,
            home_region,
            residency,
            zones,
            limits,
            cors_origins,
            dial,
        } = self.clone();
        let TenantLimits {
            votes_per_second,
            concurrent_queries,
            retention_days,
        } = &mut tenant.limits;
        set_if_some(&mut tenant.name, name);
        set_if_some(&mut tenant.organisation, organisation);
        set_if_some(&mut tenant.home_region, home_region);
        set_if_some(&mut tenant.residency, residency);
        set_if_some(&mut tenant.zones, zones);
        set_if_some(&mut tenant.cors_origins, cors_origins);
        set_if_some(&mut tenant.dial, dial);
        let limits = limits.unwrap_or_default();
        set_if_some(votes_per_second, limits.votes_per_second);
        set_if_some(concurrent_queries, limits.concurrent_queries);
        set_if_some(retention_days, limits.retention_days);
    }
}

impl TenantPatch {
    /// Checks only what is changed: a tenant whose zone or region no longer has a
    /// shard can still get another name or limit.
    fn check(&self, tenant: &Tenant, snapshot: &VersionedFleet) -> Result<()> {
        validate::name("/name", &tenant.name)?;
        if let Some(organisation) = &tenant.organisation {
            validate::name("/organisation", organisation)?;
        }
        if self.home_region.is_some() {
            validate::known_region("/homeRegion", &tenant.home_region, snapshot)?;
        }
        if self.residency.is_some() || self.home_region.is_some() {
            validate::residency(&tenant.residency, &tenant.home_region, snapshot)?;
        }
        if self.zones.is_some() {
            validate::known_zones("/zones", &tenant.zones, snapshot)?;
        }
        validate::limits(&tenant.limits)?;
        validate::origins(&tenant.cors_origins)
    }
}

fn set_if_some<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Changes a tenant.
pub async fn update(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    if_match: &IfMatch,
    patch: &TenantPatch,
) -> Result<Versioned<Tenant>> {
    change(plane, intent, id, if_match, "tenant.update", |tenant| {
        patch.apply(tenant);
        patch.check(tenant, &plane.fleet().snapshot())
    })
    .await
}

/// Suspends a tenant (its keys are rejected), resumes it, or closes it permanently.
pub async fn set_status(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    if_match: &IfMatch,
    status: TenantStatus,
) -> Result<Versioned<Tenant>> {
    let action = match status {
        TenantStatus::Active => "tenant.resume",
        TenantStatus::Suspended => "tenant.suspend",
        TenantStatus::Closed => "tenant.close",
    };
    // Closing a closed tenant has no effect and writes no event.
    let now = get(plane, id).await?;
    if now.value.status == status {
        if_match.check(now.version)?;
        return Ok(now);
    }
    change(plane, intent, id, if_match, action, |tenant| {
        tenant.status = status;
        Ok(())
    })
    .await
}

/// Reads, edits and writes back a tenant. A caller that named a version gets an error
/// if it is stale; otherwise the edit applies to any version.
pub(crate) async fn change(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    if_match: &IfMatch,
    action: &'static str,
    edit: impl FnMut(&mut Tenant) -> Result<()>,
) -> Result<Versioned<Tenant>> {
    change_expecting(plane, intent, id, if_match, action, Vec::new(), edit).await
}

/// The same, with further preconditions.
pub(crate) async fn change_expecting(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    if_match: &IfMatch,
    action: &'static str,
    expects: Vec<Precondition>,
    mut edit: impl FnMut(&mut Tenant) -> Result<()>,
) -> Result<Versioned<Tenant>> {
    let _turn = plane.lock_subject(id.as_str()).await;
    let mut attempts = Attempts::new(plane, intent, action, if_match);
    loop {
        let old = get(plane, id).await?;
        if old.value.status == TenantStatus::Closed {
            let detail = format!("tenant {:?} is closed", id.as_str());
            return Err(Error::new(ErrorCode::TenantClosed, detail));
        }
        let mut value = old.value.clone();
        edit(&mut value)?;
        let writes = if value == old.value {
            Vec::new()
        } else {
            vec![typed::update(old.version, &value)?]
        };
        let edit = Edit {
            old: old.version,
            value,
            writes,
            expects: expects.clone(),
        };
        if let Some(done) = attempts.commit(edit).await? {
            return Ok(done);
        }
    }
}
