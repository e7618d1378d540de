//! Errors as pages: what was wrong, where, and what to do next.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::registry::StoreError;
use ballast_domain::{Error, ErrorCode};
use ballast_vote_shard::ShardError;
use maud::html;

use super::layout;

/// An error that is shown as a page. It is logged here, once, when it is ours.
pub(crate) struct Broken(Box<Error>);

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<ShardError> for Broken {
    fn from(error: ShardError) -> Self {
        Error::from(error).into()
    }
}

impl IntoResponse for Broken {
    fn into_response(self) -> Response {
        let Self(error) = self;
        if let Some(cause) = error.log_line() {
            tracing::error!(code = error.code().name(), cause, "{error}");
        }
        let problem = error.problem();
        let page = layout::outside(
            &problem.title,
            &html! {
                section class="card broken" {
                    p class="muted" { (problem.status) " · " code { (problem.code) } }
                    h1 { (problem.title) }
                    p { (problem.detail) "." }
                    @if problem.errors.len() > 1 {
                        ul {
                            @for field in &problem.errors {
                                li { code { (field.pointer.trim_start_matches('/')) } ": " (field.message) }
                            }
                        }
                    }
                    p { strong { "Next: " } (problem.next) }
                    p class="row" {
                        a class="button" href="/console" { "To the fleet" }
                        a class="button" href=(problem.kind) { "About this error" }
                    }
                }
            },
        );
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, page).into_response();
        if let Some(seconds) = error.retry_after_seconds() {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The answer to a path that there is not.
pub(crate) async fn no_such_page() -> Broken {
    Error::new(ErrorCode::NotFound, "there is no such page").into()
}
