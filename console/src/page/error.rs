//! Error pages: what went wrong, where, and what to do next.
//!
//! A handler that fails does not know the visitor. It returns a page without
//! navigation, and a middleware renders it again for the visitor: with navigation
//! for a logged-in operator, without console details for the holder of a shared
//! results link.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ballast_domain::error::ProblemDocument;
use ballast_domain::registry::RegistryError;
use ballast_domain::{Error, ErrorCode};
use ballast_vote_shard::ShardError;
use maud::{Markup, html};

use super::layout::{self, Page};
use crate::console::Console;
use crate::session::{load_visitor, referring_page};

/// An error shown as a page. Server-side errors are logged here, once.
pub(crate) struct ErrorPage(Box<Error>);

impl From<Error> for ErrorPage {
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl From<RegistryError> for ErrorPage {
    fn from(error: RegistryError) -> Self {
        Error::from(error).into()
    }
}

impl From<ShardError> for ErrorPage {
    fn from(error: ShardError) -> Self {
        Error::from(error).into()
    }
}

/// The problem, carried to the middleware as a response extension.
#[derive(Clone)]
struct ShownProblem(Arc<ProblemDocument>);

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let Self(error) = self;
        if let Some(cause) = error.log_line() {
            tracing::error!(code = error.code().name(), cause, "{error}");
        }
        let mut problem = error.problem();
        let usual = problem.next == error.code().next_step();
        if let Some(next) = next_step_for_people(error.code()).filter(|_| usual) {
            next.clone_into(&mut problem.next);
        }
        let page = layout::outside(&problem.title, &card(&problem, None));
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, page).into_response();
        if let Some(seconds) = error.retry_after_seconds() {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
            .extensions_mut()
            .insert(ShownProblem(Arc::new(problem)));
        response
    }
}

/// The next step in words for a person, where the API's wording addresses programs.
fn next_step_for_people(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::NotFound
        | ErrorCode::TenantNotFound
        | ErrorCode::ShardNotFound
        | ErrorCode::PollNotFound
        | ErrorCode::MigrationNotFound
        | ErrorCode::HotspotNotFound
        | ErrorCode::PlanNotFound => "Look for it in the lists.",
        ErrorCode::InvalidField => "Go back, correct the fields listed, and submit again.",
        ErrorCode::Changed => {
            "It was changed in the meantime: go back, reload the page, and check it before you submit again."
        }
        ErrorCode::Unavailable | ErrorCode::ShardDown => "Try again in a moment.",
        _ => return None,
    })
}

fn card(problem: &ProblemDocument, back: Option<&str>) -> Markup {
    html! {
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
                @if let Some(back) = back { a class="button primary" href=(back) { "Back" } }
                a class="button" href="/console" { "Fleet overview" }
                a class="button" href=(problem.kind) { "About this error" }
            }
        }
    }
}

/// The error card for holders of a shared results link, without internal details.
fn public_card(problem: &ProblemDocument) -> Markup {
    let passes = problem.status >= 500;
    html! {
        section class="card broken" {
            @if passes {
                h1 { "The results cannot be shown right now" }
                p { "Try again in a moment." }
            } @else {
                h1 { (problem.title) }
                p { (problem.detail) "." }
                p { (problem.next) }
            }
        }
    }
}

/// Middleware that renders an error page for the visitor.
pub(crate) async fn render_for_visitor(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let request_parts = parts.clone();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let Some(ShownProblem(problem)) = response.extensions_mut().remove::<ShownProblem>() else {
        return response;
    };
    let path = request_parts.uri.path();
    let page = if path.starts_with("/console/share/") {
        layout::public(&problem.title, &public_card(&problem))
    } else {
        let sent = request_parts.method != Method::GET;
        let back = referring_page(&request_parts.headers).filter(|from| sent || from != path);
        match load_visitor(&console, &request_parts).await {
            Ok(Some(visitor)) if !path.starts_with("/console/live/") => {
                let main = card(&problem, back.as_deref());
                Page::new(&console, &visitor, &problem.title).show(&main)
            }
            _ => return response,
        }
    };
    let mut rendered = (response.status(), page).into_response();
    if let Some(seconds) = response.headers_mut().remove(header::RETRY_AFTER) {
        rendered.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    rendered
}

/// The response for an unknown path.
pub(crate) async fn no_such_page() -> ErrorPage {
    Error::new(ErrorCode::NotFound, "no such page").into()
}
