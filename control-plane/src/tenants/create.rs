//! Creating a tenant: check, place, commit; retried if the fleet changed.

use ballast_domain::error::ErrorCode;
use ballast_domain::limits::TenantLimits;
use ballast_domain::object::{object, optional_object};
use ballast_domain::placement::{PlacementSubject, decide, explain};
use ballast_domain::registry::{ABSENT, CommitError, Precondition, RecordKind, slices_tally};
use ballast_domain::residency::Residency;
use ballast_domain::tenant::{Slice, Tenant, TenantStatus};
use ballast_domain::{Error, RegionId, Result, TenantId, ZoneId};
use serde::Deserialize;

use crate::change;
use crate::fleet::VersionedFleet;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::validate;

/// Retries after the fleet changed.
const ATTEMPTS: usize = 64;

/// A request to create a tenant.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewTenant {
    /// Its ID in every command and path. It can never be changed or reused.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Its display name; the ID when absent.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// The organisation it belongs to.
    #[schema(min_length = 1, max_length = 200)]
    pub organisation: Option<String>,
    /// Its home region; the fleet's default region when absent.
    pub home_region: Option<RegionId>,
    /// Where else its data may be stored; strict when absent.
    #[serde(default, deserialize_with = "optional_object")]
    pub residency: Option<Residency>,
    /// Only shards with one of these zone tags may hold it.
    #[serde(default)]
    #[schema(max_items = 32)]
    pub zones: Vec<ZoneId>,
    /// Its limits; unlimited when absent.
    #[serde(default, deserialize_with = "object")]
    pub limits: TenantLimits,
    /// Allowed browser origins.
    #[serde(default)]
    #[schema(max_items = 32)]
    pub cors_origins: Vec<String>,
}

/// Creates a tenant and places it.
pub async fn create(
    plane: &ControlPlane,
    intent: &Intent,
    new: NewTenant,
) -> Result<Versioned<Tenant>> {
    let mut snapshot = plane.fleet().snapshot();
    for _ in 0..ATTEMPTS {
        let tenant = place_tenant(plane, &snapshot, &new)?;
        let created = Versioned {
            value: tenant,
            version: ABSENT + 1,
        };
        let writes = vec![typed::create(&created.value, Vec::new())?];
        let expects = expectations(&snapshot, &created.value);
        let commit = intent.create(plane, "tenant.create", writes, expects, &created)?;
        match plane.registry().commit(commit).await {
            Ok(_) => return Ok(created),
            Err(CommitError::Conflict { key, .. }) if key.kind == RecordKind::Tenant => {
                let id = new.tenant_id.as_str();
                let detail = format!("there is a tenant {id:?} already");
                return Err(Error::new(ErrorCode::TenantExists, detail));
            }
            // The fleet changed, or the shard is full: place again.
            Err(CommitError::Conflict { .. } | CommitError::LimitReached { .. }) => {
                snapshot = plane.fleet().refresh(plane.registry()).await?;
            }
            Err(other) => return Err(change::commit_failed(other)),
        }
    }
    Err(Error::new(
        ErrorCode::Busy,
        "the fleet kept changing while the tenant was placed",
    )
    .retry_after(1))
}

fn expectations(snapshot: &VersionedFleet, tenant: &Tenant) -> Vec<Precondition> {
    let mut expects = vec![snapshot.expect_unchanged()];
    for slice in &tenant.slices {
        if let Some(shard) = snapshot.fleet.get(&slice.shard_id) {
            let tally = slices_tally(shard.id.as_str());
            expects.push(Precondition::TallyBelow(
                RecordKind::Tenant,
                tally,
                shard.max_slices,
            ));
        }
    }
    expects
}

/// Builds, checks and places the new tenant.
fn place_tenant(
    plane: &ControlPlane,
    snapshot: &VersionedFleet,
    new: &NewTenant,
) -> Result<Tenant> {
    let now = plane.now();
    let mut tenant = Tenant {
        tenant_id: new.tenant_id.clone(),
        name: new
            .name
            .clone()
            .unwrap_or_else(|| new.tenant_id.to_string()),
        organisation: new.organisation.clone(),
        status: TenantStatus::Active,
        home_region: new
            .home_region
            .clone()
            .unwrap_or_else(|| plane.settings().default_region.clone()),
        residency: new.residency.clone().unwrap_or_default(),
        zones: new.zones.clone(),
        limits: new.limits,
        cors_origins: new.cors_origins.clone(),
        slices: Vec::new(),
        pin: None,
        dial: ballast_domain::tenant::Dial::Active,
        next_slice: None,
        slicing: None,
        last_slicing: None,
        created_at: now,
    };
    check(&tenant, snapshot)?;
    let subject = PlacementSubject::unplaced(&tenant, 0);
    let verdict = decide(&snapshot.fleet, &subject);
    let Some(shard_id) = verdict.shard_id else {
        return Err(no_shard(snapshot, &subject));
    };
    tenant.slices.push(Slice {
        passed_over: verdict.passed_over,
        ..Slice::placed(0, shard_id, now)
    });
    Ok(tenant)
}

/// Checks all fields that a caller may set.
fn check(tenant: &Tenant, snapshot: &VersionedFleet) -> Result<()> {
    validate::name("/name", &tenant.name)?;
    if let Some(organisation) = &tenant.organisation {
        validate::name("/organisation", organisation)?;
    }
    validate::known_region("/homeRegion", &tenant.home_region, snapshot)?;
    validate::residency(&tenant.residency, &tenant.home_region, snapshot)?;
    validate::known_zones("/zones", &tenant.zones, snapshot)?;
    validate::limits(&tenant.limits)?;
    validate::origins(&tenant.cors_origins)
}

/// Explains for each shard why it was ruled out.
fn no_shard(snapshot: &VersionedFleet, subject: &PlacementSubject) -> Error {
    const SHARDS_LISTED: usize = 8;
    let explanation = explain(&snapshot.fleet, subject);
    let mut reasons: Vec<String> = explanation
        .shards
        .iter()
        .take(SHARDS_LISTED)
        .map(|shard| {
            let why: Vec<_> = shard
                .vetoes
                .iter()
                .map(|veto| veto.message.as_str())
                .collect();
            format!("{} {}", shard.shard_id, why.join(" and "))
        })
        .collect();
    if explanation.shards.len() > SHARDS_LISTED {
        reasons.push(format!(
            "and {} more",
            explanation.shards.len() - SHARDS_LISTED
        ));
    }
    if reasons.is_empty() {
        reasons.push("the fleet has no shards".to_owned());
    }
    let detail = format!(
        "no shard may take tenant {:?}: {}",
        subject.tenant_id.as_str(),
        reasons.join("; ")
    );
    Error::new(ErrorCode::NoEligibleShard, detail)
}
