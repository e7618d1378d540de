//! `/hotspots` and `/plans`

use axum::Json;
use axum::extract::State;
use ballast_domain::ShardId;
use ballast_web::ApiError;
use ballast_web::body::Nothing;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::answer::{Answer, tagged};
use super::caller::Viewer;
use super::migrations::Named;
use super::request::{Change, Id, IfMatchHeader, Reason};
use crate::hotspots::ask::{self, WhyNotBody};
use crate::hotspots::plans;
use crate::hotspots::records::{Hotspot, PlanRecord};
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HotspotFilter {
    /// Only those that are there, or only those that are over.
    open: Option<bool>,
    /// Only those of this shard.
    #[serde(rename = "shardID")]
    #[param(rename = "shardID")]
    shard_id: Option<ShardId>,
    /// How many at the most; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// List hotspots, the newest first: what is hot, why, and what helps.
#[utoipa::path(get, path = "/hotspots", tag = "hotspots", params(HotspotFilter),
    responses((status = 200, body = Page<Versioned<Hotspot>>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<HotspotFilter>,
) -> Result<Json<Page<Versioned<Hotspot>>>, ApiError> {
    let limit = page::limit(filter.limit)?;
    let after = page::after(filter.cursor.as_deref())?;
    let shard = filter.shard_id.as_ref();
    let found = ask::list(&plane, filter.open, shard, after, limit + 1).await?;
    let id = |it: &Versioned<Hotspot>| it.value.hotspot_id.clone();
    Ok(Json(Page::of(found, limit, id)))
}

/// Show a hotspot: finding, evidence, cause, cure, and what to expect of it.
#[utoipa::path(get, path = "/hotspots/{hotspotID}", tag = "hotspots",
    params(("hotspotID" = String, Path)), responses((status = 200, body = Versioned<Hotspot>)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
) -> Answer {
    let found = ask::show(&plane, &id).await?;
    Ok(tagged(found.version, &found))
}

/// Show why nothing is done about a shard, or what is.
#[utoipa::path(get, path = "/shards/{shardID}/why-not", tag = "hotspots",
    params(("shardID" = ShardId, Path)), responses((status = 200, body = WhyNotBody)))]
pub(super) async fn why_not(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
) -> Result<Json<WhyNotBody>, ApiError> {
    Ok(Json(ask::why_not(&plane, &id).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PlanFilter {
    /// Only those that are not over, or only those that are.
    open: Option<bool>,
    /// How many at the most; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// List plans, the newest first.
#[utoipa::path(get, path = "/plans", tag = "hotspots", params(PlanFilter),
    responses((status = 200, body = Page<Versioned<PlanRecord>>)))]
pub(super) async fn plans_list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<PlanFilter>,
) -> Result<Json<Page<Versioned<PlanRecord>>>, ApiError> {
    let limit = page::limit(filter.limit)?;
    let after = page::after(filter.cursor.as_deref())?;
    let found = plans::list(&plane, filter.open, after, limit + 1).await?;
    let id = |it: &Versioned<PlanRecord>| it.value.plan_id.clone();
    Ok(Json(Page::of(found, limit, id)))
}

/// Show a plan: what is moved why, at what price, to what effect; afterwards
/// what was measured beside what was predicted.
#[utoipa::path(get, path = "/plans/{planID}", tag = "hotspots",
    params(("planID" = String, Path)), responses((status = 200, body = Versioned<PlanRecord>)))]
pub(super) async fn plan_show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
) -> Answer {
    let found = plans::get(&plane, &id).await?;
    Ok(tagged(found.version, &found))
}

async fn decided(plane: &ControlPlane, id: &str, change: Change<Nothing>, yes: bool) -> Answer {
    let Change {
        intent, if_match, ..
    } = change;
    let found = plans::decide(plane, &intent, id, &if_match, yes).await?;
    Ok(tagged(found.version, &found))
}

/// Approve a plan: it is carried out.
#[utoipa::path(post, path = "/plans/{planID}/approve", tag = "hotspots",
    params(("planID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, body = Versioned<PlanRecord>)))]
pub(super) async fn approve(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Nothing>,
) -> Answer {
    decided(&plane, &id, change, true).await
}

/// Reject a plan: it is not carried out.
#[utoipa::path(post, path = "/plans/{planID}/reject", tag = "hotspots",
    params(("planID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, body = Versioned<PlanRecord>)))]
pub(super) async fn reject(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Nothing>,
) -> Answer {
    decided(&plane, &id, change, false).await
}
