//! The entrance of the router: every request is authenticated here, handed to
//! its handler, and counted and labelled once it is answered.
//!
//! ```text
//!   preflight? ──► answered at once
//!   key in the request ──► keyring ──► tenant ──► status ──► origin ──► handler
//!   handler ──► response + RequestSummary ──► load counts, response headers
//! ```
//! A handler fills in the summary in its [`Access`] and returns it with the response
//! ([`crate::request_summary`]). There are two ways to a handler, and both end in
//! [`handle_admitted`]: through axum ([`admit`]), where the summary travels in the
//! response's extensions, and directly ([`crate::direct`]), where it is simply
//! returned.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ballast_domain::credential::CredentialHash;
use ballast_domain::key::KeyScope;
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::TenantStatus;
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result, Timestamp};

use crate::keyring::{CachedKey, read_key};
use crate::limits::{LimitExceeded, QueryPermit};
use crate::load::CallKind;
use crate::original_request::OriginalRequest;
use crate::request_summary::{Caller, RequestSummary, SummarizedResponse};
use crate::{RouterError, RouterState, cors};

/// Who sent a request: its key and tenant. Handlers get it from [`Authorized`]
/// and fill in the summary while they work.
#[derive(Clone)]
pub(crate) struct Access {
    /// The key.
    pub(crate) key: Arc<CachedKey>,
    /// The tenant.
    pub(crate) tenant: Arc<TenantRoute>,
    /// What the request turned out to be.
    pub(crate) summary: RequestSummary,
    /// The permit of a query; it is released with the last clone.
    permit: Option<Arc<QueryPermit>>,
}

impl Access {
    fn new(key: Arc<CachedKey>, tenant: Arc<TenantRoute>) -> Self {
        Self {
            key,
            tenant,
            summary: RequestSummary::default(),
            permit: None,
        }
    }

    /// Answers the request: the response and its summary.
    pub(crate) fn answer(
        &mut self,
        result: Result<impl IntoResponse, RouterError>,
    ) -> SummarizedResponse {
        SummarizedResponse {
            response: result.into_response(),
            summary: std::mem::take(&mut self.summary),
        }
    }

    /// Takes one vote out of the tenant's votes per second.
    pub(crate) fn spend_vote(
        &mut self,
        state: &RouterState,
        vote: (PollId, ItemId),
        now: Timestamp,
    ) -> Result<(), LimitExceeded> {
        self.summary.call = CallKind::Vote(Some(vote));
        self.summary.quota = state.limiter().votes(&self.tenant, 1, now)?;
        Ok(())
    }

    /// Takes one of the tenant's concurrent queries, until the request is
    /// answered.
    fn begin_query(&mut self, state: &RouterState) -> Result<(), LimitExceeded> {
        let permit = state.limiter().query(&self.tenant)?;
        self.summary.quota = permit.quota_status();
        self.permit = Some(Arc::new(permit));
        Ok(())
    }

    /// Access for work that goes on after the query was answered: it holds no
    /// query permit.
    pub(crate) fn after_query(mut self) -> Self {
        self.permit = None;
        self
    }
}

/// What a handler requires, as a type: the scope of the key, and whether the
/// request is a query.
pub(crate) trait AccessRule {
    const SCOPE: KeyScope;
    const IS_QUERY: bool = false;
    const CALL: CallKind = CallKind::Query;
}
/// Casting votes.
pub(crate) struct VoteAccess;
impl AccessRule for VoteAccess {
    const SCOPE: KeyScope = KeyScope::Vote;
    const CALL: CallKind = CallKind::Vote(None);
}
/// Reading polls and results.
pub(crate) struct ReadAccess;
impl AccessRule for ReadAccess {
    const SCOPE: KeyScope = KeyScope::Read;
    const IS_QUERY: bool = true;
}
/// Creating and closing polls.
pub(crate) struct ManageAccess;
impl AccessRule for ManageAccess {
    const SCOPE: KeyScope = KeyScope::Polls;
}
/// Reading all data of a poll.
pub(crate) struct ExportAccess;
impl AccessRule for ExportAccess {
    const SCOPE: KeyScope = KeyScope::Polls;
    const IS_QUERY: bool = true;
}

/// A request that meets a handler's rule, and what the handler reads from its
/// path or query. Both are read here, so that a bad path is also answered with
/// the request's summary.
pub(crate) struct Authorized<D, P = ()> {
    pub(crate) access: Access,
    pub(crate) path: P,
    rule: PhantomData<D>,
}

impl<D: AccessRule, P: FromRequestParts<RouterState>> FromRequestParts<RouterState>
    for Authorized<D, P>
{
    type Rejection = SummarizedResponse;

    #[allow(clippy::result_large_err, reason = "the error is the response itself")]
    async fn from_request_parts(
        parts: &mut Parts,
        state: &RouterState,
    ) -> Result<Self, SummarizedResponse> {
        let Some(access) = parts.extensions.remove::<Access>() else {
            let error = Error::internal("admit the request", "the path is not behind `admit`");
            return Err(RouterError::from(error).into_response().into());
        };
        let Authorized { mut access, .. } = Authorized::<D>::new(access, state)?;
        match P::from_request_parts(parts, state).await {
            Ok(path) => Ok(Self {
                access,
                path,
                rule: PhantomData,
            }),
            Err(rejection) => Err(access.answer(Ok(rejection))),
        }
    }
}

