//! `/shards/{shardID}/drain` and `/rebalance`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ballast_domain::ShardId;
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;

use super::caller::Viewer;
use super::request::{Change, Id, Payload, Reason};
use super::response::ApiResponse;
use crate::drains::MigrationOptions;
use crate::drains::drain::{self, DrainBody};
use crate::drains::rebalance::{self, RebalanceBody};
use crate::plane::ControlPlane;

impl Payload for MigrationOptions {
    const REQUIRED: bool = false;
}

/// Show the state of a shard's drain, and which slices would move where.
#[utoipa::path(get, path = "/shards/{shardID}/drain", operation_id = "getDrain",
    tag = "shards",
    params(("shardID" = ShardId, Path), MigrationOptions),
    responses((status = 200, description = "The state of the drain", body = DrainBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
    Params(options): Params<MigrationOptions>,
) -> Result<Json<DrainBody>, ApiError> {
    Ok(Json(drain::show(&plane, &id, &options).await?))
}

/// Drain a shard: it accepts no slices, and its slices move away, a few at a time.
#[utoipa::path(post, path = "/shards/{shardID}/drain", operation_id = "drainShard",
    tag = "shards",
    params(("shardID" = ShardId, Path), Reason), request_body = Option<MigrationOptions>,
    responses((status = 202, description = "The drain begins", body = DrainBody)))]
pub(super) async fn begin(
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
    change: Change<MigrationOptions>,
) -> ApiResponse {
    let body = drain::begin(&plane, &change.intent, &id, &change.body).await?;
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}

/// Cancel a drain: the shard accepts tenants again, and no further migrations
/// begin. Running ones continue to their end.
#[utoipa::path(post, path = "/shards/{shardID}/drain/cancel", operation_id = "cancelDrain",
    tag = "shards",
    params(("shardID" = ShardId, Path), Reason),
    responses((status = 200, description = "The state of the cancelled drain", body = DrainBody)))]
pub(super) async fn cancel(
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
    change: Change<EmptyBody>,
) -> Result<Json<DrainBody>, ApiError> {
    Ok(Json(drain::cancel(&plane, &change.intent, &id).await?))
}

/// Show which slices are not where they belong, and the cost of moving them.
#[utoipa::path(get, path = "/rebalance", operation_id = "getRebalance",
    tag = "placement", params(MigrationOptions),
    responses((status = 200, description = "The state of the rebalance", body = RebalanceBody)))]
pub(super) async fn rebalance_show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(options): Params<MigrationOptions>,
) -> Result<Json<RebalanceBody>, ApiError> {
    Ok(Json(rebalance::show(&plane, &options).await?))
}

/// Move slices to where they belong, a few at a time.
#[utoipa::path(post, path = "/rebalance", operation_id = "startRebalance",
    tag = "placement", params(Reason),
    request_body = Option<MigrationOptions>,
    responses((status = 202, description = "The rebalance begins", body = RebalanceBody)))]
pub(super) async fn rebalance_begin(
    State(plane): State<ControlPlane>,
    change: Change<MigrationOptions>,
) -> ApiResponse {
    let body = rebalance::begin(&plane, &change.intent, &change.body).await?;
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}
