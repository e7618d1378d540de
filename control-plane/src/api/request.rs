//! What a request asks for: who, why, to which version (`If-Match`), and what
//! — each refused with the place and the reason.

use std::marker::PhantomData;
use std::str::FromStr;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use ballast_domain::bounds::{ADMIN_BODY_BYTES_MAX, REASON_CHARS_MAX};
use ballast_domain::token::Role;
use ballast_domain::{Error, ErrorCode, Result};
use ballast_web::ApiError;
use ballast_web::body::{Nothing, decode, read};
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

/// The one identifier in a path.
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
            Error::new(ErrorCode::InvalidField, message.clone()).at("path", message)
        })?;
        Ok(Self(id))
    }
}

/// The query parameter that every change takes.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Reason {
    /// Why: kept with the change in the audit log.
    #[param(min_length = 1, max_length = 500)]
    reason: Option<String>,
}

/// The header that every update takes.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it only describes the header")]
pub(super) struct IfMatchHeader {
    /// The ETag that was read; the change is refused with 412 if it has
    /// changed since. Without it, the change is made to whatever is there.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// The header that every create takes.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it only describes the header")]
pub(super) struct IdempotencyHeader {
    /// A text of your choice: repeated with it within 24 hours, the request
    /// happens once and is answered as the first time.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 200)]
    idempotency_key: Option<String>,
}

/// Who may make a change.
pub(super) trait Least {
    const ROLE: Role;
}
/// For what may turn out to be a mere question: what the body says decides
/// ([`Payload::needs`]).
pub(super) struct AsViewer;
impl Least for AsViewer {
    const ROLE: Role = Role::Viewer;
}
pub(super) struct AsOperator;
impl Least for AsOperator {
    const ROLE: Role = Role::Operator;
}
pub(super) struct AsAdmin;
impl Least for AsAdmin {
    const ROLE: Role = Role::Admin;
}

/// A request to change something: who, why, to which version, and what.
pub(super) struct Change<T, R = AsOperator> {
    pub(super) intent: Intent,
    pub(super) if_match: IfMatch,
    pub(super) body: T,
    pub(super) role: PhantomData<R>,
}

/// What a body may say.
pub(super) trait Payload: DeserializeOwned {
    /// Whether there must be a body at all.
    const REQUIRED: bool = true;
    /// How large it may be.
    const BYTES_MAX: usize = ADMIN_BODY_BYTES_MAX;
    /// The role that what it says needs, if it is more than that of the
    /// operation.
    fn needs(&self) -> Option<Role> {
        None
    }
}

impl Payload for Nothing {
    const REQUIRED: bool = false;
}

impl<T: Payload, R: Least> FromRequest<ControlPlane> for Change<T, R> {
    type Rejection = ApiError;

    async fn from_request(request: Request, plane: &ControlPlane) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        // Who asks comes first: a stranger learns nothing about the rest.
        let caller = Caller::identify(&parts, plane).await?.at_least(R::ROLE)?;
        let Reason { reason } = query(&parts.uri)?;
        if let Some(reason) = &reason {
            validate::text("?reason", reason, REASON_CHARS_MAX)?;
        }
        let if_match = if_match(&parts.headers)?;
        let key = idempotency_key(&parts.headers)?;
        // Who serves the API gives up on a request that takes too long.
        let bytes = read(body, T::BYTES_MAX).await?;
        let body: T = decode(&parts.headers, &bytes, T::REQUIRED)?;
        if let Some(role) = body.needs() {
            tokens::at_least(&caller.token, role)?;
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

/// A question that needs a body.
pub(super) struct Ask<T>(pub(super) T);

impl<T: Payload> FromRequest<ControlPlane> for Ask<T> {
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
            // A tag that is none of ours matches nothing.
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