impl<D: AccessRule> Authorized<D> {
    /// Checks the rule: the key's scope, its throttle, the tenant's queries.
    #[allow(clippy::result_large_err, reason = "the error is the response itself")]
    pub(crate) fn new(mut access: Access, state: &RouterState) -> Result<Self, SummarizedResponse> {
        match access.check_rule::<D>(state) {
            Ok(()) => Ok(Self {
                access,
                path: (),
                rule: PhantomData,
            }),
            Err(error) => Err(access.answer(Err::<(), _>(error))),
        }
    }
}

impl Access {
    fn check_rule<D: AccessRule>(&mut self, state: &RouterState) -> Result<(), RouterError> {
        if !self.key.scopes.contains(D::SCOPE) {
            let detail = format!("this requires a key with the scope {:?}", D::SCOPE.name());
            return Err(Error::new(ErrorCode::MissingScope, detail).into());
        }
        self.summary.call = D::CALL;
        if self.key.throttle.is_some() {
            let now = state.parts.clock.now();
            state.limiter().key(&self.key, now)?;
        }
        if D::IS_QUERY {
            self.begin_query(state)?;
        }
        Ok(())
    }
}

/// Admits a request or refuses it, as an axum layer.
pub(crate) async fn admit(
    State(state): State<RouterState>,
    request: Request,
    next: Next,
) -> Response {
    if cors::is_preflight(request.method(), request.headers()) {
        return cors::preflight(request.headers());
    }
    handle_admitted(&state, request, |access, mut request| {
        request.extensions_mut().insert(access);
        let response = next.run(request);
        async move { SummarizedResponse::from(response.await) }
    })
    .await
}

/// Admits a request or refuses it. `handle` answers an admitted request.
pub(crate) async fn handle_admitted<F: Future<Output = SummarizedResponse>>(
    state: &RouterState,
    request: Request,
    handle: impl FnOnce(Access, Request) -> F,
) -> Response {
    let foreign_origin = cors::foreign_origin(request.uri(), request.headers());
    let counted = state.parts.load.is_on();
    let began = counted.then(|| {
        (
            state.parts.clock.micros(),
            request.body().size_hint().lower(),
        )
    });
    let mut response = match authenticate_request(state, &request).await {
        Ok(access) => {
            let caller = Caller {
                key: access.key.clone(),
                tenant: access.tenant.clone(),
            };
            let answered = handle(access, request).await;
            if let Some((began, bytes)) = began {
                let elapsed = state.parts.clock.micros().saturating_sub(began);
                caller.count(state, &answered, bytes, elapsed);
            }
            caller.label(answered)
        }
        // A page of an origin that the tenant does not allow must not read even the
        // refusal: without the CORS headers the browser withholds it.
        Err(error) if error.code() == ErrorCode::OriginNotAllowed => {
            return RouterError::from(error).into_response();
        }
        Err(error) => RouterError::from(error).into_response(),
    };
    // Also when the key was refused: a page of an allowed origin may read why.
    if let Some(origin) = foreign_origin {
        cors::expose(&mut response, origin);
    }
    response
}

/// Checks the key, the tenant and the origin of a request.
fn authenticate_request(
    state: &RouterState,
    request: &Request,
) -> impl Future<Output = Result<Access>> + Send + use<> {
    let (state, hash) = (state.clone(), hash_key(state, request));
    let origin = cors::foreign_origin(request.uri(), request.headers());
    async move {
        let access = authenticate(&state, hash?).await?;
        if let Some(origin) = origin {
            cors::check(&origin, &access.tenant.cors_origins)?;
        }
        Ok(access)
    }
}

/// Finds the key in a request and hashes it. The key itself is not stored.
fn hash_key(state: &RouterState, request: &Request) -> Result<CredentialHash> {
    let places = &state.parts.settings.key_places;
    let (headers, uri) = (request.headers(), request.uri());
    let original = OriginalRequest::from_request(uri, headers);
    let Some(key) = places.find(headers, uri, &original)? else {
        let detail = "there is no API key in the request";
        let next = format!("Send it in one of: {}.", places.describe());
        return Err(Error::new(ErrorCode::BadCredential, detail).with_next_step(next));
    };
    read_key(&key)
}

/// Checks again that the caller still has access, and returns the tenant's
/// current route. Long-running responses call this from time to time.
pub(crate) async fn reauthenticate(
    state: &RouterState,
    access: &Access,
) -> Result<Arc<TenantRoute>> {
    Ok(authenticate(state, access.key.hash).await?.tenant)
}

/// Checks a key and its tenant.
pub(crate) async fn authenticate(state: &RouterState, hash: CredentialHash) -> Result<Access> {
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
