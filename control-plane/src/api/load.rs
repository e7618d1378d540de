//! `/load`

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_domain::{Error, ShardId, TenantId, Timestamp};
use ballast_web::ApiError;
use ballast_web::head::Params;
use ballast_web::page;
use serde::Deserialize;

use super::caller::Viewer;
use crate::hotspots::terms::{self, TermsBody};
use crate::load::history::{self, LoadHistory, Stretch};
use crate::load::now::{self, LoadBody, LoadFilter};
use crate::load::outlook::{self, ForecastBody};
use crate::load::usage::{self, UsageBody};
use crate::plane::ControlPlane;

/// Tenants that are told, at the most.
const TENANTS_MAX: u32 = 1_000;
/// Steps longer than this are a mistake: a year.
const STEP_MAX_MS: u64 = 366 * 86_400_000;

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct NowFilter {
    /// Only this shard, and the tenants on it.
    #[serde(rename = "shardID")]
    #[param(rename = "shardID")]
    shard_id: Option<ShardId>,
    /// Only this tenant, and the shards it is on.
    #[serde(rename = "tenantID")]
    #[param(rename = "tenantID")]
    tenant_id: Option<TenantId>,
    /// At this moment of the past instead of now.
    at: Option<Timestamp>,
    /// How many tenants at the most, the hottest first; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    tenants: Option<u32>,
}

/// Show what every shard and the hottest tenants use now, or used at a moment.
#[utoipa::path(get, path = "/load", tag = "load", params(NowFilter),
    responses((status = 200, body = LoadBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<NowFilter>,
) -> Result<Json<LoadBody>, ApiError> {
    let wanted = LoadFilter {
        shard: filter.shard_id,
        tenant: filter.tenant_id,
        tenants_max: tenants_max(filter.tenants)?,
    };
    Ok(Json(now::show(&plane, &wanted, filter.at).await?))
}

fn tenants_max(wanted: Option<u32>) -> Result<Option<usize>, Error> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    let most = page::bounded(Some(wanted), wanted, TENANTS_MAX)
        .map_err(|_| Error::invalid_field("?tenants", "it must be from 1 to 1000"))?;
    Ok(Some(most as usize))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PastFilter {
    /// From when; an hour before the end when absent.
    from: Option<Timestamp>,
    /// Until when; now when absent.
    to: Option<Timestamp>,
    /// How long a step is, in milliseconds; what makes a good chart when absent.
    #[param(minimum = 1)]
    step: Option<u64>,
    /// Only this shard, and the tenants on it.
    #[serde(rename = "shardID")]
    #[param(rename = "shardID")]
    shard_id: Option<ShardId>,
    /// Only this tenant, and the shards it was on.
    #[serde(rename = "tenantID")]
    #[param(rename = "tenantID")]
    tenant_id: Option<TenantId>,
    /// How many tenants at the most, the hottest first; 20 when absent.
    #[param(minimum = 1, maximum = 1000)]
    tenants: Option<u32>,
}

fn step(wanted: Option<u64>) -> Result<Option<u64>, Error> {
    match wanted {
        Some(step) if !(1..=STEP_MAX_MS).contains(&step) => Err(Error::invalid_field(
            "?step",
            "it must be from 1 ms to a year",
        )),
        other => Ok(other),
    }
}

/// Show what shards and tenants used over time: series for charts.
///
/// Load is kept in steps of ten seconds for two hours, of a minute for two days,
/// of ten minutes for two weeks and of an hour for a year.
#[utoipa::path(get, path = "/load/history", tag = "load", params(PastFilter),
    responses((status = 200, body = LoadHistory)))]
pub(super) async fn history(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<PastFilter>,
) -> Result<Json<LoadHistory>, ApiError> {
    let stretch = Stretch::new(&plane, filter.from, filter.to)?;
    let wanted = LoadFilter {
        shard: filter.shard_id,
        tenant: filter.tenant_id,
        tenants_max: tenants_max(filter.tenants)?,
    };
    Ok(Json(
        history::show(&plane, stretch, step(filter.step)?, wanted).await?,
    ))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RecordFilter {
    /// From when; an hour before the end when absent.
    from: Option<Timestamp>,
    /// Until when; now when absent.
    to: Option<Timestamp>,
    /// In steps of at least this length, in milliseconds; as recorded when absent.
    #[param(minimum = 1)]
    step: Option<u64>,
}

/// Hand out recorded load, one JSON object per line: to be replayed, or to be
/// kept elsewhere.
#[utoipa::path(get, path = "/load/record", tag = "load", params(RecordFilter),
    responses((status = 200, body = String, content_type = "application/x-ndjson")))]
pub(super) async fn record(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<RecordFilter>,
) -> Result<Response, ApiError> {
    let stretch = Stretch::new(&plane, filter.from, filter.to)?;
    let text = history::record(&plane, stretch, step(filter.step)?).await?;
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, text).into_response())
}

/// Show what load is judged and planned by: rules, diagnosis, terms of plans.
#[utoipa::path(get, path = "/load/terms", tag = "load",
    responses((status = 200, body = TermsBody)))]
pub(super) async fn terms_show(
    _: Viewer,
    State(plane): State<ControlPlane>,
) -> Result<Json<TermsBody>, ApiError> {
    Ok(Json(terms::show(&plane)))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageFilter {
    /// From when; 30 days before the end when absent.
    from: Option<Timestamp>,
    /// Until when; now when absent.
    to: Option<Timestamp>,
    /// Only this tenant.
    #[serde(rename = "tenantID")]
    #[param(rename = "tenantID")]
    tenant_id: Option<TenantId>,
    /// `json`, which it is when absent, or `csv`.
    #[param(inline)]
    format: Option<Format>,
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    Json,
    Csv,
}

/// Show what each tenant used on each day, and what that costs by the price list.
#[utoipa::path(get, path = "/usage", tag = "load", params(UsageFilter),
    responses((status = 200, content(
        (UsageBody = "application/json"),
        (String = "text/csv; charset=utf-8")))))]
pub(super) async fn usage(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<UsageFilter>,
) -> Result<Response, ApiError> {
    let to = filter.to.unwrap_or_else(|| plane.now());
    let from = filter.from.unwrap_or_else(|| to.plus_seconds(-30 * 86_400));
    let stretch = Stretch::new(&plane, Some(from), Some(to))?;
    match filter.format {
        Some(Format::Csv) => {
            let text = usage::csv(&plane, stretch, filter.tenant_id).await?;
            let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8")];
            Ok((kind, text).into_response())
        }
        Some(Format::Json) | None => {
            let body = usage::show(&plane, stretch, filter.tenant_id).await?;
            Ok(Json(body).into_response())
        }
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Ahead {
    /// How many days ahead; 30 when absent.
    #[param(minimum = 1, maximum = 365)]
    days: Option<u32>,
}

/// Show how full shards will be, and in how many days they are over their limit.
#[utoipa::path(get, path = "/forecast", tag = "load", params(Ahead),
    responses((status = 200, body = ForecastBody)))]
pub(super) async fn forecast(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(ahead): Params<Ahead>,
) -> Result<Json<ForecastBody>, ApiError> {
    let days = ahead.days.unwrap_or(30);
    if !(1..=365).contains(&days) {
        return Err(Error::invalid_field("?days", "it must be from 1 to 365").into());
    }
    Ok(Json(outlook::show(&plane, days).await?))
}
