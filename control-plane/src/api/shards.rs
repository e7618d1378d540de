//! `/shards`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ballast_domain::ShardId;
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::caller::Viewer;
use super::request::{Change, Id, IdempotencyHeader, IfMatchHeader, Payload, Reason};
use super::response::{ApiResponse, replay_created, reply_created, with_etag};
use crate::plane::ControlPlane;
use crate::shards::{self, NewShard, ShardBody, ShardPatch};

impl Payload for NewShard {}
impl Payload for ShardPatch {}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ShardFilter {
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List shards with their slice counts.
#[utoipa::path(get, path = "/shards", operation_id = "listShards",
    tag = "shards", params(ShardFilter),
    responses((status = 200, description = "A page of shards", body = Page<ShardBody>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<ShardFilter>,
) -> Result<Json<Page<ShardBody>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    let after: String = page::parse_cursor(filter.cursor.as_deref())?.unwrap_or_default();
    let found = shards::list(&plane).await?;
    let id = |body: &ShardBody| body.shard.value.shard_id.to_string();
    let rest = found
        .into_iter()
        .filter(|body| id(body) > after)
        .take(limit as usize + 1);
    Ok(Json(Page::from_items(rest.collect(), limit, id)))
}

/// Add a shard. No slice moves; a preview lists the slices that would.
#[utoipa::path(post, path = "/shards", operation_id = "addShard",
    tag = "shards", params(Reason, IdempotencyHeader),
    request_body = NewShard,
    responses((status = 201, description = "The new shard", body = ShardBody)))]
pub(super) async fn add(
    State(plane): State<ControlPlane>,
    change: Change<NewShard>,
) -> ApiResponse {
    let Change { intent, body, .. } = change;
    if let Some(answer) = replay_created(&plane, &intent).await? {
        return Ok(answer);
    }
    let made = shards::add(&plane, &intent, &body).await;
    reply_created(&plane, &intent, made).await
}

/// Show a shard.
#[utoipa::path(get, path = "/shards/{shardID}", operation_id = "getShard",
    tag = "shards",
    params(("shardID" = ShardId, Path)),
    responses((status = 200, description = "The shard", body = ShardBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
) -> ApiResponse {
    let body = shards::get(&plane, &id).await?;
    Ok(with_etag(body.shard.version, &body))
}

/// Change a shard's weight, zones, density limit or state.
#[utoipa::path(patch, path = "/shards/{shardID}", operation_id = "updateShard",
    tag = "shards",
    params(("shardID" = ShardId, Path), Reason, IfMatchHeader),
    request_body = ShardPatch,
    responses((status = 200, description = "The changed shard", body = ShardBody)))]
pub(super) async fn update(
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
    change: Change<ShardPatch>,
) -> ApiResponse {
    let body = shards::update(&plane, &change.intent, &id, &change.if_match, &change.body).await?;
    Ok(with_etag(body.shard.version, &body))
}

/// Remove an empty shard from the fleet.
#[utoipa::path(delete, path = "/shards/{shardID}", operation_id = "removeShard",
    tag = "shards",
    params(("shardID" = ShardId, Path), Reason, IfMatchHeader),
    responses((status = 204, description = "The shard is removed")))]
pub(super) async fn remove(
    State(plane): State<ControlPlane>,
    Id(id): Id<ShardId>,
    change: Change<EmptyBody>,
) -> Result<StatusCode, ApiError> {
    shards::remove(&plane, &change.intent, &id, &change.if_match).await?;
    Ok(StatusCode::NO_CONTENT)
}
