//! The logged-in operator, loaded from the cookie of each request.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_control_plane::api::ClientAddress;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::tokens;
use ballast_domain::token::{AdminRole, AdminToken};
use ballast_domain::{Actor, Error, ErrorCode, Result};

use super::{COOKIE, FLASH, Purpose, Session, cookie, referring_page};
use crate::console::Console;
use crate::page::error::ErrorPage;
use crate::page::flash::Flash;

/// A logged-in operator with a valid token.
pub(crate) struct Visitor {
    pub(crate) session: Session,
    pub(crate) token: AdminToken,
    pub(crate) address: Option<IpAddr>,
    /// The flash message of the previous page.
    pub(crate) flash: Option<Flash>,
    /// The path of the request.
    pub(crate) path: String,
}

impl Visitor {
    /// Whether the operator has at least this role.
    pub(crate) fn may(&self, least: AdminRole) -> bool {
        self.token.role >= least
    }

    /// Fails if the operator's role is below `least`.
    pub(crate) fn at_least(&self, least: AdminRole) -> Result<()> {
        tokens::require_role(&self.token, least)
    }

    /// The operator and the reason, for the audit log.
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

/// The client's address.
pub(crate) fn address(parts: &Parts) -> Option<IpAddr> {
    let known = parts.extensions.get::<ClientAddress>();
    known.map(|ClientAddress(address)| *address)
}

/// Loads the operator of a request, if the session and its token are valid.
pub(crate) async fn load_visitor(console: &Console, parts: &Parts) -> Result<Option<Visitor>> {
    let Some(sealed) = cookie(&parts.headers, COOKIE) else {
        return Ok(None);
    };
    let session: Option<Session> = console.cipher.decrypt(Purpose::Session, sealed);
    let Some(session) = session.filter(|session| session.is_alive(console)) else {
        return Ok(None);
    };
    let Some(token) = tokens::find_active(&console.plane, &session.token_id).await? else {
        return Ok(None);
    };
    let flash = cookie(&parts.headers, FLASH)
        .and_then(|sealed| console.cipher.decrypt(Purpose::Flash, sealed));
    Ok(Some(Visitor {
        session,
        token,
        address: address(parts),
        flash,
        path: parts.uri.path().to_owned(),
    }))
}

/// Why a visitor has no access, and the page to show instead.
pub(crate) enum AccessDenied {
    /// The login page, returning to this path afterwards.
    Login(Option<String>),
    /// The login page after a form was lost, with a message.
    LoginAfterLostForm(Option<String>),
    /// The check itself failed.
    ErrorPage(ErrorPage),
}

impl IntoResponse for AccessDenied {
    fn into_response(self) -> Response {
        match self {
            Self::Login(next) => to_login(next, false),
            Self::LoginAfterLostForm(next) => to_login(next, true),
            Self::ErrorPage(page) => page.into_response(),
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
    type Rejection = AccessDenied;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Console,
    ) -> Result<Self, AccessDenied> {
        match load_visitor(console, parts).await {
            Ok(Some(visitor)) => Ok(visitor),
            // Streams are requested by a script, which checks the status.
            Ok(None) if parts.uri.path().starts_with("/console/live/") => {
                let detail = "the session has expired";
                let error = Error::new(ErrorCode::BadCredential, detail);
                Err(AccessDenied::ErrorPage(error.into()))
            }
            // A logout without a session needs no message.
            Ok(None) if parts.uri.path() == "/console/logout" => Err(AccessDenied::Login(None)),
            Ok(None) if parts.method == Method::GET => {
                let next = parts.uri.path_and_query();
                Err(AccessDenied::Login(next.map(ToString::to_string)))
            }
            Ok(None) => Err(AccessDenied::LoginAfterLostForm(referring_page(
                &parts.headers,
            ))),
            Err(error) => Err(AccessDenied::ErrorPage(error.into())),
        }
    }
}
