//! The OpenAPI document of the admin API: its own parts.

use ballast_web::openapi::{ApiDescription, complete_document, has_parameter};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr, Schema};

use super::documented_routes;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Ballast admin API",
        description = "Tenants, keys, shards, placement, migrations, load, hotspots, workflows, events and tokens of a Ballast fleet. \
            Errors are problem documents (RFC 9457) with a stable `code`. Updates take `If-Match`, \
            creates take `Idempotency-Key`, every change takes `?reason=`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ballast_domain::error::ProblemDocument)),
    servers((url = "/", description = "The server that sent this document.")),
    security(("token" = [])),
    tags(
        (name = "tenants", description = "The customers of this fleet."),
        (name = "keys", description = "API keys of tenants' applications."),
        (name = "shards", description = "Stores of votes."),
        (name = "placement", description = "Where tenants are, why, and what would move."),
        (name = "migrations", description = "Slices that move to another shard, and their certificates."),
        (name = "hotspots", description = "Overloaded shards and items: causes, cures and plans."),
        (name = "load", description = "Load of every shard and tenant, now and in the past."),
        (name = "workflows", description = "Deployed workflow definitions."),
        (name = "executions", description = "Executions of workflows, and their results."),
        (name = "events", description = "The audit log: what changed, by whom and why."),
        (name = "tokens", description = "Credentials for this API.")
    )
)]
struct Base;

pub(super) fn base() -> OpenApi {
    Base::openapi()
}

/// The whole document.
pub fn document() -> OpenApi {
    finish(documented_routes().into_openapi())
}

/// Adds what all operations have in common.
pub(super) fn finish(document: OpenApi) -> OpenApi {
    let mut document = complete_document(document, edge());
    // A certificate with unknown members is rejected. As part of a signed
    // certificate, however, it appears next to the signature, so its schema must
    // allow further members.
    let components = document.components.get_or_insert_default();
    if let Some(RefOr::T(Schema::Object(part))) = components.schemas.get_mut("Certificate") {
        part.additional_properties = None;
    }
    document
}

/// The parts that only this API's document has.
fn edge() -> ApiDescription {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An admin token, `bl_admin_…`."))
        .build();
    ApiDescription {
        security: ("token", SecurityScheme::Http(bearer)),
        refusals: &[
            ("401", "The token is missing or does not work"),
            ("403", "The token's role does not allow it"),
        ],
        names_something,
    }
}

/// Whether an operation refers to a resource: by path, `?tenant=` or body.
fn names_something(operation: &Operation) -> bool {
    operation.request_body.is_some()
        || has_parameter(operation, |it| {
            it.parameter_in == ParameterIn::Path || it.name == "tenant"
        })
}
