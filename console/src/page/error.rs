//! Errors as pages: what was wrong, where, and what to do next.
//!
//! What goes wrong does not know who asked. So an error is first a page for
//! anyone; on the way out it is drawn for whoever it is: with the navigation
//! for somebody who is logged in, without a word about the console for somebody
//! with a link to results.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ballast_domain::error::Problem;
use ballast_domain::registry::StoreError;
use ballast_domain::{Error, ErrorCode};
use ballast_vote_shard::ShardError;
use maud::{Markup, html};

use super::layout::{self, Page};
use crate::console::Console;
use crate::session::{came_from, known};

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

/// What went wrong, for whoever knows who asked.
#[derive(Clone)]
struct Told(Arc<Problem>);

impl IntoResponse for Broken {
    fn into_response(self) -> Response {
        let Self(error) = self;
        if let Some(cause) = error.log_line() {
            tracing::error!(code = error.code().name(), cause, "{error}");
        }
        let mut problem = error.problem();
        let usual = problem.next == error.code().next_step();
        if let Some(next) = for_people(error.code()).filter(|_| usual) {
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
        response.extensions_mut().insert(Told(Arc::new(problem)));
        response
    }
}

/// What to do next, where the words for programs are of no use to somebody who
/// looks at a page.
fn for_people(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::NotFound
        | ErrorCode::TenantNotFound
        | ErrorCode::ShardNotFound
        | ErrorCode::PollNotFound
        | ErrorCode::MigrationNotFound
        | ErrorCode::HotspotNotFound
        | ErrorCode::PlanNotFound => "Look for it in the lists.",
        ErrorCode::InvalidField => "Go back, mend what is named, and send it again.",
        ErrorCode::Changed => {
            "Somebody changed it meanwhile: go back, load the page again, and look before you send it."
        }
        ErrorCode::Unavailable | ErrorCode::ShardDown => "Try again in a moment.",
        _ => return None,
    })
}

fn card(problem: &Problem, back: Option<&str>) -> Markup {
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
                a class="button" href="/console" { "To the fleet" }
                a class="button" href=(problem.kind) { "About this error" }
            }
        }
    }
}

/// What anyone is told who has a link to results: nothing about the house.
fn public_card(problem: &Problem) -> Markup {
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

/// Draws errors for whoever asked.
pub(crate) async fn for_whom(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let asked = parts.clone();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let Some(Told(problem)) = response.extensions_mut().remove::<Told>() else {
        return response;
    };
    let path = asked.uri.path();
    let page = if path.starts_with("/console/share/") {
        layout::public(&problem.title, &public_card(&problem))
    } else {
        let sent = asked.method != Method::GET;
        let back = came_from(&asked.headers).filter(|from| sent || from != path);
        match known(&console, &asked).await {
            Ok(Some(visitor)) if !path.starts_with("/console/live/") => {
                let main = card(&problem, back.as_deref());
                Page::new(&console, &visitor, &problem.title).show(&main)
            }
            _ => return response,
        }
    };
    let mut dressed = (response.status(), page).into_response();
    if let Some(seconds) = response.headers_mut().remove(header::RETRY_AFTER) {
        dressed.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    dressed
}

/// The answer to a path that there is not.
pub(crate) async fn no_such_page() -> Broken {
    Error::new(ErrorCode::NotFound, "there is no such page").into()
}
