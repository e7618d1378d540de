//! Answers: JSON with an ETag, a created thing, a repeated answer.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::Result;
use ballast_web::ApiError;
use serde::Serialize;

use crate::intent::Intent;
use crate::plane::ControlPlane;

pub(super) type Answer = Result<Response, ApiError>;

/// 200 with the version as ETag.
pub(super) fn tagged<T: Serialize>(version: u64, body: &T) -> Response {
    with_tag(StatusCode::OK, version, body)
}

pub(super) fn with_tag<T: Serialize>(status: StatusCode, version: u64, body: &T) -> Response {
    let mut response = (status, Json(body)).into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// 201 with what was made.
pub(super) async fn created<B: Serialize>(
    plane: &ControlPlane,
    intent: &Intent,
    made: Result<B>,
) -> Answer {
    answered(plane, intent, StatusCode::CREATED, made).await
}

/// 202 with what is to be done from now on.
pub(super) async fn accepted<B: Serialize>(
    plane: &ControlPlane,
    intent: &Intent,
    made: Result<B>,
) -> Answer {
    answered(plane, intent, StatusCode::ACCEPTED, made).await
}

async fn answered<B: Serialize>(
    plane: &ControlPlane,
    intent: &Intent,
    status: StatusCode,
    made: Result<B>,
) -> Answer {
    match made {
        Ok(body) => Ok(with_tag(status, 1, &body)),
        // The same request, sent at the same time, may have won.
        Err(error) => match replayed_as(plane, intent, status).await? {
            Some(answer) => Ok(answer),
            None => Err(error.into()),
        },
    }
}

/// The answer to a create that was answered before under the same
/// `Idempotency-Key`.
pub(super) async fn replayed(plane: &ControlPlane, intent: &Intent) -> Result<Option<Response>> {
    replayed_as(plane, intent, StatusCode::CREATED).await
}

/// The same with another status.
pub(super) async fn replayed_as(
    plane: &ControlPlane,
    intent: &Intent,
    status: StatusCode,
) -> Result<Option<Response>> {
    let Some(idempotency) = &intent.idempotency else {
        return Ok(None);
    };
    Ok(idempotency.replay(plane).await?.map(|body| {
        let mut response = with_tag(status, 1, &body);
        response.headers_mut().insert(
            HeaderName::from_static("idempotency-replayed"),
            HeaderValue::from_static("true"),
        );
        response
    }))
}
