//! The OpenAPI document of the admin API: what only it says.

use ballast_web::openapi::{Edge, finished, has_parameter};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr, Schema};

use super::described;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Ballast admin API",
        description = "Tenants, keys, shards, placement, moves, load, hotspots, workflows, events and tokens of a Ballast fleet. \
            Errors are problem documents (RFC 9457) with a stable `code`. Updates take `If-Match`, \
            creates take `Idempotency-Key`, every change takes `?reason=`.",
        license(name = "Apache-2.0")
    ),
    components(schemas(ballast_domain::error::Problem)),
    security(("token" = [])),
    tags(
        (name = "tenants", description = "Who is served."),
        (name = "keys", description = "What tenants' applications identify themselves with."),
        (name = "shards", description = "Where votes are stored."),
        (name = "placement", description = "Which tenant is where, why, and who would move."),
        (name = "migrations", description = "Slices that change shard, and what that proved."),
        (name = "hotspots", description = "What is hot, why, what helps, and what was planned and done."),
        (name = "load", description = "What every shard and tenant uses, now and in the past."),
        (name = "workflows", description = "What can be run."),
        (name = "executions", description = "What runs, and what came of it."),
        (name = "events", description = "What was changed, by whom and why."),
        (name = "tokens", description = "Who may use this API.")
    )
)]
struct Base;

pub(super) fn base() -> OpenApi {
    Base::openapi()
}

/// The whole document.
pub fn document() -> OpenApi {
    finish(described().into_openapi())
}

/// The document with what all of its operations have in common.
pub(super) fn finish(document: OpenApi) -> OpenApi {
    let mut document = finished(document, edge());
    // A certificate is refused with members that it does not have, but it is
    // shown together with its signature: as a part it must leave room for that.
    let components = document.components.get_or_insert_default();
    if let Some(RefOr::T(Schema::Object(part))) = components.schemas.get_mut("Certificate") {
        part.additional_properties = None;
    }
    document
}

/// What only this API's document says.
fn edge() -> Edge {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An admin token, `bl_admin_…`."))
        .build();
    Edge {
        security: ("token", SecurityScheme::Http(bearer)),
        refusals: &[
            ("401", "The token is missing or does not work"),
            ("403", "The token's role does not allow it"),
        ],
        names_something,
    }
}

/// Whether an operation names something: in its path, as `?tenant=`, in its body.
fn names_something(operation: &Operation) -> bool {
    operation.request_body.is_some()
        || has_parameter(operation, |it| {
            it.parameter_in == ParameterIn::Path || it.name == "tenant"
        })
}
