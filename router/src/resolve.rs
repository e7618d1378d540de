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

/// Where a key's requests belong.
#[derive(Debug, Serialize)]
struct Resolved {
    #[serde(rename = "tenantID")]
    tenant_id: TenantId,
    #[serde(flatten)]
    place: Place,
    /// All slices, when there are several and none was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slices: Vec<PlacedSlice>,
}

#[derive(Debug, Clone, Serialize)]
struct Place {
    #[serde(rename = "shardID")]
    shard_id: ShardId,
    #[serde(rename = "shardURL")]
    shard_url: String,
    epoch: Epoch,
    region: RegionId,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlacedSlice {
    slice: u32,
    hash_from: u64,
    #[serde(flatten)]
    place: Place,
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
    let resolved = Resolved {
        tenant_id: tenant.tenant_id.clone(),
        place: place(state, slice, &shard),
        slices: match (poll, tenant.slices.len()) {
            (None, 2..) => placed(state, tenant).await?,
            _ => Vec::new(),
        },
    };
    let headers = in_headers(&resolved);
    Ok((headers, Json(resolved)).into_response())
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

async fn placed(state: &State, tenant: &TenantRoute) -> Result<Vec<PlacedSlice>> {
    let mut placed = Vec::with_capacity(tenant.slices.len());
    for slice in &tenant.slices {
        let shard = shard(state, slice).await?;
        placed.push(PlacedSlice {
            slice: slice.slice,
            hash_from: slice.hash_from,
            place: place(state, slice, &shard),
            state: shard.state,
        });
    }
    Ok(placed)
}

async fn shard(state: &State, slice: &Slice) -> Result<ShardRoute> {
    let now = state.parts.clock.now();
    state.parts.routes.shard(&slice.shard_id, now).await
}

fn place(state: &State, slice: &Slice, shard: &ShardRoute) -> Place {
    Place {
        shard_id: slice.shard_id.clone(),
        shard_url: state.parts.settings.public_url.clone(),
        epoch: slice.epoch,
        region: shard.region.clone(),
    }
}

fn down(shard: &ShardId) -> Error {
    let detail = format!("{shard}, which holds this tenant's data, is down");
    Error::new(ErrorCode::ShardDown, detail).retry_after(DOWN_RETRY_SECONDS)
}

fn in_headers(resolved: &Resolved) -> HeaderMap {
    let place = &resolved.place;
    let values = [
        ("ballast-tenant", resolved.tenant_id.to_string()),
        ("ballast-shard", place.shard_id.to_string()),
        ("ballast-shard-url", place.shard_url.clone()),
        ("ballast-epoch", place.epoch.0.to_string()),
        ("ballast-region", place.region.to_string()),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in values {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers
}
