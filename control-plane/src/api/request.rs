//! What a request asks for: path, query, body, `If-Match`, reason,
//! `Idempotency-Key` — each refused with the place and the reason.

use std::marker::PhantomData;
use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use ballast_domain::bounds::{ADMIN_BODY_BYTES_MAX, IDEMPOTENCY_KEY_CHARS_MAX, REASON_CHARS_MAX};
use ballast_domain::object::{from_json, suggest};
use ballast_domain::token::Role;
use ballast_domain::{Error, ErrorCode, Result};
use ballast_web::ApiError;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::caller::Caller;
use crate::change::IfMatch;
use crate::idempotency::Idempotency;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::validate;

/// The one identifier in a path.
pub(super) struct Id<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Id<T>
where
    T: FromStr<Err: std::fmt::Display>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|bad| {
                Error::new(
                    ErrorCode::MalformedRequest,
                    format!("the path cannot be read: {bad}"),
                )
            })?;
        let id = text.parse().map_err(|bad: T::Err| {
            let message = bad.to_string();
            Error::new(ErrorCode::InvalidField, message.clone()).at("path", message)
        })?;
        Ok(Self(id))
    }
}

/// The query string.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(params(&parts.uri)?))
    }
}

fn params<T: DeserializeOwned>(uri: &Uri) -> Result<T> {
    let Query(params) = Query::try_from_uri(uri).map_err(|bad| {
        let source = std::error::Error::source(&bad).map(ToString::to_string);
        let message = suggest(&source.unwrap_or_else(|| bad.to_string()));
        let name = message.split(':').next().unwrap_or_default().to_owned();
        Error::new(
            ErrorCode::InvalidField,
            format!("in the query string: {message}"),
        )
        .at(&format!("?{name}"), message)
    })?;
    Ok(params)
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
}

impl Payload for Nothing {
    const REQUIRED: bool = false;
}

/// No body, or an empty object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl<T: Payload, R: Least> FromRequest<ControlPlane> for Change<T, R> {
    type Rejection = ApiError;

    async fn from_request(request: Request, plane: &ControlPlane) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        // Who asks comes first: a stranger learns nothing about the rest.
        let caller = Caller::identify(&parts, plane).await?.at_least(R::ROLE)?;
        let Reason { reason } = params(&parts.uri)?;
        if let Some(reason) = &reason {
            validate::text("?reason", reason, REASON_CHARS_MAX)?;
        }
        let if_match = if_match(&parts.headers)?;
        let key = idempotency_key(&parts.headers)?;
        let bytes = read(Request::from_parts(parts.clone(), body)).await?;
        let body = decode(&parts.headers, &bytes)?;
        let idempotency = key.map(|key| {
            let request: [&[u8]; 3] = [
                parts.method.as_str().as_bytes(),
                parts.uri.path().as_bytes(),
                &bytes,
            ];
            Idempotency::new(&caller.token.token_id, &caller.secret, &key, &request)
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
        let bytes = read(Request::from_parts(parts.clone(), body)).await?;
        Ok(Self(decode(&parts.headers, &bytes)?))
    }
}

async fn read(request: Request) -> Result<Bytes> {
    Bytes::from_request(request, &())
        .await
        .map_err(|rejection| match rejection {
            BytesRejection::FailedToBufferBody(inner) if inner.status() == 413 => Error::new(
                ErrorCode::TooLarge,
                format!("the body has more than {ADMIN_BODY_BYTES_MAX} bytes"),
            ),
            other => Error::new(
                ErrorCode::MalformedRequest,
                format!("the body did not arrive: {other}"),
            ),
        })
}

fn decode<T: Payload>(headers: &HeaderMap, bytes: &[u8]) -> Result<T> {
    let bytes = match bytes {
        b"" if T::REQUIRED => {
            let detail = "there is no body; send a JSON object, {} at least";
            return Err(Error::new(ErrorCode::MalformedRequest, detail));
        }
        b"" => b"{}",
        _ => {
            refuse_other_types(headers)?;
            bytes
        }
    };
    from_json(bytes)
}

fn refuse_other_types(headers: &HeaderMap) -> Result<()> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = given.map(|text| {
        text.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    });
    match essence.as_deref() {
        Some("application/json") => Ok(()),
        Some(kind) if kind.starts_with("application/") && kind.ends_with("+json") => Ok(()),
        Some(other) => Err(Error::new(
            ErrorCode::UnsupportedMediaType,
            format!("the body is {other}, not JSON"),
        )),
        None => Err(Error::new(
            ErrorCode::UnsupportedMediaType,
            "there is no Content-Type",
        )),
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

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let readable = value
        .to_str()
        .ok()
        .filter(|key| (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&key.len()));
    match readable {
        Some(key) => Ok(Some(key.to_owned())),
        None => Err(Error::new(
            ErrorCode::InvalidField,
            format!(
                "Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters"
            ),
        )),
    }
}
