//! `/keys` and `/tenants/{tenantID}/keys`

use axum::Json;
use axum::extract::State;
use ballast_domain::{KeyId, TenantId};
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::caller::Viewer;
use super::request::{Change, Id, IdempotencyHeader, IfMatchHeader, Payload, ReadRequest, Reason};
use super::response::{ApiResponse, replay_created, reply_created, with_etag};
use crate::keys::{self, KeyBody, KeyPatch, NewKey, NewKeyBody, Rotation};
use crate::plane::ControlPlane;

impl Payload for NewKey {}
impl Payload for KeyPatch {}
impl Payload for Rotation {}
impl Payload for KeyToIdentify {}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct KeyFilter {
    /// Only keys of this tenant.
    tenant: Option<TenantId>,
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// A key to identify.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Shown)]
pub(super) struct KeyToIdentify {
    /// The secret.
    #[schema(max_length = 200)]
    key: String,
}

/// Create a key for a tenant. Only this response contains the secret.
#[utoipa::path(post, path = "/tenants/{tenantID}/keys", operation_id = "createKey",
    tag = "keys",
    params(("tenantID" = TenantId, Path), Reason, IdempotencyHeader),
    request_body = NewKey,
    responses((status = 201, description = "The new key with its secret", body = NewKeyBody)))]
pub(super) async fn create(
    State(plane): State<ControlPlane>,
    Id(tenant): Id<TenantId>,
    change: Change<NewKey>,
) -> ApiResponse {
    let Change { intent, body, .. } = change;
    if let Some(answer) = replay_created(&plane, &intent).await? {
        return Ok(answer);
    }
    let made = keys::create(&plane, &intent, &tenant, &body).await;
    reply_created(&plane, &intent, made).await
}

/// List keys, without their secrets.
#[utoipa::path(get, path = "/keys", operation_id = "listKeys",
    tag = "keys", params(KeyFilter),
    responses((status = 200, description = "A page of keys", body = Page<KeyBody>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<KeyFilter>,
) -> Result<Json<Page<KeyBody>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    let after = page::parse_cursor(filter.cursor.as_deref())?;
    let found = keys::list(&plane, filter.tenant.as_ref(), after, limit + 1).await?;
    Ok(Json(Page::from_items(found, limit, |body| {
        body.key.value.key_id.to_string()
    })))
}

/// Show a key, without its secret.
#[utoipa::path(get, path = "/keys/{keyID}", operation_id = "getKey",
    tag = "keys", params(("keyID" = KeyId, Path)),
    responses((status = 200, description = "The key", body = KeyBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<KeyId>,
) -> ApiResponse {
    let body = keys::get(&plane, &id).await?;
    Ok(with_etag(body.key.version, &body))
}

/// Change a key's name or scopes.
#[utoipa::path(patch, path = "/keys/{keyID}", operation_id = "updateKey",
    tag = "keys",
    params(("keyID" = KeyId, Path), Reason, IfMatchHeader),
    request_body = KeyPatch,
    responses((status = 200, description = "The changed key", body = KeyBody)))]
pub(super) async fn update(
    State(plane): State<ControlPlane>,
    Id(id): Id<KeyId>,
    change: Change<KeyPatch>,
) -> ApiResponse {
    let body = keys::update(&plane, &change.intent, &id, &change.if_match, &change.body).await?;
    Ok(with_etag(body.key.version, &body))
}

/// Rotate a key: create a successor; the old key keeps working until the overlap ends.
#[utoipa::path(post, path = "/keys/{keyID}/rotate", operation_id = "rotateKey",
    tag = "keys",
    params(("keyID" = KeyId, Path), Reason, IfMatchHeader, IdempotencyHeader),
    request_body = Rotation,
    responses((status = 201, description = "The successor with its secret", body = NewKeyBody)))]
pub(super) async fn rotate(
    State(plane): State<ControlPlane>,
    Id(id): Id<KeyId>,
    change: Change<Rotation>,
) -> ApiResponse {
    let Change {
        intent,
        if_match,
        body,
        ..
    } = change;
    if let Some(answer) = replay_created(&plane, &intent).await? {
        return Ok(answer);
    }
    let made = keys::rotate(&plane, &intent, &id, &if_match, &body).await;
    reply_created(&plane, &intent, made).await
}

/// Revoke a key now.
#[utoipa::path(post, path = "/keys/{keyID}/revoke", operation_id = "revokeKey",
    tag = "keys",
    params(("keyID" = KeyId, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The revoked key", body = KeyBody)))]
pub(super) async fn revoke(
    State(plane): State<ControlPlane>,
    Id(id): Id<KeyId>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    let body = keys::revoke(&plane, &change.intent, &id, &change.if_match).await?;
    Ok(with_etag(body.key.version, &body))
}

/// Identify a key: its tenant and status. Changes nothing.
#[utoipa::path(post, path = "/keys/identify", operation_id = "identifyKey",
    tag = "keys", request_body = KeyToIdentify,
    responses((status = 200, description = "The key", body = KeyBody)))]
pub(super) async fn identify(
    State(plane): State<ControlPlane>,
    ReadRequest(shown): ReadRequest<KeyToIdentify>,
) -> ApiResponse {
    let body = keys::identify(&plane, &shown.key).await?;
    Ok(with_etag(body.key.version, &body))
}
