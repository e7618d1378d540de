//! The admin API, under `/admin/v1`: JSON over HTTP, described by its own
//! OpenAPI document.
//!
//! ```text
//!   request ──► caller (token → role) ──► request (body, If-Match, reason,
//!               Idempotency-Key) ──► one function of a module ──► response
//! ```
//! Handlers contain no logic: each checks the caller, calls one function of the
//! module it serves, and builds the response. One file per resource.

mod caller;
mod drains;
mod events;
mod executions;
mod hotspots;
mod keys;
mod load;
mod migration_watch;
mod migrations;
mod openapi;
mod placement;
mod request;
mod response;
mod shards;
mod slicing;
mod tenants;
mod tokens;
mod watch;
mod workflows;

use axum::Router;
use ballast_domain::{Error, ErrorCode};
use ballast_web::ApiError;
use ballast_web::openapi::document_routes;
use ballast_web::problem::wrong_method;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use caller::ClientAddress;
pub use openapi::document;

use crate::plane::ControlPlane;

/// The path prefix of the admin API.
pub const PREFIX: &str = "/admin/v1";

/// The admin API, to be mounted at the root.
pub fn router(plane: ControlPlane) -> Router {
    let (router, document) = documented_routes().split_for_parts();
    let document = openapi::finish(document);
    router
        .merge(document_routes(PREFIX, document))
        .fallback(async || ApiError::from(Error::new(ErrorCode::NotFound, "no such path")))
        .method_not_allowed_fallback(wrong_method)
        .with_state(plane)
}

/// Every path with its OpenAPI description.
fn documented_routes() -> OpenApiRouter<ControlPlane> {
    let routes = record_routes().merge(operation_routes());
    OpenApiRouter::with_openapi(openapi::base()).nest(PREFIX, routes)
}

/// Tenants, keys, shards, placement, events and tokens.
fn record_routes() -> OpenApiRouter<ControlPlane> {
    OpenApiRouter::new()
        .routes(routes!(tenants::list, tenants::create))
        .routes(routes!(tenants::show, tenants::update))
        .routes(routes!(tenants::suspend))
        .routes(routes!(tenants::resume))
        .routes(routes!(tenants::close))
        .routes(routes!(keys::create))
        .routes(routes!(keys::list))
        .routes(routes!(keys::show, keys::update))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::revoke))
        .routes(routes!(keys::identify))
        .routes(routes!(shards::list, shards::add))
        .routes(routes!(shards::show, shards::update, shards::remove))
        .routes(routes!(placement::show))
        .routes(routes!(placement::explain))
        .routes(routes!(placement::pin, placement::unpin))
        .routes(routes!(placement::preview))
        .routes(routes!(placement::drift))
        .routes(routes!(events::list))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(tokens::whoami))
}

/// Migrations, splits, drains, workflows, hotspots and load.
fn operation_routes() -> OpenApiRouter<ControlPlane> {
    OpenApiRouter::new()
        .routes(routes!(migrations::begin))
        .routes(routes!(slicing::split))
        .routes(routes!(slicing::merge))
        .routes(routes!(drains::show, drains::begin))
        .routes(routes!(drains::cancel))
        .routes(routes!(drains::rebalance_show, drains::rebalance_begin))
        .routes(routes!(migrations::list))
        .routes(routes!(migrations::show))
        .routes(routes!(migrations::certificate))
        .routes(routes!(migrations::certificate_key))
        .routes(routes!(migration_watch::watch))
        .routes(routes!(migrations::pause))
        .routes(routes!(migrations::resume))
        .routes(routes!(migrations::cancel))
        .routes(routes!(migrations::reverse))
        .routes(routes!(migrations::complete))
        .routes(routes!(migrations::approve))
        .routes(routes!(migrations::discard))
        .routes(routes!(workflows::list))
        .routes(routes!(
            workflows::show,
            workflows::deploy,
            workflows::remove
        ))
        .routes(routes!(executions::list, executions::start))
        .routes(routes!(executions::show))
        .routes(routes!(executions::definition))
        .routes(routes!(executions::history))
        .routes(routes!(watch::watch))
        .routes(routes!(executions::pause))
        .routes(routes!(executions::resume))
        .routes(routes!(executions::cancel))
        .routes(routes!(executions::signal))
        .routes(routes!(executions::heartbeat))
        .routes(routes!(hotspots::list))
        .routes(routes!(hotspots::show))
        .routes(routes!(hotspots::why_not))
        .routes(routes!(hotspots::plans_list))
        .routes(routes!(hotspots::plan_show))
        .routes(routes!(hotspots::approve))
        .routes(routes!(hotspots::reject))
        .routes(routes!(load::show))
        .routes(routes!(load::history))
        .routes(routes!(load::record))
        .routes(routes!(load::terms_show))
        .routes(routes!(load::usage))
        .routes(routes!(load::forecast))
}
