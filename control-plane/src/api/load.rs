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
use crate::load::current::{self, LoadBody, LoadFilter};
use crate::load::history::{self, LoadHistoryBody, TimeRange};
use crate::load::outlook::{self, ForecastBody};
use crate::load::usage::{self, UsageBody};
use crate::plane::ControlPlane;

/// Maximum number of tenants in a response.
const TENANTS_MAX: u32 = 1_000;
/// Longest step, a year; anything longer is considered a mistake.
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
    /// At this moment in the past instead of now.
    at: Option<Timestamp>,
    /// Maximum number of tenants, hottest first; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    tenants: Option<u32>,
}

/// Show the load of every shard and of the hottest tenants, now or at a moment.
#[utoipa::path(get, path = "/load", operation_id = "getLoad",
    tag = "load", params(NowFilter),
    responses((status = 200, description = "The load", body = LoadBody)))]
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
    Ok(Json(current::show(&plane, &wanted, filter.at).await?))
}

fn tenants_max(wanted: Option<u32>) -> Result<Option<usize>, Error> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    let most = page::page_size_within(Some(wanted), wanted, TENANTS_MAX)
        .map_err(|_| Error::invalid_field("?tenants", "must be from 1 to 1000"))?;
    Ok(Some(most as usize))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PastFilter {
    /// Start; one hour before the end when absent.
    from: Option<Timestamp>,
    /// End; now when absent.
    to: Option<Timestamp>,
    /// Length of a step, in milliseconds; one that suits a chart when absent.
    #[param(minimum = 1)]
    step: Option<u64>,
    /// Only this shard, and the tenants on it.
    #[serde(rename = "shardID")]
    #[param(rename = "shardID")]
    shard_id: Option<ShardId>,
    /// Only this tenant, and its shards.
    #[serde(rename = "tenantID")]
    #[param(rename = "tenantID")]
    tenant_id: Option<TenantId>,
    /// Maximum number of tenants, hottest first; 20 when absent.
    #[param(minimum = 1, maximum = 1000)]
    tenants: Option<u32>,
}

fn step(wanted: Option<u64>) -> Result<Option<u64>, Error> {
    match wanted {
        Some(step) if !(1..=STEP_MAX_MS).contains(&step) => {
            Err(Error::invalid_field("?step", "must be from 1 ms to a year"))
        }
        other => Ok(other),
    }
}

/// Show the load of shards and tenants over time: series for charts.
///
/// Load is kept in steps of ten seconds for two hours, of a minute for two days,
/// of ten minutes for two weeks and of an hour for a year.
#[utoipa::path(get, path = "/load/history", operation_id = "getLoadHistory",
    tag = "load", params(PastFilter),
    responses((status = 200, description = "The series", body = LoadHistoryBody)))]
pub(super) async fn history(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<PastFilter>,
) -> Result<Json<LoadHistoryBody>, ApiError> {
    let range = TimeRange::new(&plane, filter.from, filter.to)?;
    let wanted = LoadFilter {
        shard: filter.shard_id,
        tenant: filter.tenant_id,
        tenants_max: tenants_max(filter.tenants)?,
    };
    Ok(Json(
        history::show(&plane, range, step(filter.step)?, wanted).await?,
    ))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RecordFilter {
    /// Start; one hour before the end when absent.
    from: Option<Timestamp>,
    /// End; now when absent.
    to: Option<Timestamp>,
    /// Minimum length of a step, in milliseconds; as recorded when absent.
    #[param(minimum = 1)]
    step: Option<u64>,
}

/// Export recorded load, one JSON object per line, to replay or archive it.
#[utoipa::path(get, path = "/load/record", operation_id = "exportLoad",
    tag = "load", params(RecordFilter),
    responses((status = 200, description = "A line that names the format, then one for each sample",
        body = Object, content_type = "application/x-ndjson")))]
pub(super) async fn record(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<RecordFilter>,
) -> Result<Response, ApiError> {
    let range = TimeRange::new(&plane, filter.from, filter.to)?;
    let text = history::record(&plane, range, step(filter.step)?).await?;
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, text).into_response())
}

/// Show the rules for judging load and the terms of plans.
#[utoipa::path(get, path = "/load/terms", operation_id = "getLoadTerms",
    tag = "load",
    responses((status = 200, description = "The rules and terms", body = TermsBody)))]
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
    /// Start; 30 days before the end when absent.
    from: Option<Timestamp>,
    /// End; now when absent.
    to: Option<Timestamp>,
    /// Only this tenant.
    #[serde(rename = "tenantID")]
    #[param(rename = "tenantID")]
    tenant_id: Option<TenantId>,
    /// `json` (the default) or `csv`.
    #[param(inline)]
    format: Option<UsageFormat>,
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Format)]
pub(super) enum UsageFormat {
    Json,
    Csv,
}

/// Show each tenant's daily use, and its cost by the price list.
#[utoipa::path(get, path = "/usage", operation_id = "getUsage",
    tag = "load", params(UsageFilter),
    responses((status = 200, description = "The use of each day", content(
        (UsageBody = "application/json"),
        (String = "text/csv; charset=utf-8")))))]
pub(super) async fn usage(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<UsageFilter>,
) -> Result<Response, ApiError> {
    let to = filter.to.unwrap_or_else(|| plane.now());
    let from = filter.from.unwrap_or_else(|| to.plus_seconds(-30 * 86_400));
    let range = TimeRange::new(&plane, Some(from), Some(to))?;
    match filter.format {
        Some(UsageFormat::Csv) => {
            let text = usage::csv(&plane, range, filter.tenant_id).await?;
            let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8")];
            Ok((kind, text).into_response())
        }
        Some(UsageFormat::Json) | None => {
            let body = usage::show(&plane, range, filter.tenant_id).await?;
            Ok(Json(body).into_response())
        }
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ForecastFilter {
    /// Number of days ahead; 30 when absent.
    #[param(minimum = 1, maximum = 365)]
    days: Option<u32>,
}

/// Forecast how full shards will be, and when they exceed their limit.
#[utoipa::path(get, path = "/forecast", operation_id = "getForecast",
    tag = "load", params(ForecastFilter),
    responses((status = 200, description = "The forecast for each shard", body = ForecastBody)))]
pub(super) async fn forecast(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(ahead): Params<ForecastFilter>,
) -> Result<Json<ForecastBody>, ApiError> {
    let days = ahead.days.unwrap_or(30);
    if !(1..=365).contains(&days) {
        return Err(Error::invalid_field("?days", "must be from 1 to 365").into());
    }
    Ok(Json(outlook::show(&plane, days).await?))
}
