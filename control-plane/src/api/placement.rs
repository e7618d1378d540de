//! `/tenants/{tenantID}/placement` and `/placement`

use axum::Json;
use axum::extract::State;
use ballast_domain::bounds::{PREVIEW_ITEMS_DEFAULT, PREVIEW_ITEMS_MAX};
use ballast_domain::placement::Explanation;
use ballast_domain::{ShardId, TenantId, Timestamp};
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page;
use serde::Deserialize;

use super::caller::Viewer;
use super::request::{Change, Id, IfMatchHeader, Payload, ReadRequest, Reason};
use super::response::{ApiResponse, with_etag};
use crate::placements::{self, FleetChangeBody, Preview, TenantPlacement};
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;

impl Payload for NewPin {}
impl Payload for FleetChangeBody {}

/// Show where a tenant is and where it belongs.
#[utoipa::path(get, path = "/tenants/{tenantID}/placement", operation_id = "getPlacement",
    tag = "placement",
    params(("tenantID" = TenantId, Path)),
    responses((status = 200, description = "The placement", body = Versioned<TenantPlacement>)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
) -> ApiResponse {
    let placement = placements::show(&plane, &id).await?;
    Ok(with_etag(placement.version, &placement))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExplainFilter {
    /// Which of the tenant's slices; 0 when absent.
    slice: Option<u32>,
    /// Explain the placement at this moment in the past.
    at: Option<Timestamp>,
}

/// Explain why a tenant is where it is: every shard's score and vetoes, the pin,
/// the winner's margin, and what would move it.
#[utoipa::path(get, path = "/tenants/{tenantID}/placement/explain",
    operation_id = "explainPlacement",
    tag = "placement",
    params(("tenantID" = TenantId, Path), ExplainFilter),
    responses((status = 200, description = "Every shard with its score", body = Explanation)))]
pub(super) async fn explain(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    Params(which): Params<ExplainFilter>,
) -> Result<Json<Explanation>, ApiError> {
    let explanation =
        placements::explain_placement(&plane, &id, which.slice.unwrap_or(0), which.at).await?;
    Ok(Json(explanation))
}

/// The shard to pin a tenant to.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPin {
    /// The shard.
    #[serde(rename = "shardID")]
    shard_id: ShardId,
}

/// Pin a tenant to a shard. Its slices move there later.
#[utoipa::path(put, path = "/tenants/{tenantID}/placement/pin", operation_id = "pinTenant",
    tag = "placement",
    params(("tenantID" = TenantId, Path), Reason, IfMatchHeader),
    request_body = NewPin,
    responses((status = 200, description = "The placement with the pin",
        body = Versioned<TenantPlacement>)))]
pub(super) async fn pin(
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    change: Change<NewPin>,
) -> ApiResponse {
    let placement = placements::pin(
        &plane,
        &change.intent,
        &id,
        &change.if_match,
        &change.body.shard_id,
    )
    .await?;
    Ok(with_etag(placement.version, &placement))
}

/// Remove a pin.
#[utoipa::path(delete, path = "/tenants/{tenantID}/placement/pin", operation_id = "unpinTenant",
    tag = "placement",
    params(("tenantID" = TenantId, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The placement without the pin",
        body = Versioned<TenantPlacement>)))]
pub(super) async fn unpin(
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    let placement = placements::unpin(&plane, &change.intent, &id, &change.if_match).await?;
    Ok(with_etag(placement.version, &placement))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PreviewPaging {
    /// Maximum number of results; 10,000 when absent.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Preview which slices would move if a shard were added, removed or given another
/// weight. Changes nothing.
#[utoipa::path(post, path = "/placement/preview", operation_id = "previewPlacement",
    tag = "placement", params(PreviewPaging),
    request_body = FleetChangeBody,
    responses((status = 200, description = "A page of the slices that would move",
        body = Preview)))]
pub(super) async fn preview(
    State(plane): State<ControlPlane>,
    Params(paging): Params<PreviewPaging>,
    ReadRequest(change): ReadRequest<FleetChangeBody>,
) -> Result<Json<Preview>, ApiError> {
    run_preview(&plane, Some(&change), paging).await
}

/// List the slices that are not where they belong.
#[utoipa::path(get, path = "/placement/drift", operation_id = "listDrift",
    tag = "placement", params(PreviewPaging),
    responses((status = 200, description = "A page of the slices that are elsewhere",
        body = Preview)))]
pub(super) async fn drift(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(paging): Params<PreviewPaging>,
) -> Result<Json<Preview>, ApiError> {
    run_preview(&plane, None, paging).await
}

async fn run_preview(
    plane: &ControlPlane,
    change: Option<&FleetChangeBody>,
    paging: PreviewPaging,
) -> Result<Json<Preview>, ApiError> {
    let limit = page::page_size_within(paging.limit, PREVIEW_ITEMS_DEFAULT, PREVIEW_ITEMS_MAX)?;
    let after: Option<String> = page::parse_cursor(paging.cursor.as_deref())?;
    let mut preview = placements::preview(plane, change, after.as_deref(), limit).await?;
    preview.next_cursor = preview.next_cursor.map(page::cursor);
    Ok(Json(preview))
}
