//! `/tenants`

use axum::Json;
use axum::extract::State;
use ballast_domain::bounds::ID_CHARS_MAX;
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::{Error, RegionId, ShardId, TenantId};
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::caller::Viewer;
use super::request::{Change, Id, IdempotencyHeader, IfMatchHeader, Payload, Reason};
use super::response::{ApiResponse, replay_created, reply_created, with_etag};
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;
use crate::tenants::{self, NewTenant, TenantFilter, TenantPatch};

impl Payload for NewTenant {}
impl Payload for TenantPatch {}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TenantQuery {
    /// Only tenants whose ID has this prefix.
    #[param(max_length = 63)]
    prefix: Option<String>,
    /// Only tenants with this status.
    #[param(inline)]
    status: Option<TenantStatus>,
    /// Only tenants with this home region.
    region: Option<RegionId>,
    /// Only tenants with a slice on this shard.
    shard: Option<ShardId>,
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List tenants, ordered by ID.
#[utoipa::path(get, path = "/tenants", operation_id = "listTenants",
    tag = "tenants", params(TenantQuery),
    responses((status = 200, description = "A page of tenants", body = Page<Versioned<Tenant>>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<TenantQuery>,
) -> Result<Json<Page<Versioned<Tenant>>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    let after = page::parse_cursor(filter.cursor.as_deref())?;
    let prefix = filter.prefix.unwrap_or_default();
    if prefix.chars().count() > ID_CHARS_MAX {
        let message = format!("it is longer than {ID_CHARS_MAX} characters");
        return Err(Error::invalid_field("?prefix", message).into());
    }
    let filter = TenantFilter {
        prefix,
        status: filter.status,
        region: filter.region,
        shard: filter.shard,
    };
    let found = tenants::list(&plane, &filter, after, limit + 1).await?;
    Ok(Json(Page::from_items(found, limit, |tenant| {
        tenant.value.tenant_id.to_string()
    })))
}

/// Create a tenant and place it on a shard.
#[utoipa::path(post, path = "/tenants", operation_id = "createTenant",
    tag = "tenants", params(Reason, IdempotencyHeader),
    request_body = NewTenant,
    responses((status = 201, description = "The new tenant", body = Versioned<Tenant>)))]
pub(super) async fn create(
    State(plane): State<ControlPlane>,
    change: Change<NewTenant>,
) -> ApiResponse {
    let Change { intent, body, .. } = change;
    if let Some(answer) = replay_created(&plane, &intent).await? {
        return Ok(answer);
    }
    let made = tenants::create(&plane, &intent, body).await;
    reply_created(&plane, &intent, made).await
}

/// Show a tenant.
#[utoipa::path(get, path = "/tenants/{tenantID}", operation_id = "getTenant",
    tag = "tenants",
    params(("tenantID" = TenantId, Path)),
    responses((status = 200, description = "The tenant", body = Versioned<Tenant>)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
) -> ApiResponse {
    let tenant = tenants::get(&plane, &id).await?;
    Ok(with_etag(tenant.version, &tenant))
}

/// Change a tenant's names, home region, residency, zones, limits or origins.
#[utoipa::path(patch, path = "/tenants/{tenantID}", operation_id = "updateTenant",
    tag = "tenants",
    params(("tenantID" = TenantId, Path), Reason, IfMatchHeader),
    request_body = TenantPatch,
    responses((status = 200, description = "The changed tenant", body = Versioned<Tenant>)))]
pub(super) async fn update(
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    change: Change<TenantPatch>,
) -> ApiResponse {
    let tenant =
        tenants::update(&plane, &change.intent, &id, &change.if_match, &change.body).await?;
    Ok(with_etag(tenant.version, &tenant))
}

/// Suspend a tenant: its keys are rejected until it is resumed. Its data stays.
#[utoipa::path(post, path = "/tenants/{tenantID}/suspend", operation_id = "suspendTenant",
    tag = "tenants",
    params(("tenantID" = TenantId, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The suspended tenant", body = Versioned<Tenant>)))]
pub(super) async fn suspend(
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    set_status(&plane, &change, &id, TenantStatus::Suspended).await
}

/// Resume a suspended tenant.
#[utoipa::path(post, path = "/tenants/{tenantID}/resume", operation_id = "resumeTenant",
    tag = "tenants",
    params(("tenantID" = TenantId, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The active tenant", body = Versioned<Tenant>)))]
pub(super) async fn resume(
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    set_status(&plane, &change, &id, TenantStatus::Active).await
}

/// Close a tenant permanently. Its ID is never reused.
#[utoipa::path(post, path = "/tenants/{tenantID}/close", operation_id = "closeTenant",
    tag = "tenants",
    params(("tenantID" = TenantId, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The closed tenant", body = Versioned<Tenant>)))]
pub(super) async fn close(
    State(plane): State<ControlPlane>,
    Id(id): Id<TenantId>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    set_status(&plane, &change, &id, TenantStatus::Closed).await
}

async fn set_status(
    plane: &ControlPlane,
    change: &Change<EmptyBody>,
    id: &TenantId,
    status: TenantStatus,
) -> ApiResponse {
    let Change {
        intent, if_match, ..
    } = change;
    let tenant = tenants::set_status(plane, intent, id, if_match, status).await?;
    Ok(with_etag(tenant.version, &tenant))
}
