//! `/tenants/{tenantID}/split` and `/tenants/{tenantID}/merge`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ballast_domain::TenantId;
use ballast_domain::tenant::Tenant;
use ballast_domain::token::Role;

use super::answer::{Answer, replayed_as, with_tag};
use super::request::{AsViewer, Change, Id, IdempotencyHeader, Payload, Reason};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;
use crate::slicing::ask::{self, NewMerge, NewSplit, SlicingPlan, Wanted};

impl Payload for NewSplit {
    fn needs(&self) -> Option<Role> {
        (!self.dry_run).then_some(Role::Operator)
    }
}
impl Payload for NewMerge {
    fn needs(&self) -> Option<Role> {
        (!self.dry_run).then_some(Role::Operator)
    }
}

/// Divide a tenant into more slices, by the hash of its polls' ids.
///
/// Slices are cut where they are, while they are being voted on; those that
/// belong elsewhere are then moved there, each by a move of its own. It is
/// answered when it is written down, and mostly when it is done: until then the
/// tenant has `slicing`. With `dryRun` it is only said what would be done; a
/// viewer may ask that.
#[utoipa::path(post, path = "/tenants/{tenantID}/split", tag = "tenants",
    params(("tenantID" = TenantId, Path), Reason, IdempotencyHeader), request_body = NewSplit,
    responses((status = 202, body = Versioned<Tenant>), (status = 200, body = SlicingPlan)))]
pub(super) async fn split(
    State(plane): State<ControlPlane>,
    Id(tenant): Id<TenantId>,
    change: Change<NewSplit, AsViewer>,
) -> Answer {
    let Change { intent, body, .. } = change;
    let wanted = Wanted::Split {
        into: body.into,
        spread: !body.stay,
    };
    sliced(&plane, &intent, &tenant, wanted, body.dry_run).await
}

/// Join a tenant's slices, which must be on one shard.
///
/// As with a split, the tenant has `slicing` until it is done.
#[utoipa::path(post, path = "/tenants/{tenantID}/merge", tag = "tenants",
    params(("tenantID" = TenantId, Path), Reason, IdempotencyHeader), request_body = NewMerge,
    responses((status = 202, body = Versioned<Tenant>), (status = 200, body = SlicingPlan)))]
pub(super) async fn merge(
    State(plane): State<ControlPlane>,
    Id(tenant): Id<TenantId>,
    change: Change<NewMerge, AsViewer>,
) -> Answer {
    let Change { intent, body, .. } = change;
    let wanted = Wanted::Merge { into: body.into };
    sliced(&plane, &intent, &tenant, wanted, body.dry_run).await
}

async fn sliced(
    plane: &ControlPlane,
    intent: &Intent,
    tenant: &TenantId,
    wanted: Wanted,
    dry_run: bool,
) -> Answer {
    if dry_run {
        let plan = ask::plan(plane, tenant, wanted).await?;
        return Ok(Json(plan).into_response());
    }
    if let Some(answer) = replayed_as(plane, intent, StatusCode::ACCEPTED).await? {
        return Ok(answer);
    }
    match ask::begin(plane, intent, tenant, wanted).await {
        Ok(made) => Ok(with_tag(StatusCode::ACCEPTED, made.version, &made)),
        // The same request, sent at the same time, may have won.
        Err(error) => match replayed_as(plane, intent, StatusCode::ACCEPTED).await? {
            Some(answer) => Ok(answer),
            None => Err(error.into()),
        },
    }
}
