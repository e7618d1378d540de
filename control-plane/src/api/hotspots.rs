//! `/hotspots` and `/plans`

use axum::Json;
use axum::extract::State;
use ballast_domain::ShardId;
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::caller::Viewer;
use super::migrations::RecordName;
use super::request::{Change, Id, IfMatchHeader, Reason};
use super::response::{ApiResponse, with_etag};
use crate::hotspots::plans;
use crate::hotspots::queries::{self, WhyNotBody};
use crate::hotspots::records::{HotspotRecord, PlanRecord};
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HotspotFilter {
    /// Only open hotspots, or only ended ones.
    open: Option<bool>,
    /// Only hotspots of this shard.
    #[serde(rename = "shardID")]
    #[param(rename = "shardID")]
    shard_id: Option<ShardId>,
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List hotspots, newest first: what is hot, why, and what helps.
#[utoipa::path(get, path = "/hotspots", operation_id = "listHotspots",
    tag = "hotspots", params(HotspotFilter),
    responses((status = 200, description = "A page of hotspots",
        body = Page<Versioned<HotspotRecord>>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<HotspotFilter>,
) -> Result<Json<Page<Versioned<HotspotRecord>>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    let after = page::parse_cursor(filter.cursor.as_deref())?;
    let shard = filter.shard_id.as_ref();
    let found = queries::list(&plane, filter.open, shard, after, limit + 1).await?;
    let id = |it: &Versioned<HotspotRecord>| it.value.hotspot_id.clone();
    Ok(Json(Page::from_items(found, limit, id)))
}

/// Show a hotspot: finding, evidence, cause, cure and expected effect.
#[utoipa::path(get, path = "/hotspots/{hotspotID}", operation_id = "getHotspot",
    tag = "hotspots",
    params(("hotspotID" = String, Path)),
    responses((status = 200, description = "The hotspot", body = Versioned<HotspotRecord>)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
) -> ApiResponse {
    let found = queries::show(&plane, &id).await?;
    Ok(with_etag(found.version, &found))
}

/// Explain why nothing is done about a shard, or what is.
#[utoipa::path(get, path = "/shards/{shardID}/why-not", operation_id = "explainShard",
    tag = "hotspots",
    params(("shardID" = ShardId, Path)),
    responses((status = 200, description = "The state of each rule", body = WhyNotBody)))]
pub(super) async fn why_not(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
) -> Result<Json<WhyNotBody>, ApiError> {
    Ok(Json(queries::why_not(&plane, &id).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PlanFilter {
    /// Only open plans, or only ended ones.
    open: Option<bool>,
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List plans, newest first.
#[utoipa::path(get, path = "/plans", operation_id = "listPlans",
    tag = "hotspots", params(PlanFilter),
    responses((status = 200, description = "A page of plans", body = Page<Versioned<PlanRecord>>)))]
pub(super) async fn plans_list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<PlanFilter>,
) -> Result<Json<Page<Versioned<PlanRecord>>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    let after = page::parse_cursor(filter.cursor.as_deref())?;
    let found = plans::list(&plane, filter.open, after, limit + 1).await?;
    let id = |it: &Versioned<PlanRecord>| it.value.plan_id.clone();
    Ok(Json(Page::from_items(found, limit, id)))
}

/// Show a plan: its moves with reason, price and predicted effect; afterwards also
/// the measured effect.
#[utoipa::path(get, path = "/plans/{planID}", operation_id = "getPlan",
    tag = "hotspots",
    params(("planID" = String, Path)),
    responses((status = 200, description = "The plan", body = Versioned<PlanRecord>)))]
pub(super) async fn plan_show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
) -> ApiResponse {
    let found = plans::get(&plane, &id).await?;
    Ok(with_etag(found.version, &found))
}

async fn decide(
    plane: &ControlPlane,
    id: &str,
    change: Change<EmptyBody>,
    yes: bool,
) -> ApiResponse {
    let Change {
        intent, if_match, ..
    } = change;
    let found = plans::decide(plane, &intent, id, &if_match, yes).await?;
    Ok(with_etag(found.version, &found))
}

/// Approve a plan, so that it is carried out.
#[utoipa::path(post, path = "/plans/{planID}/approve", operation_id = "approvePlan",
    tag = "hotspots",
    params(("planID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The approved plan", body = Versioned<PlanRecord>)))]
pub(super) async fn approve(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    decide(&plane, &id, change, true).await
}

/// Reject a plan, so that it is not carried out.
#[utoipa::path(post, path = "/plans/{planID}/reject", operation_id = "rejectPlan",
    tag = "hotspots",
    params(("planID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The rejected plan", body = Versioned<PlanRecord>)))]
pub(super) async fn reject(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    decide(&plane, &id, change, false).await
}
