//! `/resolve`: finds the shard of an API key, for proxies that route by themselves.
//!
//! ```text
//!   ?poll=, or the poll in the original URI ──► the slice that holds the poll
//!   neither ──► the first slice, and a list of all slices if there are several
//! ```
//! Any method is accepted and the body is not read, because proxies resolve for
//! requests of any kind (see `docs/proxies.md`).

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ballast_domain::poll::PollId;
use ballast_domain::routes::{ShardRoute, TenantRoute};
use ballast_domain::shard::ShardState;
use ballast_domain::tenant::{Epoch, Slice, find_slice};
use ballast_domain::{Error, ErrorCode, RegionId, Result, ShardId, TenantId};
use serde::Serialize;

use crate::admit::Access;
use crate::key_in_request::in_query;
use crate::original_request::OriginalRequest;
use crate::request_summary::SummarizedResponse;
use crate::{RouterError, RouterState};

/// The `Retry-After` for a shard that is down: an operator must bring it back.
const DOWN_RETRY_SECONDS: u64 = 5;

const SHARD_URL: HeaderName = HeaderName::from_static("ballast-shard-url");
const REGION: HeaderName = HeaderName::from_static("ballast-region");
const ALSO_ON: HeaderName = HeaderName::from_static("ballast-also-on");

/// The response: the shard of a key's tenant.
#[derive(Debug, Serialize)]
struct ResolveResponse<'r> {
    #[serde(rename = "tenantID")]
    tenant_id: &'r TenantId,
    #[serde(flatten)]
    shard: ResolvedShard<'r>,
    /// All slices, if there are several and no poll is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slices: Vec<ResolvedSlice<'r>>,
}

#[derive(Debug, Serialize)]
struct ResolvedShard<'r> {
    #[serde(rename = "shardID")]
    shard_id: &'r ShardId,
    #[serde(rename = "shardURL")]
    shard_url: &'r str,
    epoch: Epoch,
    region: RegionId,
    /// The previous shard, while a migration's window is open: rows are read from
    /// both.
    #[serde(rename = "alsoOn", skip_serializing_if = "Option::is_none")]
    also_on: Option<&'r ShardId>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResolvedSlice<'r> {
    slice: u32,
    hash_from: u64,
    #[serde(flatten)]
    shard: ResolvedShard<'r>,
    /// The state of its shard.
    state: ShardState,
}

/// Answers with the shard of the key's tenant, in the body and in headers.
pub(crate) async fn resolve(
    State(state): State<RouterState>,
    Extension(access): Extension<Access>,
    uri: Uri,
    headers: HeaderMap,
) -> SummarizedResponse {
    answer(&state, access, &uri, &headers).await
}

/// Answers a request that came through axum or directly.
pub(crate) async fn answer(
    state: &RouterState,
    mut access: Access,
    uri: &Uri,
    headers: &HeaderMap,
) -> SummarizedResponse {
    let resolved = resolve_shard(state, &mut access, uri, headers).await;
    access.answer(resolved)
}

async fn resolve_shard(
    state: &RouterState,
    access: &mut Access,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, RouterError> {
    let Access {
        tenant, summary, ..
    } = access;
    let poll = requested_poll(uri, headers)?;
    let slice = pick_slice(tenant, poll)?;
    let shard = shard_route(state, slice).await?;
    if shard.state == ShardState::Down {
        return Err(shard_down(&slice.shard_id).into());
    }
    let region = HeaderValue::from_str(shard.region.as_str());
    let resolved = ResolveResponse {
        tenant_id: &tenant.tenant_id,
        shard: describe_shard(state, slice, shard),
        slices: match (poll, tenant.slices.len()) {
            (None, 2..) => resolve_slices(state, tenant).await?,
            _ => Vec::new(),
        },
    };
    let mut response = Json(resolved).into_response();
    // `admit` adds the headers for the tenant, the shard and the epoch.
    summary.set_route(slice);
    let headers = response.headers_mut();
    headers.reserve(12);
    if let Some(url) = &state.parts.public_url {
        headers.insert(SHARD_URL, url.clone());
    }
    if let Ok(region) = region {
        headers.insert(REGION, region);
    }
    let also_on = slice.also_on().map(|id| HeaderValue::from_str(id.as_str()));
    if let Some(Ok(also_on)) = also_on {
        headers.insert(ALSO_ON, also_on);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The poll to resolve, if there is one. Below `/resolve/` the query belongs to the
/// original request, where `poll` may mean anything.
fn requested_poll(uri: &Uri, headers: &HeaderMap) -> Result<Option<PollId>> {
    let requested = uri.query().and_then(|query| in_query(query, "poll"));
    match requested {
        Some(text) if uri.path() == "/resolve" => text.parse().map(Some).map_err(|bad| {
            Error::new(ErrorCode::MalformedRequest, format!("poll: {bad}"))
                .with_next_step("Send the poll's ID as in the answer that created it, or none.")
        }),
        _ => Ok(OriginalRequest::from_request(uri, headers).poll()),
    }
}

/// The slice that holds the poll, or the first slice.
fn pick_slice(tenant: &TenantRoute, poll: Option<PollId>) -> Result<&Slice> {
    match poll {
        Some(poll) => find_slice(&tenant.slices, poll),
        None => tenant.slices.first(),
    }
    .ok_or_else(|| Error::new(ErrorCode::Unavailable, "the tenant has no slice yet").retry_after(1))
}

async fn resolve_slices<'r>(
    state: &'r RouterState,
    tenant: &'r TenantRoute,
) -> Result<Vec<ResolvedSlice<'r>>> {
    let mut slices = Vec::with_capacity(tenant.slices.len());
    for slice in &tenant.slices {
        let shard = shard_route(state, slice).await?;
        slices.push(ResolvedSlice {
            slice: slice.slice,
            hash_from: slice.hash_from,
            state: shard.state,
            shard: describe_shard(state, slice, shard),
        });
    }
    Ok(slices)
}

async fn shard_route(state: &RouterState, slice: &Slice) -> Result<ShardRoute> {
    let now = state.parts.clock.now();
    state.parts.routes.shard(&slice.shard_id, now).await
}

fn describe_shard<'r>(
    state: &'r RouterState,
    slice: &'r Slice,
    shard: ShardRoute,
) -> ResolvedShard<'r> {
    ResolvedShard {
        shard_id: &slice.shard_id,
        shard_url: &state.parts.settings.public_url,
        epoch: slice.epoch,
        region: shard.region,
        also_on: slice.also_on(),
    }
}

fn shard_down(shard: &ShardId) -> Error {
    let detail = format!("{shard}, which holds this tenant's data, is down");
    Error::new(ErrorCode::ShardDown, detail).retry_after(DOWN_RETRY_SECONDS)
}
