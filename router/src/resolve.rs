//! `GET /resolve`: API key → shard, for proxies that route by themselves.

use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use ballast_domain::tenant::{Epoch, Slice};
use ballast_domain::{Error, ErrorCode, RegionId, ShardId, TenantId, Timestamp};
use serde::Serialize;

use crate::admit::Access;
use crate::{RouterError, State};

/// Where a key's requests belong.
#[derive(Debug, Serialize)]
struct Resolved {
    #[serde(rename = "tenantID")]
    tenant_id: TenantId,
    #[serde(flatten)]
    place: Place,
    /// All slices, when there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slices: Vec<Place>,
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

/// Answers with the shard of the key's tenant, in the body and in headers.
pub(crate) async fn resolve(
    Given(state): Given<State>,
    Extension(access): Extension<Access>,
) -> Result<Response, RouterError> {
    let now = state.parts.clock.now();
    let mut places = Vec::with_capacity(access.tenant.slices.len());
    for slice in &access.tenant.slices {
        places.push(place(&state, slice, now).await?);
    }
    let first = places.first().cloned().ok_or_else(|| {
        Error::new(ErrorCode::Unavailable, "the tenant has no slice yet").retry_after(1)
    })?;
    let resolved = Resolved {
        tenant_id: access.tenant.tenant_id.clone(),
        place: first,
        slices: if places.len() > 1 { places } else { Vec::new() },
    };
    let headers = headers(&resolved);
    Ok((headers, Json(resolved)).into_response())
}

async fn place(state: &State, slice: &Slice, now: Timestamp) -> Result<Place, RouterError> {
    Ok(Place {
        shard_id: slice.shard_id.clone(),
        shard_url: state.parts.settings.public_url.clone(),
        epoch: slice.epoch,
        region: state.parts.routes.region(&slice.shard_id, now).await?,
    })
}

fn headers(resolved: &Resolved) -> HeaderMap {
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
