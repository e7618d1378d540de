//! The way in: every request to the router passes here.
//!
//! ```text
//!   preflight? ──► answered
//!   key in the request ──► keyring ──► tenant ──► status ──► origin ──► on
//! ```

use std::sync::Arc;

use axum::extract::{Request, State as Given};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ballast_domain::credential::CredentialHash;
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::TenantStatus;
use ballast_domain::{Error, ErrorCode, Result};

use crate::keyring::{Held, read_key};
use crate::original::Original;
use crate::{RouterError, State, cors};

/// What a request was let in with; handlers find it in its extensions.
#[derive(Clone)]
pub(crate) struct Access {
    /// The key. Its scopes are checked by each handler.
    #[allow(dead_code, reason = "resolving takes no scope; votes will")]
    pub(crate) key: Arc<Held>,
    /// The tenant.
    pub(crate) tenant: Arc<TenantRoute>,
}

/// Lets a request in or refuses it.
pub(crate) async fn admit(
    Given(state): Given<State>,
    mut request: Request,
    next: Next,
) -> Response {
    if cors::is_preflight(request.method(), request.headers()) {
        return cors::preflight(request.headers());
    }
    let asked_from = cors::foreign_origin(request.headers());
    let mut response = match let_in(&state, &request).await {
        Ok(access) => {
            request.extensions_mut().insert(access);
            next.run(request).await
        }
        Err(error) if error.code() == ErrorCode::OriginNotAllowed => {
            return RouterError::from(error).into_response();
        }
        Err(error) => RouterError::from(error).into_response(),
    };
    // Also a refused key: a page that may ask may read why.
    if let Some(origin) = asked_from {
        cors::expose(&mut response, origin);
    }
    response
}

/// Judges the key, the tenant and the origin.
fn let_in(state: &State, request: &Request) -> impl Future<Output = Result<Access>> + Send + use<> {
    let (state, hash) = (state.clone(), key_of(state, request));
    let origin = cors::foreign_origin(request.headers());
    async move {
        let access = judge(&state, hash?).await?;
        if let Some(origin) = origin {
            cors::check(&origin, &access.tenant.cors_origins)?;
        }
        Ok(access)
    }
}

/// The hash of the key in a request. The key itself is not kept.
fn key_of(state: &State, request: &Request) -> Result<CredentialHash> {
    let places = &state.parts.settings.key_places;
    let (headers, uri) = (request.headers(), request.uri());
    let Some(key) = places.find(headers, uri, &Original::of(uri, headers)) else {
        let detail = "there is no API key in the request";
        let next = format!("Send it in one of: {}.", places.in_words());
        return Err(Error::new(ErrorCode::BadCredential, detail).next(next));
    };
    read_key(&key)
}

async fn judge(state: &State, hash: CredentialHash) -> Result<Access> {
    let now = state.parts.clock.now();
    let key = state.parts.keyring.check(&hash, now).await?;
    let tenant = state.parts.routes.tenant(&key.tenant_id, now).await?;
    match tenant.status {
        TenantStatus::Active => Ok(Access { key, tenant }),
        TenantStatus::Suspended => Err(Error::new(
            ErrorCode::TenantSuspended,
            "the tenant of this key is suspended",
        )),
        TenantStatus::Closed => Err(Error::new(
            ErrorCode::BadCredential,
            "the tenant of this key is closed",
        )),
    }
}
