//! Responses: JSON with an ETag, created resources, replayed responses.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::Result;
use ballast_web::ApiError;
use serde::Serialize;

use crate::intent::Intent;
use crate::plane::ControlPlane;

pub(super) type ApiResponse = Result<Response, ApiError>;

/// 200 with the version as ETag.
pub(super) fn with_etag<T: Serialize>(version: u64, body: &T) -> Response {
    with_status_and_etag(StatusCode::OK, version, body)
}

pub(super) fn with_status_and_etag<T: Serialize>(
    status: StatusCode,
    version: u64,
    body: &T,
) -> Response {
    let mut response = (status, Json(body)).into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// 201 with the created resource.
pub(super) async fn reply_created<B: Serialize>(
    plane: &ControlPlane,
    intent: &Intent,
    made: Result<B>,
) -> ApiResponse {
    reply(plane, intent, StatusCode::CREATED, made).await
}

/// 202 with work that was accepted.
pub(super) async fn reply_accepted<B: Serialize>(
    plane: &ControlPlane,
    intent: &Intent,
    made: Result<B>,
) -> ApiResponse {
    reply(plane, intent, StatusCode::ACCEPTED, made).await
}

async fn reply<B: Serialize>(
    plane: &ControlPlane,
    intent: &Intent,
    status: StatusCode,
    made: Result<B>,
) -> ApiResponse {
    match made {
        Ok(body) => Ok(with_status_and_etag(status, 1, &body)),
        // A concurrent request with the same key may have won: replay its response.
        Err(error) => match replay(plane, intent, status).await? {
            Some(answer) => Ok(answer),
            None => Err(error.into()),
        },
    }
}

/// The response to an earlier create with the same `Idempotency-Key`.
pub(super) async fn replay_created(
    plane: &ControlPlane,
    intent: &Intent,
) -> Result<Option<Response>> {
    replay(plane, intent, StatusCode::CREATED).await
}

/// The same with another status.
pub(super) async fn replay(
    plane: &ControlPlane,
    intent: &Intent,
    status: StatusCode,
) -> Result<Option<Response>> {
    let Some(idempotency) = &intent.idempotency else {
        return Ok(None);
    };
    Ok(idempotency.replay(plane).await?.map(|body| {
        let mut response = with_status_and_etag(status, 1, &body);
        response.headers_mut().insert(
            HeaderName::from_static("idempotency-replayed"),
            HeaderValue::from_static("true"),
        );
        response
    }))
}
