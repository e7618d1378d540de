//! The OpenAPI document and the page that browses it.

use axum::routing::get;
use axum::{Json, Router};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, PathItem, Ref, RefOr, ResponseBuilder};
use utoipa_swagger_ui::SwaggerUi;

use super::{PREFIX, described};
use crate::plane::ControlPlane;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Ballast admin API",
        description = "Tenants, keys, shards, placement, events and tokens of a Ballast fleet. \
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
    finished(described().into_openapi())
}

/// The document and its page; `/admin/v1/docs` works without any network.
pub(super) fn pages(document: OpenApi) -> Router<ControlPlane> {
    let url = format!("{PREFIX}/openapi.json");
    let page = SwaggerUi::new(format!("{PREFIX}/docs")).config(
        utoipa_swagger_ui::Config::from(url.clone())
            .try_it_out_enabled(true)
            .validator_url("none"),
    );
    Router::new()
        .route(&url, get(async || Json(document)))
        .merge(page)
}

/// Adds what is the same everywhere: how to identify oneself, and the
/// problems that each kind of operation can answer with.
pub(super) fn finished(mut document: OpenApi) -> OpenApi {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An admin token, `bl_admin_…`."))
        .build();
    document
        .components
        .get_or_insert_default()
        .add_security_scheme("token", SecurityScheme::Http(bearer));
    for item in document.paths.paths.values_mut() {
        for (operation, changes) in operations(item) {
            for (status, meaning) in problems(operation, changes) {
                let problem = Content::new(Some(Ref::from_schema_name("Problem")));
                let response = ResponseBuilder::new()
                    .description(*meaning)
                    .content("application/problem+json", problem)
                    .build();
                operation
                    .responses
                    .responses
                    .entry((*status).to_owned())
                    .or_insert(response.into());
            }
        }
    }
    document
}

/// The operations of a path, and whether each changes something.
fn operations(item: &mut PathItem) -> Vec<(&mut Operation, bool)> {
    let PathItem {
        get,
        put,
        post,
        delete,
        patch,
        ..
    } = item;
    let looks = get.iter_mut().map(|operation| (operation, false));
    let changes = [put, post, delete, patch]
        .into_iter()
        .flatten()
        .map(|operation| (operation, true));
    looks.chain(changes).collect()
}

fn problems(operation: &Operation, changes: bool) -> Vec<&'static (&'static str, &'static str)> {
    const ALWAYS: &[(&str, &str)] = &[
        ("400", "The request cannot be read"),
        ("401", "The token is missing or does not work"),
        ("403", "The token's role does not allow it"),
        (
            "422",
            "Something in the request cannot be; `errors` says what",
        ),
        ("500", "Something failed on our side"),
        (
            "503",
            "Not possible right now; try again after `Retry-After`",
        ),
    ];
    const NAMED: &[(&str, &str)] = &[("404", "There is no such thing")];
    const CHANGING: &[(&str, &str)] = &[
        ("409", "It contradicts what is there"),
        ("412", "It has changed since you read it"),
        ("413", "The body is too large"),
        ("415", "The body is not JSON"),
    ];
    let named = operation
        .parameters
        .iter()
        .flatten()
        .any(|parameter| match parameter {
            RefOr::T(it) => it.parameter_in == ParameterIn::Path || it.name == "tenant",
            RefOr::Ref(_) => false,
        });
    let asks = operation.request_body.is_some();
    let mut found: Vec<_> = ALWAYS.iter().collect();
    found.extend(NAMED.iter().filter(|_| named || asks));
    found.extend(CHANGING.iter().filter(|_| changes));
    found
}
