//! `/tenants/{tenantID}/placement` and `/placement`

use axum::Json;
use axum::extract::State;
use ballast_domain::bounds::{PREVIEW_ITEMS_DEFAULT, PREVIEW_ITEMS_MAX};
use ballast_domain::placement::Explanation;
use ballast_domain::{ShardId, TenantId, Timestamp};
use ballast_web::ApiError;
use ballast_web::body::Nothing;
use ballast_web::head::Params;
use ballast_web::page;
use serde::Deserialize;

use super::answer::{Answer, tagged};
use super::caller::Viewer;
use super::request::{Ask, Change, Id, IfMatchHeader, Payload, Reason};
use crate::placements::{self, FleetChange, Placement, Preview};
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;

impl Payload for NewPin {}
impl Payload for FleetChange {}

/// Show where a tenant is and where it belongs.
#[utoipa::path(get, path = "/tenants/{tenantID}/placement", tag = "placement",
    params(("tenantID" = TenantId, Path)), responses((status = 200, body = Versioned<Placement>)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
) -> Answer {
    let placement = placements::show(&plane, &id).await?;
    Ok(tagged(placement.version, &placement))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Which of the tenant's slices; 0 when absent.
    slice: Option<u32>,
    /// Explain it as it was at this moment.
    at: Option<Timestamp>,
}

/// Explain why a tenant is where it is: every shard with its score, what
/// vetoed it, who pinned it, by how much the winner won, what would move it.
#[utoipa::path(get, path = "/tenants/{tenantID}/placement/explain", tag = "placement",
    params(("tenantID" = TenantId, Path), Which), responses((status = 200, body = Explanation)))]
pub(super) async fn explain(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    Params(which): Params<Which>,
) -> Result<Json<Explanation>, ApiError> {
    let told = placements::explained(&plane, &id, which.slice.unwrap_or(0), which.at).await?;
    Ok(Json(told))
}

/// The shard to pin a tenant to.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPin {
    /// Which shard.
    #[serde(rename = "shardID")]
    shard_id: ShardId,
}

/// Pin a tenant to a shard. It moves there later, by a move.
#[utoipa::path(put, path = "/tenants/{tenantID}/placement/pin", tag = "placement",
    params(("tenantID" = TenantId, Path), Reason, IfMatchHeader),
    request_body = NewPin, responses((status = 200, body = Versioned<Placement>)))]
pub(super) async fn pin(
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    change: Change<NewPin>,
) -> Answer {
    let placement = placements::pin(
        &plane,
        &change.intent,
        &id,
        &change.if_match,
        &change.body.shard_id,
    )
    .await?;
    Ok(tagged(placement.version, &placement))
}

/// Take a pin away.
#[utoipa::path(delete, path = "/tenants/{tenantID}/placement/pin", tag = "placement",
    params(("tenantID" = TenantId, Path), Reason, IfMatchHeader),
    responses((status = 200, body = Versioned<Placement>)))]
pub(super) async fn unpin(
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    change: Change<Nothing>,
) -> Answer {
    let placement = placements::unpin(&plane, &change.intent, &id, &change.if_match).await?;
    Ok(tagged(placement.version, &placement))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// How many at the most; 10,000 when absent.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Say who would move if a shard were added, removed or given another weight.
/// Nothing is changed.
#[utoipa::path(post, path = "/placement/preview", tag = "placement", params(Paging),
    request_body = FleetChange, responses((status = 200, body = Preview)))]
pub(super) async fn preview(
    State(plane): State<ControlPlane>,
    Params(paging): Params<Paging>,
    Ask(change): Ask<FleetChange>,
) -> Result<Json<Preview>, ApiError> {
    previewed(&plane, Some(&change), paging).await
}

/// List the slices that are not where they belong.
#[utoipa::path(get, path = "/placement/drift", tag = "placement", params(Paging),
    responses((status = 200, body = Preview)))]
pub(super) async fn drift(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(paging): Params<Paging>,
) -> Result<Json<Preview>, ApiError> {
    previewed(&plane, None, paging).await
}

async fn previewed(
    plane: &ControlPlane,
    change: Option<&FleetChange>,
    paging: Paging,
) -> Result<Json<Preview>, ApiError> {
    let limit = page::bounded(paging.limit, PREVIEW_ITEMS_DEFAULT, PREVIEW_ITEMS_MAX)?;
    let after: Option<String> = page::after(paging.cursor.as_deref())?;
    let mut preview = placements::preview(plane, change, after.as_deref(), limit).await?;
    preview.next_cursor = preview.next_cursor.map(page::cursor);
    Ok(Json(preview))
}
