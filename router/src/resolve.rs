//! `/resolve`: API key → shard, for proxies that route by themselves.
//!
//! ```text
//!   ?poll= or the poll in the URI a proxy tells ──► the slice that holds it
//!   neither ──► the first slice, and the list of all when there are several
//! ```
//! Any method will do, and a body is not read: proxies ask on behalf of
//! requests of any kind (see `docs/proxies.md`).

use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ballast_domain::poll::PollId;
use ballast_domain::routes::{ShardRoute, TenantRoute};
use ballast_domain::shard::ShardState;
use ballast_domain::tenant::{Epoch, Slice, slice_of};
use ballast_domain::{Error, ErrorCode, RegionId, Result, ShardId, TenantId};
use serde::Serialize;

use crate::admit::Access;
use crate::key_in_request::in_query;
use crate::original::Original;
use crate::{RouterError, State};

/// When to ask again for a shard that is down: it takes an operator to bring
/// it back.
const DOWN_RETRY_SECONDS: u64 = 5;

const SHARD_URL: HeaderName = HeaderName::from_static("ballast-shard-url");
const REGION: HeaderName = HeaderName::from_static("ballast-region");
const ALSO_ON: HeaderName = HeaderName::from_static("ballast-also-on");

/// Where a key's requests belong.
#[derive(Debug, Serialize)]
struct Resolved<'r> {
    #[serde(rename = "tenantID")]
    tenant_id: &'r TenantId,
    #[serde(flatten)]
    place: Place<'r>,
    /// All slices, when there are several and none was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slices: Vec<PlacedSlice<'r>>,
}

#[derive(Debug, Serialize)]
struct Place<'r> {
    #[serde(rename = "shardID")]
    shard_id: &'r ShardId,
    #[serde(rename = "shardURL")]
    shard_url: &'r str,
    epoch: Epoch,
    region: RegionId,
    /// The shard it was on before, while a move's window is open: rows are read
    /// from both.
    #[serde(rename = "alsoOn", skip_serializing_if = "Option::is_none")]
    also_on: Option<&'r ShardId>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlacedSlice<'r> {
    slice: u32,
    hash_from: u64,
    #[serde(flatten)]
    place: Place<'r>,
    /// Whether its shard serves.
    state: ShardState,
}

/// Answers with the shard of the key's tenant, in the body and in headers.
pub(crate) async fn resolve(
    Given(state): Given<State>,
    Extension(access): Extension<Access>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RouterError> {
    answer(&state, &access, &uri, &headers).await
}

/// The same, whichever way it came in.
pub(crate) async fn answer(
    state: &State,
    access: &Access,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, RouterError> {
    let tenant = &access.tenant;
    let poll = poll(uri, headers)?;
    let slice = pick(tenant, poll)?;
    let shard = shard(state, slice).await?;
    if shard.state == ShardState::Down {
        return Err(down(&slice.shard_id).into());
    }
    let region = HeaderValue::from_str(shard.region.as_str());
    let resolved = Resolved {
        tenant_id: &tenant.tenant_id,
        place: place(state, slice, shard),
        slices: match (poll, tenant.slices.len()) {
            (None, 2..) => placed(state, tenant).await?,
            _ => Vec::new(),
        },
    };
    let mut response = Json(resolved).into_response();
    // The way in adds these three to the answer: tenant, shard, epoch.
    access.tell(slice);
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

/// The poll that is asked for, if any. Below `/resolve/` the query is that of
/// the original request, where `poll` may mean anything.
fn poll(uri: &Uri, headers: &HeaderMap) -> Result<Option<PollId>> {
    let asked = uri.query().and_then(|query| in_query(query, "poll"));
    match asked {
        Some(text) if uri.path() == "/resolve" => text.parse().map(Some).map_err(|bad| {
            Error::new(ErrorCode::MalformedRequest, format!("poll: {bad}"))
                .next("Give the poll's ID as it was answered when it was created, or none.")
        }),
        _ => Ok(Original::of(uri, headers).poll()),
    }
}

/// The slice that holds the poll, or the first.
fn pick(tenant: &TenantRoute, poll: Option<PollId>) -> Result<&Slice> {
    match poll {
        Some(poll) => slice_of(&tenant.slices, poll),
        None => tenant.slices.first(),
    }
    .ok_or_else(|| Error::new(ErrorCode::Unavailable, "the tenant has no slice yet").retry_after(1))
}

async fn placed<'r>(state: &'r State, tenant: &'r TenantRoute) -> Result<Vec<PlacedSlice<'r>>> {
    let mut placed = Vec::with_capacity(tenant.slices.len());
    for slice in &tenant.slices {
        let shard = shard(state, slice).await?;
        placed.push(PlacedSlice {
            slice: slice.slice,
            hash_from: slice.hash_from,
            state: shard.state,
            place: place(state, slice, shard),
        });
    }
    Ok(placed)
}

async fn shard(state: &State, slice: &Slice) -> Result<ShardRoute> {
    let now = state.parts.clock.now();
    state.parts.routes.shard(&slice.shard_id, now).await
}

fn place<'r>(state: &'r State, slice: &'r Slice, shard: ShardRoute) -> Place<'r> {
    Place {
        shard_id: &slice.shard_id,
        shard_url: &state.parts.settings.public_url,
        epoch: slice.epoch,
        region: shard.region,
        also_on: slice.also_on(),
    }
}

fn down(shard: &ShardId) -> Error {
    let detail = format!("{shard}, which holds this tenant's data, is down");
    Error::new(ErrorCode::ShardDown, detail).retry_after(DOWN_RETRY_SECONDS)
}
