//! The OpenAPI document of the tenants' API: what only it says.

use ballast_web::openapi::{Edge, finished, has_parameter};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};

use crate::described;

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
    finished(described().into_openapi(), edge())
}

/// What only this API's document says.
pub(crate) fn edge() -> Edge {
    let key = ApiKeyValue::with_description("X-API-Key", "An API key, `bl_live_…`.");
    Edge {
        security: ("key", SecurityScheme::ApiKey(ApiKey::Header(key))),
        refusals: &[
            ("401", "The key is missing or does not work"),
            ("403", "The key, the tenant or the poll does not allow it"),
            ("429", "More than the tenant may send"),
        ],
        names_something: |operation| {
            has_parameter(operation, |it| it.parameter_in == ParameterIn::Path)
        },
    }
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
