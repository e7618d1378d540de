//! `/tenants/{tenantID}/split` and `/tenants/{tenantID}/merge`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ballast_domain::TenantId;
use ballast_domain::tenant::Tenant;
use ballast_domain::token::AdminRole;

use super::request::{AsViewer, Change, Id, IdempotencyHeader, Payload, Reason};
use super::response::{ApiResponse, replay, with_status_and_etag};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;
use crate::slicing::requests::{self, NewMerge, NewSplit, SlicingPlan, SlicingRequest};

impl Payload for NewSplit {
    fn required_role(&self) -> Option<AdminRole> {
        (!self.dry_run).then_some(AdminRole::Operator)
    }
}
impl Payload for NewMerge {
    fn required_role(&self) -> Option<AdminRole> {
        (!self.dry_run).then_some(AdminRole::Operator)
    }
}

/// Split a tenant into more slices, by the hash of its polls' ids.
///
/// Slices are split in place while they accept votes. Those that belong elsewhere
/// then move there, each by a migration of its own. The response is sent when the
/// request is recorded, and usually when it is done; until then the tenant has
/// `slicing`. With `dryRun`, the response only describes what would be done; this
/// is open to viewers.
#[utoipa::path(post, path = "/tenants/{tenantID}/split", operation_id = "splitTenant",
    tag = "tenants",
    params(("tenantID" = TenantId, Path), Reason, IdempotencyHeader), request_body = NewSplit,
    responses(
        (status = 202, description = "The split is recorded", body = Versioned<Tenant>),
        (status = 200, description = "What would be done (`dryRun`)", body = SlicingPlan)))]
pub(super) async fn split(
    State(plane): State<ControlPlane>,
    Id(tenant): Id<TenantId>,
    change: Change<NewSplit, AsViewer>,
) -> ApiResponse {
    let Change { intent, body, .. } = change;
    let wanted = SlicingRequest::Split {
        into: body.into,
        spread: !body.stay,
    };
    run(&plane, &intent, &tenant, wanted, body.dry_run).await
}

/// Merge a tenant's slices, which must be on one shard.
///
/// As with a split, the tenant has `slicing` until it is done.
#[utoipa::path(post, path = "/tenants/{tenantID}/merge", operation_id = "mergeTenant",
    tag = "tenants",
    params(("tenantID" = TenantId, Path), Reason, IdempotencyHeader), request_body = NewMerge,
    responses(
        (status = 202, description = "The merge is recorded", body = Versioned<Tenant>),
        (status = 200, description = "What would be done (`dryRun`)", body = SlicingPlan)))]
pub(super) async fn merge(
    State(plane): State<ControlPlane>,
    Id(tenant): Id<TenantId>,
    change: Change<NewMerge, AsViewer>,
) -> ApiResponse {
    let Change { intent, body, .. } = change;
    let wanted = SlicingRequest::Merge { into: body.into };
    run(&plane, &intent, &tenant, wanted, body.dry_run).await
}

async fn run(
    plane: &ControlPlane,
    intent: &Intent,
    tenant: &TenantId,
    wanted: SlicingRequest,
    dry_run: bool,
) -> ApiResponse {
    if dry_run {
        let plan = requests::plan(plane, tenant, wanted).await?;
        return Ok(Json(plan).into_response());
    }
    if let Some(answer) = replay(plane, intent, StatusCode::ACCEPTED).await? {
        return Ok(answer);
    }
    match requests::begin(plane, intent, tenant, wanted).await {
        Ok(made) => Ok(with_status_and_etag(
            StatusCode::ACCEPTED,
            made.version,
            &made,
        )),
        // A concurrent request with the same key may have won: replay its response.
        Err(error) => match replay(plane, intent, StatusCode::ACCEPTED).await? {
            Some(answer) => Ok(answer),
            None => Err(error.into()),
        },
    }
}
