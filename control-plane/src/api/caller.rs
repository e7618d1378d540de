//! Who asks: the bearer token, its role, the address.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use ballast_domain::credential::{BadCredential, Credential, Purpose};
use ballast_domain::token::{AdminToken, Role};
use ballast_domain::{Actor, Error, ErrorCode, Result};
use ballast_web::ApiError;

use crate::plane::ControlPlane;
use crate::tokens;

/// The address a request came from, put into its extensions by whoever
/// accepts connections and knows which proxies to trust.
#[derive(Debug, Clone, Copy)]
pub struct ClientAddress(pub IpAddr);

/// Whoever holds a token that works.
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

    /// Refuses a caller whose role is below `least`.
    pub(super) fn at_least(self, least: Role) -> Result<Self> {
        tokens::at_least(&self.token, least)?;
        Ok(self)
    }

    pub(super) async fn identify(parts: &Parts, plane: &ControlPlane) -> Result<Self> {
        let shown = bearer(&parts.headers)?;
        let secret = Credential::parse(shown).map_err(unreadable)?;
        if secret.purpose() != Purpose::AdminToken {
            let detail = "this is a tenant's API key; the admin API takes a token (bl_admin_…)";
            return Err(Error::new(ErrorCode::BadCredential, detail));
        }
        let Some(token) = tokens::authenticate(plane, shown).await? else {
            let detail =
                "the token is well formed but does not work here: unknown, expired or revoked";
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

fn bearer(headers: &HeaderMap) -> Result<&str> {
    let missing = |detail: &str| {
        Error::new(ErrorCode::BadCredential, detail)
            .next("Send the header Authorization: Bearer <token>; the CLI takes it from BALLAST_TOKEN or --token-file.")
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

fn unreadable(bad: BadCredential) -> Error {
    match bad {
        BadCredential::Mistyped => Error::new(
            ErrorCode::MistypedCredential,
            format!("the token is mistyped: {bad}"),
        ),
        _ => Error::new(
            ErrorCode::BadCredential,
            format!("this is no admin token: {bad}"),
        ),
    }
}

/// A caller who may look: any token.
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
