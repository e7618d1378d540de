//! Request extractors: caller, reason, `If-Match`, idempotency key and body. Errors
//! carry the field and the reason.

use std::marker::PhantomData;
use std::str::FromStr;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use ballast_domain::bounds::{ADMIN_BODY_BYTES_MAX, REASON_CHARS_MAX};
use ballast_domain::token::AdminRole;
use ballast_domain::{Error, ErrorCode, Result};
use ballast_web::ApiError;
use ballast_web::body::{EmptyBody, decode, read};
use ballast_web::head::{idempotency_key, query, segments};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::caller::Caller;
use crate::change::IfMatch;
use crate::idempotency::Idempotency;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::tokens;
use crate::validate;

/// The single id in a path.
pub(super) struct Id<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Id<T>
where
    T: FromStr<Err: std::fmt::Display>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let named = segments(parts).await?;
        let text = named.first().map_or("", String::as_str);
        let id = text.parse().map_err(|bad: T::Err| {
            let message = bad.to_string();
            Error::new(ErrorCode::InvalidField, message.clone()).with_field("path", message)
        })?;
        Ok(Self(id))
    }
}

/// The query parameter that every change accepts.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Reason {
    /// Why; recorded in the audit log.
    #[param(min_length = 1, max_length = 500)]
    reason: Option<String>,
}

/// The header that every update accepts.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "documents the header only")]
pub(super) struct IfMatchHeader {
    /// The ETag that was read. The change is rejected with 412 if the resource has
    /// changed since. Without it, the change applies to any version.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// The header that every create accepts.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "documents the header only")]
pub(super) struct IdempotencyHeader {
    /// A text of your choice. A request repeated with it within 24 hours is executed
    /// once and gets the same response.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 200)]
    idempotency_key: Option<String>,
}

/// The role that a change requires.
pub(super) trait MinimumRole {
    const ROLE: AdminRole;
}
/// For requests that may only read, depending on the body
/// ([`Payload::required_role`]).
pub(super) struct AsViewer;
impl MinimumRole for AsViewer {
    const ROLE: AdminRole = AdminRole::Viewer;
}
pub(super) struct AsOperator;
impl MinimumRole for AsOperator {
    const ROLE: AdminRole = AdminRole::Operator;
}
pub(super) struct AsAdmin;
impl MinimumRole for AsAdmin {
    const ROLE: AdminRole = AdminRole::Admin;
}

/// A request to change something.
pub(super) struct Change<T, R = AsOperator> {
    pub(super) intent: Intent,
    pub(super) if_match: IfMatch,
    pub(super) body: T,
    pub(super) role: PhantomData<R>,
}

/// A request body.
pub(super) trait Payload: DeserializeOwned {
    /// Whether a body is required.
    const REQUIRED: bool = true;
    /// Its maximum size.
    const BYTES_MAX: usize = ADMIN_BODY_BYTES_MAX;
    /// The role that this body requires, if higher than that of the operation.
    fn required_role(&self) -> Option<AdminRole> {
        None
    }
}

impl Payload for EmptyBody {
    const REQUIRED: bool = false;
}

impl<T: Payload, R: MinimumRole> FromRequest<ControlPlane> for Change<T, R> {
    type Rejection = ApiError;

    async fn from_request(request: Request, plane: &ControlPlane) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        // Authenticate first: unauthenticated callers learn nothing about the rest.
        let caller = Caller::identify(&parts, plane)
            .await?
            .require_role(R::ROLE)?;
        let Reason { reason } = query(&parts.uri)?;
        if let Some(reason) = &reason {
            validate::text("?reason", reason, REASON_CHARS_MAX)?;
        }
        let if_match = if_match(&parts.headers)?;
        let key = idempotency_key(&parts.headers)?;
        // The server times out slow requests.
        let bytes = read(body, T::BYTES_MAX).await?;
        let body: T = decode(&parts.headers, &bytes, T::REQUIRED)?;
        if let Some(role) = body.required_role() {
            tokens::require_role(&caller.token, role)?;
        }
        let idempotency = key.map(|key| {
            let request: [&[u8]; 3] = [
                parts.method.as_str().as_bytes(),
                parts.uri.path().as_bytes(),
                &bytes,
            ];
            Idempotency::new(&caller.token.token_id, &caller.secret, key, &request)
        });
        let intent = Intent {
            actor: caller.actor(),
            reason,
            idempotency,
        };
        Ok(Self {
            intent,
            if_match,
            body,
            role: PhantomData,
        })
    }
}

/// A read-only request with a body.
pub(super) struct ReadRequest<T>(pub(super) T);

impl<T: Payload> FromRequest<ControlPlane> for ReadRequest<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, plane: &ControlPlane) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        Caller::identify(&parts, plane).await?;
        let bytes = read(body, T::BYTES_MAX).await?;
        Ok(Self(decode(&parts.headers, &bytes, T::REQUIRED)?))
    }
}

fn if_match(headers: &HeaderMap) -> Result<IfMatch> {
    let mut versions = Vec::new();
    for value in headers.get_all(header::IF_MATCH) {
        for tag in value.to_str().unwrap_or_default().split(',').map(str::trim) {
            if tag == "*" {
                return Ok(IfMatch::Any);
            }
            // A tag in another format matches no version.
            let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            versions.push(version.and_then(|text| text.parse().ok()).unwrap_or(0));
        }
    }
    Ok(if versions.is_empty() {
        IfMatch::Any
    } else {
        IfMatch::Versions(versions)
    })
}
