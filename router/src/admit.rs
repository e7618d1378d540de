//! The way in: every request to the router passes here.
//!
//! ```text
//!   preflight? ──► answered
//!   key in the request ──► keyring ──► tenant ──► status ──► origin ──► on
//! ```

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequestParts, Request, State as Given};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ballast_domain::credential::CredentialHash;
use ballast_domain::key::Scope;
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::{Epoch, Slice, SliceId, TenantStatus};
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result, ShardId, Timestamp};

use crate::keyring::{Held, read_key};
use crate::limits::{Allowance, Limited, QueryPermit};
use crate::load::{Call, End, Noted};
use crate::original::Original;
use crate::{RouterError, State, cors};

const TENANT: HeaderName = HeaderName::from_static("ballast-tenant");
const SHARD: HeaderName = HeaderName::from_static("ballast-shard");
const EPOCH: HeaderName = HeaderName::from_static("ballast-epoch");

/// What a request was let in with; handlers find it in its extensions.
#[derive(Clone)]
pub(crate) struct Access {
    /// The key.
    pub(crate) key: Arc<Held>,
    /// The tenant.
    pub(crate) tenant: Arc<TenantRoute>,
    /// What the answer's headers say beside.
    told: Arc<Mutex<Told>>,
    /// The right to run a query, for those that are one.
    permit: Option<Arc<QueryPermit>>,
}

#[derive(Default)]
struct Told {
    /// What it is, as far as load is concerned.
    call: Call,
    /// Where the request went in the end: the shard, the epoch, the slice.
    went_to: Option<(ShardId, Epoch, u32)>,
    /// How the tenant stands with a limit.
    allowance: Allowance,
    /// How long it had to wait for its shard.
    held: Duration,
}

/// How long a request had to wait for its shard, in the extensions of its
/// answer: that time is the move's, not the tenant's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldFor(Duration);

impl HeldFor {
    /// What an answer took beside that.
    pub fn without(response: &Response, elapsed: Duration) -> Duration {
        let held = response.extensions().get::<Self>();
        held.map_or(elapsed, |held| elapsed.saturating_sub(held.0))
    }
}

