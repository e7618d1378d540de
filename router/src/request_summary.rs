//! The summary of a request, and what is made of it once the request is answered: load counts
//! and response headers.
//!
//! A summary is a plain value. A handler fills it in and returns it with the response as an
//! [`SummarizedResponse`].

use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ballast_domain::ShardId;
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::{Epoch, Slice, SliceId};

use crate::RouterState;
use crate::keyring::CachedKey;
use crate::limits::QuotaStatus;
use crate::load::{CallKind, CallOutcome, CallRecord};

const TENANT: HeaderName = HeaderName::from_static("ballast-tenant");
const SHARD: HeaderName = HeaderName::from_static("ballast-shard");
const EPOCH: HeaderName = HeaderName::from_static("ballast-epoch");

/// What a request was, where it went and how long it was held. Load counts and
/// response headers are made from it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestSummary {
    /// How load counts it.
    pub(crate) call: CallKind,
    /// The slice it was sent to last.
    routed_to: Option<RoutedTo>,
    /// What is left of the tenant's quota.
    pub(crate) quota: QuotaStatus,
    /// How long it waited for its shard.
    held: Duration,
}

/// The slice that a request was sent to, and the shard and epoch of the route.
#[derive(Debug, Clone)]
struct RoutedTo {
    shard: ShardId,
    epoch: Epoch,
    slice: u32,
}

impl RequestSummary {
    /// Sets where the request is sent. A later attempt replaces an earlier one.
    pub(crate) fn set_route(&mut self, slice: &Slice) {
        self.routed_to = Some(RoutedTo {
            shard: slice.shard_id.clone(),
            epoch: slice.epoch,
            slice: slice.slice,
        });
    }

    /// Adds time that the request waited for its shard.
    pub(crate) fn add_held(&mut self, duration: Duration) {
        self.held += duration;
    }
}

/// A response, with the summary of the request that it answers.
pub(crate) struct SummarizedResponse {
    pub(crate) response: Response,
    pub(crate) summary: RequestSummary,
}

/// The way back through axum: the summary becomes an extension of the response.
impl IntoResponse for SummarizedResponse {
    fn into_response(self) -> Response {
        let Self {
            mut response,
            summary,
        } = self;
        response.extensions_mut().insert(summary);
        response
    }
}

/// Takes the summary out of the extensions again. A response without one was
/// made by axum itself, such as for an unknown path.
impl From<Response> for SummarizedResponse {
    fn from(mut response: Response) -> Self {
        let summary = response.extensions_mut().remove().unwrap_or_default();
        Self { response, summary }
    }
}

/// How long a request waited for its shard, in the extensions of its response:
/// the migration causes that time, not the tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldDuration(Duration);

impl HeldDuration {
    /// `elapsed` without the time that the request was held.
    pub fn without(response: &Response, elapsed: Duration) -> Duration {
        let held = response.extensions().get::<Self>();
        held.map_or(elapsed, |held| elapsed.saturating_sub(held.0))
    }
}

/// Who sent a request: what is needed after the handler has answered.
pub(crate) struct Caller {
    pub(crate) key: Arc<CachedKey>,
    pub(crate) tenant: Arc<TenantRoute>,
}

impl Caller {
    /// Counts the request as load of the slice that it was sent to.
    pub(crate) fn count(
        &self,
        state: &RouterState,
        answered: &SummarizedResponse,
        bytes: u64,
        elapsed_micros: u64,
    ) {
        let SummarizedResponse { response, summary } = answered;
        if summary.call == CallKind::Other {
            return;
        }
        let outcome = match response.status() {
            StatusCode::TOO_MANY_REQUESTS => CallOutcome::Throttled,
            status if status.is_client_error() || status.is_server_error() => CallOutcome::Failed,
            _ => CallOutcome::Fine,
        };
        // A request that was refused before it was routed counts for the first slice.
        let first = self.tenant.slices.first();
        let routed_to = summary.routed_to.as_ref();
        let routed_to = routed_to.map(|routed_to| (&routed_to.shard, routed_to.slice));
        let Some((shard, slice)) = routed_to.or(first.map(|first| (&first.shard_id, first.slice)))
        else {
            return;
        };
        let held = u64::try_from(summary.held.as_micros()).unwrap_or(u64::MAX);
        state.parts.load.record_call(&CallRecord {
            shard,
            slice: &SliceId {
                tenant_id: self.tenant.tenant_id.clone(),
                slice,
            },
            key: &self.key.key_id,
            kind: summary.call,
            outcome,
            bytes: bytes + response.body().size_hint().lower(),
            micros: elapsed_micros.saturating_sub(held),
        });
    }

    /// Writes the headers that say whose request it was, where it went and what
    /// is left of the tenant's quota.
    pub(crate) fn label(&self, answered: SummarizedResponse) -> Response {
        let SummarizedResponse {
            mut response,
            summary,
        } = answered;
        if !summary.held.is_zero() {
            response.extensions_mut().insert(HeldDuration(summary.held));
        }
        let headers = response.headers_mut();
        // Room for these and for later ones: the map grows once.
        headers.reserve(12);
        summary.quota.write(headers);
        let mut set = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(TENANT, self.tenant.tenant_id.as_str());
        if let Some(RoutedTo { shard, epoch, .. }) = &summary.routed_to {
            set(SHARD, shard.as_str());
            headers.insert(EPOCH, epoch.0.into());
        }
        response
    }
}
