//! `/tokens` and `/whoami`

use axum::Json;
use axum::extract::State;
use ballast_domain::TokenId;
use ballast_domain::token::{AdminRole, AdminToken};
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::caller::Caller;
use super::request::{AsAdmin, Change, Id, IdempotencyHeader, IfMatchHeader, Payload, Reason};
use super::response::{ApiResponse, replay_created, reply_created, with_etag};
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;
use crate::tokens::{self, NewToken, NewTokenBody};

impl Payload for NewToken {}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TokenPaging {
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List tokens, without their secrets. Requires the role admin.
#[utoipa::path(get, path = "/tokens", operation_id = "listTokens",
    tag = "tokens", params(TokenPaging),
    responses((status = 200, description = "A page of tokens",
        body = Page<Versioned<AdminToken>>)))]
pub(super) async fn list(
    caller: Caller,
    State(plane): State<ControlPlane>,
    Params(paging): Params<TokenPaging>,
) -> Result<Json<Page<Versioned<AdminToken>>>, ApiError> {
    caller.require_role(AdminRole::Admin)?;
    let limit = page::page_size(paging.limit)?;
    let after = page::parse_cursor(paging.cursor.as_deref())?;
    let found = tokens::list(&plane, after, limit + 1).await?;
    Ok(Json(Page::from_items(found, limit, |token| {
        token.value.token_id.to_string()
    })))
}

/// Create a token. Only this response contains the secret. Requires the role
/// admin.
#[utoipa::path(post, path = "/tokens", operation_id = "createToken",
    tag = "tokens", params(Reason, IdempotencyHeader),
    request_body = NewToken,
    responses((status = 201, description = "The new token with its secret", body = NewTokenBody)))]
pub(super) async fn create(
    State(plane): State<ControlPlane>,
    change: Change<NewToken, AsAdmin>,
) -> ApiResponse {
    let Change { intent, body, .. } = change;
    if let Some(answer) = replay_created(&plane, &intent).await? {
        return Ok(answer);
    }
    let made = tokens::create(&plane, &intent, &body).await;
    reply_created(&plane, &intent, made).await
}

/// Revoke a token now. Requires the role admin.
#[utoipa::path(post, path = "/tokens/{tokenID}/revoke", operation_id = "revokeToken",
    tag = "tokens",
    params(("tokenID" = TokenId, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The revoked token", body = Versioned<AdminToken>)))]
pub(super) async fn revoke(
    State(plane): State<ControlPlane>,
    Id(id): Id<TokenId>,
    change: Change<EmptyBody, AsAdmin>,
) -> ApiResponse {
    let token = tokens::revoke(&plane, &change.intent, &id, &change.if_match).await?;
    Ok(with_etag(token.version, &token))
}

/// Show the token in use: its name and role.
#[utoipa::path(get, path = "/whoami", operation_id = "getOwnToken",
    tag = "tokens", responses((status = 200, description = "The token in use", body = AdminToken)))]
pub(super) async fn whoami(caller: Caller) -> Json<AdminToken> {
    Json(caller.token)
}