impl Access {
    fn new(key: Arc<Held>, tenant: Arc<TenantRoute>) -> Self {
        Self {
            key,
            tenant,
            told: Arc::default(),
            permit: None,
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where the request goes.
    pub(crate) fn tell(&self, slice: &Slice) {
        self.told().went_to = Some((slice.shard_id.clone(), slice.epoch, slice.slice));
    }

    /// Notes what the request is, as far as load is concerned.
    pub(crate) fn is(&self, call: Call) {
        self.told().call = call;
    }

    /// Notes how long the request had to wait for its shard.
    pub(crate) fn was_held(&self, duration: Duration) {
        self.told().held += duration;
    }

    /// Takes a vote out of the tenant's votes per second.
    pub(crate) fn spend_vote(
        &self,
        state: &State,
        vote: (PollId, ItemId),
        now: Timestamp,
    ) -> Result<(), Limited> {
        let mut told = self.told();
        told.call = Call::Vote(Some(vote));
        told.allowance = state.limiter().votes(&self.tenant, 1, now)?;
        Ok(())
    }

    /// Counts the request as load of where it went.
    fn count(&self, state: &State, response: &Response, bytes: u64, elapsed_micros: u64) {
        let told = self.told();
        let end = match response.status() {
            StatusCode::TOO_MANY_REQUESTS => End::Throttled,
            status if status.is_client_error() || status.is_server_error() => End::Failed,
            _ => End::Fine,
        };
        if told.call == Call::Other {
            return;
        }
        // What was refused on the way in would have gone to one of its slices.
        let first = self.tenant.slices.first();
        let went_to = told
            .went_to
            .as_ref()
            .map(|(shard, _, slice)| (shard, *slice));
        let Some((shard, slice)) = went_to.or(first.map(|first| (&first.shard_id, first.slice)))
        else {
            return;
        };
        let held = u64::try_from(told.held.as_micros()).unwrap_or(u64::MAX);
        state.parts.load.note(&Noted {
            shard,
            slice: &SliceId {
                tenant_id: self.tenant.tenant_id.clone(),
                slice,
            },
            key: &self.key.key_id,
            call: told.call,
            end,
            bytes: bytes + response.body().size_hint().lower(),
            micros: elapsed_micros.saturating_sub(held),
        });
    }

    /// Takes one of the tenant's concurrent queries, until the request is
    /// answered.
    fn begin_query(&mut self, state: &State) -> Result<(), Limited> {
        let permit = state.limiter().query(&self.tenant)?;
        self.told().allowance = permit.allowance();
        self.permit = Some(Arc::new(permit));
        Ok(())
    }

    /// For what goes on after the query was answered.
    pub(crate) fn after_query(mut self) -> Self {
        self.permit = None;
        self
    }

    /// Says in the headers whose request it was, where it went, and how the
    /// tenant stands.
    fn write(&self, response: &mut Response) {
        let told = self.told();
        if !told.held.is_zero() {
            response.extensions_mut().insert(HeldFor(told.held));
        }
        let headers = response.headers_mut();
        // For these and those that are to come: it grows once.
        headers.reserve(12);
        told.allowance.write(headers);
        let mut say = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        say(TENANT, self.tenant.tenant_id.as_str());
        if let Some((shard, epoch, _)) = &told.went_to {
            say(SHARD, shard.as_str());
            headers.insert(EPOCH, epoch.0.into());
        }
    }
}

/// What a handler demands, as a type: the key's scope, and whether it is a
/// query.
pub(crate) trait Demand {
    const SCOPE: Scope;
    const IS_QUERY: bool = false;
    const CALL: Call = Call::Query;
}
/// Casting votes.
pub(crate) struct ToVote;
impl Demand for ToVote {
    const SCOPE: Scope = Scope::Vote;
    const CALL: Call = Call::Vote(None);
}
/// Reading polls and results.
pub(crate) struct ToRead;
impl Demand for ToRead {
    const SCOPE: Scope = Scope::Read;
    const IS_QUERY: bool = true;
}
/// Creating and closing polls.
pub(crate) struct ToManage;
impl Demand for ToManage {
    const SCOPE: Scope = Scope::Polls;
}
/// Reading all that is known of a poll.
pub(crate) struct ToExport;
impl Demand for ToExport {
    const SCOPE: Scope = Scope::Polls;
    const IS_QUERY: bool = true;
}

/// The way in to a handler that demands something.
pub(crate) struct Allowed<D>(pub(crate) Access, pub(crate) PhantomData<D>);

impl<D: Demand> FromRequestParts<State> for Allowed<D> {
    type Rejection = RouterError;
    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, RouterError> {
        let access = parts.extensions.get::<Access>().cloned();
        let access = access.ok_or_else(|| {
            Error::internal("let the request in", "a path is outside of the way in")
        })?;
        Self::new(access, state)
    }
}

impl<D: Demand> Allowed<D> {
    /// Whoever was let in, if the demand is met.
    pub(crate) fn new(mut access: Access, state: &State) -> Result<Self, RouterError> {
        if !access.key.scopes.has(D::SCOPE) {
            let detail = format!("this takes a key with the scope {:?}", D::SCOPE.name());
            return Err(Error::new(ErrorCode::MissingScope, detail).into());
        }
        access.is(D::CALL);
        if access.key.throttle.is_some() {
            let now = state.parts.clock.now();
            state.limiter().key(&access.key, now)?;
        }
        if D::IS_QUERY {
            access.begin_query(state)?;
        }
        Ok(Self(access, PhantomData))
    }
}

/// Lets a request in or refuses it: the way in as a layer.
pub(crate) async fn admit(Given(state): Given<State>, request: Request, next: Next) -> Response {
    if cors::is_preflight(request.method(), request.headers()) {
        return cors::preflight(request.headers());
    }
    admitted(&state, request, |access, mut request| {
        request.extensions_mut().insert(access);
        next.run(request)
    })
    .await
}

/// Lets a request in or refuses it; `answer` is what it is let in to.
pub(crate) async fn admitted<F: Future<Output = Response>>(
    state: &State,
    request: Request,
    answer: impl FnOnce(Access, Request) -> F,
) -> Response {
    let asked_from = cors::foreign_origin(request.uri(), request.headers());
    let counted = state.parts.load.is_on();
    let began = counted.then(|| {
        (
            state.parts.clock.micros(),
            request.body().size_hint().lower(),
        )
    });
    let mut response = match let_in(state, &request).await {
        Ok(access) => {
            let mut response = answer(access.clone(), request).await;
            if let Some((began, bytes)) = began {
                let elapsed = state.parts.clock.micros().saturating_sub(began);
                access.count(state, &response, bytes, elapsed);
            }
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
    let origin = cors::foreign_origin(request.uri(), request.headers());
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

/// Whether whoever was let in would be let in again, and the tenant as it is
/// now: asked now and then by what goes on for long.
pub(crate) async fn still(state: &State, access: &Access) -> Result<Arc<TenantRoute>> {
    Ok(judge(state, access.key.hash).await?.tenant)
}

/// Judges the key and its tenant.
pub(crate) async fn judge(state: &State, hash: CredentialHash) -> Result<Access> {
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
