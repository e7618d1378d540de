//! The OpenAPI document of the tenants' API, and the page that browses it.

use axum::routing::get;
use axum::{Json, Router};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, PathItem, Ref, RefOr, ResponseBuilder};
use utoipa_swagger_ui::SwaggerUi;

use crate::{State, described};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Ballast",
        description = "Polls, votes and results, with an API key of the tenant. Errors are \
            problem documents (RFC 9457) with a stable `code`. Sent again, a vote is counted once.",
        license(name = "Apache-2.0")
    ),
    components(schemas(ballast_domain::error::Problem)),
    security(("key" = [])),
    tags(
        (name = "polls", description = "What is voted on."),
        (name = "votes", description = "Who votes for what."),
        (name = "results", description = "How it stands, and live.")
    )
)]
struct Base;

pub(crate) fn base() -> OpenApi {
    Base::openapi()
}

/// The whole document.
pub fn document() -> OpenApi {
    finished(described().into_openapi())
}

/// The document and its page; `/docs/` works without any network, and neither
/// needs a key.
pub(crate) fn pages(document: OpenApi) -> Router<State> {
    let page = SwaggerUi::new("/docs").config(
        utoipa_swagger_ui::Config::from("/openapi.json")
            .try_it_out_enabled(true)
            .validator_url("none"),
    );
    Router::new()
        .route("/openapi.json", get(async || Json(document)))
        .merge(page)
        .method_not_allowed_fallback(ballast_web::problem::wrong_method)
}

/// The header by which a request names itself.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it only describes the header")]
pub(crate) struct IdempotencyHeader {
    /// A text of your choice: repeated with it, the request happens once.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 200)]
    idempotency_key: Option<String>,
}

/// The header that demands a revision.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it only describes the header")]
pub(crate) struct IfMatchHeader {
    /// The ETag of the voter's vote that was read (`"0"`: none); refused with
    /// 412 if it has changed since.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// The header that names the voter.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it only describes the header")]
pub(crate) struct VoterHeader {
    /// Who votes; the body may say so instead.
    #[param(
        rename = "Voter-Id",
        min_length = 1,
        max_length = 128,
        example = "user-1"
    )]
    voter_id: Option<String>,
}

/// Adds what is the same everywhere: how to identify oneself, and the
/// problems that each kind of operation can answer with.
pub(crate) fn finished(mut document: OpenApi) -> OpenApi {
    let key = ApiKeyValue::with_description("X-API-Key", "An API key, `bl_live_…`.");
    document
        .components
        .get_or_insert_default()
        .add_security_scheme("key", SecurityScheme::ApiKey(ApiKey::Header(key)));
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
        post,
        delete,
        patch,
        ..
    } = item;
    let looks = get.iter_mut().map(|operation| (operation, false));
    let changes = [post, delete, patch]
        .into_iter()
        .flatten()
        .map(|operation| (operation, true));
    looks.chain(changes).collect()
}

fn problems(operation: &Operation, changes: bool) -> Vec<&'static (&'static str, &'static str)> {
    const ALWAYS: &[(&str, &str)] = &[
        ("400", "The request cannot be read"),
        ("401", "The key is missing or does not work"),
        ("403", "The key, the tenant or the poll does not allow it"),
        (
            "422",
            "Something in the request cannot be; `errors` says what",
        ),
        ("429", "More than the tenant may send"),
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
            RefOr::T(it) => it.parameter_in == ParameterIn::Path,
            RefOr::Ref(_) => false,
        });
    let mut found: Vec<_> = ALWAYS.iter().collect();
    found.extend(NAMED.iter().filter(|_| named));
    found.extend(CHANGING.iter().filter(|_| changes));
    found
}
