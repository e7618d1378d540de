//! Whoever is logged in, found from the cookie of each request.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_control_plane::api::ClientAddress;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::tokens;
use ballast_domain::token::{AdminToken, Role};
use ballast_domain::{Actor, Error, ErrorCode, Result};

use super::{COOKIE, FLASH, Purpose, Session, came_from, cookie};
use crate::console::Console;
use crate::page::error::Broken;
use crate::page::flash::Flash;

/// Somebody with a session whose token works.
pub(crate) struct Visitor {
    pub(crate) session: Session,
    pub(crate) token: AdminToken,
    pub(crate) address: Option<IpAddr>,
    /// What the page before left to be said.
    pub(crate) flash: Option<Flash>,
    /// The path that is looked at.
    pub(crate) path: String,
}

impl Visitor {
    /// Whether it may do what takes this role.
    pub(crate) fn may(&self, least: Role) -> bool {
        self.token.role >= least
    }

    /// Refuses somebody whose role is below `least`.
    pub(crate) fn at_least(&self, least: Role) -> Result<()> {
        tokens::at_least(&self.token, least)
    }

    /// What it wants, for the audit log.
    pub(crate) fn intent(&self, reason: Option<String>) -> Intent {
        Intent {
            actor: Actor {
                name: self.token.name.clone(),
                token_id: Some(self.token.token_id.clone()),
                address: self.address.map(|address| address.to_string()),
            },
            reason,
            idempotency: None,
        }
    }
}

/// Where a request came from.
pub(crate) fn address(parts: &Parts) -> Option<IpAddr> {
    let known = parts.extensions.get::<ClientAddress>();
    known.map(|ClientAddress(address)| *address)
}

/// The session of a request, if it is good and so is its token.
pub(crate) async fn known(console: &Console, parts: &Parts) -> Result<Option<Visitor>> {
    let Some(sealed) = cookie(&parts.headers, COOKIE) else {
        return Ok(None);
    };
    let session: Option<Session> = console.seal.open(Purpose::Session, sealed);
    let Some(session) = session.filter(|session| session.is_alive(console)) else {
        return Ok(None);
    };
    let Some(token) = tokens::working(&console.plane, &session.token_id).await? else {
        return Ok(None);
    };
    let flash =
        cookie(&parts.headers, FLASH).and_then(|sealed| console.seal.open(Purpose::Flash, sealed));
    Ok(Some(Visitor {
        session,
        token,
        address: address(parts),
        flash,
        path: parts.uri.path().to_owned(),
    }))
}

/// Somebody who is not let in, and where to go instead.
pub(crate) enum Turned {
    /// To the login, and back to this page afterwards.
    Login(Option<String>),
    /// The same; but what was sent was not taken, which must be said.
    Lost(Option<String>),
    /// It cannot be told right now.
    Broken(Broken),
}

impl IntoResponse for Turned {
    fn into_response(self) -> Response {
        match self {
            Self::Login(next) => to_login(next, false),
            Self::Lost(next) => to_login(next, true),
            Self::Broken(broken) => broken.into_response(),
        }
    }
}

fn to_login(next: Option<String>, lost: bool) -> Response {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if lost {
        query.append_pair("lost", "yes");
    }
    if let Some(next) = next {
        query.append_pair("next", &next);
    }
    let query = query.finish();
    let to = match query.as_str() {
        "" => "/console/login".to_owned(),
        query => format!("/console/login?{query}"),
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(to) = HeaderValue::from_str(&to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

impl FromRequestParts<Console> for Visitor {
    type Rejection = Turned;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Turned> {
        match known(console, parts).await {
            Ok(Some(visitor)) => Ok(visitor),
            // A stream is asked for by a script, which looks at the status.
            Ok(None) if parts.uri.path().starts_with("/console/live/") => {
                let detail = "the session is over";
                let error = Error::new(ErrorCode::BadCredential, detail);
                Err(Turned::Broken(error.into()))
            }
            // Whoever only wanted to leave has left.
            Ok(None) if parts.uri.path() == "/console/logout" => Err(Turned::Login(None)),
            Ok(None) if parts.method == Method::GET => {
                let next = parts.uri.path_and_query();
                Err(Turned::Login(next.map(ToString::to_string)))
            }
            Ok(None) => Err(Turned::Lost(came_from(&parts.headers))),
            Err(error) => Err(Turned::Broken(error.into())),
        }
    }
}
