//! Placement: where a tenant is, why, where it belongs, and which slices would move.

mod preview;

pub use preview::{FleetChangeBody, Preview, PreviewedMove, ShardTraffic, WeightChange, preview};

use ballast_domain::error::ErrorCode;
use ballast_domain::placement::{Explanation, PlacementFleet, PlacementSubject, decide, explain};
use ballast_domain::registry::{RecordKey, RecordKind};
use ballast_domain::tenant::{Pin, Slice, Tenant};
use ballast_domain::{Error, Result, ShardId, TenantId, Timestamp};
use serde::Serialize;

use crate::change::IfMatch;
use crate::fleet::VersionedFleet;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::{shards, tenants};

/// Where a tenant's slices are and where they belong.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Placement)]
pub struct TenantPlacement {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The shard of its first slice; nearly every tenant has only one.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The shard that slice belongs on; differs while it is due to move.
    #[serde(rename = "preferredShardID")]
    pub preferred_shard_id: Option<ShardId>,
    /// All its slices.
    pub slices: Vec<Slice>,
    /// The shard an operator pinned it to.
    pub pin: Option<Pin>,
}

/// Where a tenant is.
pub async fn show(plane: &ControlPlane, id: &TenantId) -> Result<Versioned<TenantPlacement>> {
    let tenant = tenants::get(plane, id).await?;
    let snapshot = plane.fleet().snapshot();
    let first = tenant.value.slices.first().ok_or_else(|| no_slice(id, 0))?;
    let preferred = PlacementSubject::from_slice(&tenant.value, first.slice)
        .and_then(|subject| decide(&snapshot.fleet, &subject).shard_id);
    Ok(Versioned {
        version: tenant.version,
        value: TenantPlacement {
            tenant_id: id.clone(),
            shard_id: first.shard_id.clone(),
            preferred_shard_id: preferred,
            slices: tenant.value.slices.clone(),
            pin: tenant.value.pin.clone(),
        },
    })
}

/// Explains why a slice is where it is, now or at an earlier moment.
pub async fn explain_placement(
    plane: &ControlPlane,
    id: &TenantId,
    slice: u32,
    at: Option<Timestamp>,
) -> Result<Explanation> {
    let registry = plane.registry();
    let (tenant, fleet) = match at {
        None => (
            tenants::get(plane, id).await?.value,
            VersionedFleet::read(registry).await?.fleet,
        ),
        Some(moment) if moment > plane.now() => {
            return Err(Error::invalid_field(
                "?at",
                format!("{moment} is in the future"),
            ));
        }
        Some(moment) => {
            let revision = registry.revision_at(moment).await?;
            let key = RecordKey::new(RecordKind::Tenant, id.as_str());
            let Some(record) = registry.get_at(&key, revision).await? else {
                // Distinguishes "never existed" from "not yet".
                tenants::get(plane, id).await?;
                let detail = format!("tenant {:?} did not exist at {moment}", id.as_str());
                return Err(Error::new(ErrorCode::NoHistory, detail));
            };
            let tenant: Versioned<Tenant> = typed::decode(&record)?;
            (
                tenant.value,
                VersionedFleet::read_at(registry, revision).await?,
            )
        }
    };
    // A tenant that was split has no slice 0: use its first slice.
    let first = tenant.slices.first().map(|first| first.slice);
    let subject = PlacementSubject::from_slice(&tenant, slice);
    let subject =
        subject.or_else(|| PlacementSubject::from_slice(&tenant, first.filter(|_| slice == 0)?));
    let subject = subject.ok_or_else(|| no_slice(id, slice))?;
    Ok(explain(&fleet, &subject))
}

fn no_slice(id: &TenantId, slice: u32) -> Error {
    let detail = format!("tenant {:?} has no slice {slice}", id.as_str());
    Error::new(ErrorCode::NotFound, detail)
}

/// Pins a tenant to a shard. Its slices move there later.
pub async fn pin(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    if_match: &IfMatch,
    shard_id: &ShardId,
) -> Result<Versioned<TenantPlacement>> {
    let _turn = plane.lock_fleet().await;
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    if snapshot.fleet.get(shard_id).is_none() {
        return Err(shards::not_found(plane, shard_id));
    }
    // The commit requires the same fleet, so the shard still exists.
    let expects = vec![snapshot.expect_unchanged()];
    tenants::change_expecting(
        plane,
        intent,
        id,
        if_match,
        "placement.pin",
        expects,
        |tenant| {
            tenant.pin = Some(Pin {
                shard_id: shard_id.clone(),
                actor: intent.actor.clone(),
                reason: intent.reason.clone(),
                at: plane.now(),
            });
            for slice in &tenant.slices {
                refuse_vetoed(&snapshot.fleet, tenant, slice.slice, shard_id)?;
            }
            Ok(())
        },
    )
    .await?;
    show(plane, id).await
}

fn refuse_vetoed(
    fleet: &PlacementFleet,
    tenant: &Tenant,
    slice: u32,
    shard_id: &ShardId,
) -> Result<()> {
    let Some(subject) = PlacementSubject::from_slice(tenant, slice) else {
        return Ok(());
    };
    let explanation = explain(fleet, &subject);
    let vetoes: Vec<&str> = explanation
        .shards
        .iter()
        .filter(|shard| shard.shard_id == *shard_id)
        .flat_map(|shard| shard.vetoes.iter().map(|veto| veto.message.as_str()))
        .collect();
    if vetoes.is_empty() {
        Ok(())
    } else {
        let detail = format!("{shard_id} {}", vetoes.join(" and "));
        Err(Error::new(ErrorCode::PinRefused, detail))
    }
}

/// Removes a pin; has no effect when there is none.
pub async fn unpin(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    if_match: &IfMatch,
) -> Result<Versioned<TenantPlacement>> {
    let now = tenants::get(plane, id).await?;
    if now.value.pin.is_none() {
        if_match.check(now.version)?;
    } else {
        tenants::change(plane, intent, id, if_match, "placement.unpin", |tenant| {
            tenant.pin = None;
            Ok(())
        })
        .await?;
    }
    show(plane, id).await
}
