//! `/shards/{shardID}/drain` and `/rebalance`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ballast_domain::ShardId;
use ballast_web::ApiError;
use ballast_web::body::Nothing;

use super::answer::Answer;
use super::caller::Viewer;
use super::request::{Change, Id, Payload, Reason};
use crate::drains::Manner;
use crate::drains::drain::{self, DrainBody};
use crate::drains::rebalance::{self, RebalanceBody};
use crate::plane::ControlPlane;

impl Payload for Manner {
    const REQUIRED: bool = false;
}

/// Show how the emptying of a shard stands, and which slices would go where.
#[utoipa::path(get, path = "/shards/{shardID}/drain", tag = "shards",
    params(("shardID" = ShardId, Path)), responses((status = 200, body = DrainBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
) -> Result<Json<DrainBody>, ApiError> {
    Ok(Json(drain::show(&plane, &id).await?))
}

/// Empty a shard: it takes nothing new, and its slices move away, a few at a
/// time.
#[utoipa::path(post, path = "/shards/{shardID}/drain", tag = "shards",
    params(("shardID" = ShardId, Path), Reason), request_body = Option<Manner>,
    responses((status = 202, body = DrainBody)))]
pub(super) async fn begin(
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
    change: Change<Manner>,
) -> Answer {
    let body = drain::begin(&plane, &change.intent, &id, &change.body).await?;
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}

/// Call the emptying of a shard off: it takes slices again, and no further
/// moves begin. Those under way go on to their end.
#[utoipa::path(post, path = "/shards/{shardID}/drain/cancel", tag = "shards",
    params(("shardID" = ShardId, Path), Reason), responses((status = 200, body = DrainBody)))]
pub(super) async fn cancel(
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
    change: Change<Nothing>,
) -> Result<Json<DrainBody>, ApiError> {
    Ok(Json(drain::cancel(&plane, &change.intent, &id).await?))
}

/// Show which slices are not where they belong, and what it would cost to move
/// them.
#[utoipa::path(get, path = "/rebalance", tag = "placement",
    responses((status = 200, body = RebalanceBody)))]
pub(super) async fn rebalance_show(
    _: Viewer,
    State(plane): State<ControlPlane>,
) -> Result<Json<RebalanceBody>, ApiError> {
    Ok(Json(rebalance::show(&plane).await?))
}

/// Move slices that are not where they belong there, a few at a time.
#[utoipa::path(post, path = "/rebalance", tag = "placement", params(Reason),
    request_body = Option<Manner>, responses((status = 202, body = RebalanceBody)))]
pub(super) async fn rebalance_begin(
    State(plane): State<ControlPlane>,
    change: Change<Manner>,
) -> Answer {
    let body = rebalance::begin(&plane, &change.intent, &change.body).await?;
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}
