//! The OpenAPI document of the tenants' API: the parts that only this API has.

use ballast_web::openapi::{ApiDescription, complete_document, has_parameter};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};

use crate::describe_routes;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Ballast",
        description = "Polls, votes and results, with an API key of the tenant. Errors are \
            problem documents (RFC 9457) with a stable `code`. A repeated vote is counted once.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ballast_domain::error::ProblemDocument)),
    servers((url = "/", description = "The server that sent this document.")),
    security(("key" = [])),
    tags(
        (name = "polls", description = "Polls and their items."),
        (name = "votes", description = "Casting, withdrawing and reading votes."),
        (name = "results", description = "Results, also live.")
    )
)]
struct TenantApi;

/// Generates the document without paths.
pub(crate) fn generate_base() -> OpenApi {
    TenantApi::openapi()
}

/// The whole document.
pub fn document() -> OpenApi {
    complete_document(describe_routes().into_openapi(), describe_api())
}

/// Describes the parts that only this API has.
pub(crate) fn describe_api() -> ApiDescription {
    let key = ApiKeyValue::with_description("X-API-Key", "An API key, `bl_live_…`.");
    ApiDescription {
        security: ("key", SecurityScheme::ApiKey(ApiKey::Header(key))),
        refusals: &[
            ("401", "The key is missing or not valid"),
            ("403", "The key, the tenant or the poll does not allow it"),
            ("429", "A limit of the tenant is exceeded"),
        ],
        names_something: |operation| {
            has_parameter(operation, |it| it.parameter_in == ParameterIn::Path)
        },
    }
}

/// The header that makes a request idempotent.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "describes the header for OpenAPI")]
pub(crate) struct IdempotencyHeader {
    /// A text of your choice. Repeated requests with the same text take effect once.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 200)]
    idempotency_key: Option<String>,
}

/// The header that requires a revision.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "describes the header for OpenAPI")]
pub(crate) struct IfMatchHeader {
    /// The ETag of the voter's vote (`"0"` for none). The request is refused with 412 if
    /// the vote has changed since.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// The header that names the voter.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "describes the header for OpenAPI")]
pub(crate) struct VoterHeader {
    /// The voter; may be sent in the body instead.
    #[param(
        rename = "Voter-Id",
        min_length = 1,
        max_length = 128,
        example = "user-1"
    )]
    voter_id: Option<String>,
}
