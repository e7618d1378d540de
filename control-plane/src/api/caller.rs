//! The caller: its bearer token, role and address.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use ballast_domain::credential::{BadCredential, Credential, Purpose};
use ballast_domain::token::{AdminRole, AdminToken};
use ballast_domain::{Actor, Error, ErrorCode, Result};
use ballast_web::ApiError;

use crate::plane::ControlPlane;
use crate::tokens;

/// The client's address, put into the request's extensions by the listener, which
/// knows the trusted proxies.
#[derive(Debug, Clone, Copy)]
pub struct ClientAddress(pub IpAddr);

/// A caller with an active token.
pub(super) struct Caller {
    pub(super) token: AdminToken,
    pub(super) secret: Credential,
    pub(super) address: Option<IpAddr>,
}

impl Caller {
    pub(super) fn actor(&self) -> Actor {
        Actor {
            name: self.token.name.clone(),
            token_id: Some(self.token.token_id.clone()),
            address: self.address.map(|address| address.to_string()),
        }
    }

    /// Rejects a caller whose role is below `least`.
    pub(super) fn require_role(self, least: AdminRole) -> Result<Self> {
        tokens::require_role(&self.token, least)?;
        Ok(self)
    }

    pub(super) async fn identify(parts: &Parts, plane: &ControlPlane) -> Result<Self> {
        let shown = bearer_token(&parts.headers)?;
        let secret = Credential::parse(shown).map_err(to_error)?;
        if secret.purpose() != Purpose::AdminToken {
            let detail =
                "this is a tenant's API key; the admin API requires an admin token (bl_admin_…)";
            return Err(Error::new(ErrorCode::BadCredential, detail));
        }
        let Some(token) = tokens::authenticate(plane, shown).await? else {
            let detail =
                "the token is well formed but not active here: unknown, expired or revoked";
            return Err(Error::new(ErrorCode::BadCredential, detail));
        };
        Ok(Self {
            token: token.value,
            secret,
            address: parts
                .extensions
                .get::<ClientAddress>()
                .map(|ClientAddress(address)| *address),
        })
    }
}

fn bearer_token(headers: &HeaderMap) -> Result<&str> {
    let missing = |detail: &str| {
        Error::new(ErrorCode::BadCredential, detail)
            .with_next_step("Send the header Authorization: Bearer <token>; the CLI takes it from BALLAST_TOKEN or --token-file.")
    };
    let value = headers
        .get(header::AUTHORIZATION)
        .ok_or_else(|| missing("there is no Authorization header"))?;
    value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .ok_or_else(|| missing("the Authorization header is not of the form Bearer <token>"))
}

fn to_error(bad: BadCredential) -> Error {
    match bad {
        BadCredential::Mistyped => Error::new(
            ErrorCode::MistypedCredential,
            format!("the token is mistyped: {bad}"),
        ),
        _ => Error::new(
            ErrorCode::BadCredential,
            format!("this is not an admin token: {bad}"),
        ),
    }
}

/// A caller with any role.
pub(super) struct Viewer;

impl FromRequestParts<ControlPlane> for Viewer {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, plane: &ControlPlane) -> Result<Self, ApiError> {
        Caller::identify(parts, plane).await?;
        Ok(Self)
    }
}

impl FromRequestParts<ControlPlane> for Caller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, plane: &ControlPlane) -> Result<Self, ApiError> {
        Ok(Self::identify(parts, plane).await?)
    }
}
