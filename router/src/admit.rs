//! The way in: every request to the router passes here.
//!
//! ```text
//!   preflight? ──► answered
//!   key in the request ──► keyring ──► tenant ──► status ──► origin ──► on
//! ```

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequestParts, Request, State as Given};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ballast_domain::credential::CredentialHash;
use ballast_domain::key::Scope;
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::{Epoch, TenantStatus};
use ballast_domain::{Error, ErrorCode, Result, ShardId};

use crate::deliver::Place;
use crate::keyring::{Held, read_key};
use crate::{RouterError, State, cors};

/// What a request was let in with; handlers find it in its extensions.
#[derive(Clone)]
pub(crate) struct Access {
    /// The key.
    pub(crate) key: Arc<Held>,
    /// The tenant.
    pub(crate) tenant: Arc<TenantRoute>,
    /// Where the request went in the end: told in the answer's headers.
    went_to: Arc<Mutex<Option<(ShardId, Epoch)>>>,
}

impl Access {
    fn new(key: Arc<Held>, tenant: Arc<TenantRoute>) -> Self {
        Self {
            key,
            tenant,
            went_to: Arc::default(),
        }
    }

    /// Notes where the request goes.
    pub(crate) fn tell(&self, place: &Place) {
        let told = (place.shard_id.clone(), place.at.epoch);
        *self.went_to.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// Says in the headers whose request it was and where it went.
    fn write(&self, response: &mut Response) {
        let went_to = self.went_to.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((shard, epoch)) = went_to.as_ref() else {
            return;
        };
        let values = [
            ("ballast-tenant", self.tenant.tenant_id.to_string()),
            ("ballast-shard", shard.to_string()),
            ("ballast-epoch", epoch.0.to_string()),
        ];
        for (name, value) in values {
            if let Ok(value) = HeaderValue::from_str(&value) {
                let name = HeaderName::from_static(name);
                response.headers_mut().insert(name, value);
            }
        }
    }
}

/// A scope that a handler demands, as a type.
pub(crate) trait Demand {
    const SCOPE: Scope;
}
/// Casting votes.
pub(crate) struct ToVote;
impl Demand for ToVote {
    const SCOPE: Scope = Scope::Vote;
}
/// Reading polls and results.
pub(crate) struct ToRead;
impl Demand for ToRead {
    const SCOPE: Scope = Scope::Read;
}
/// Creating, closing and exporting polls.
pub(crate) struct ToManage;
impl Demand for ToManage {
    const SCOPE: Scope = Scope::Polls;
}

/// The way in to a handler that demands a scope.
pub(crate) struct Allowed<D>(pub(crate) Access, pub(crate) PhantomData<D>);

impl<D: Demand, S: Send + Sync> FromRequestParts<S> for Allowed<D> {
    type Rejection = RouterError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RouterError> {
        let access = parts.extensions.get::<Access>().cloned();
        let access = access.ok_or_else(|| {
            Error::internal("let the request in", "a path is outside of the way in")
        })?;
        if access.key.scopes.has(D::SCOPE) {
            return Ok(Self(access, PhantomData));
        }
        let detail = format!("this takes a key with the scope {:?}", D::SCOPE.name());
        Err(Error::new(ErrorCode::MissingScope, detail).into())
    }
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
            request.extensions_mut().insert(access.clone());
            let mut response = next.run(request).await;
            access.write(&mut response);
            response
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
    let Some(key) = places.find(request.headers(), request.uri()) else {
        let detail = "there is no API key in the request";
        let next = format!("Send it in one of: {}.", places.in_words());
        return Err(Error::new(ErrorCode::BadCredential, detail).next(next));
    };
    read_key(&key)
}

/// Whether whoever was let in would be let in again: asked now and then by
/// what goes on for long.
pub(crate) async fn still(state: &State, access: &Access) -> Result<()> {
    judge(state, access.key.hash).await.map(drop)
}

async fn judge(state: &State, hash: CredentialHash) -> Result<Access> {
    let now = state.parts.clock.now();
    let key = state.parts.keyring.check(&hash, now).await?;
    let tenant = state.parts.routes.tenant(&key.tenant_id, now).await?;
    match tenant.status {
        TenantStatus::Active => Ok(Access::new(key, tenant)),
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
