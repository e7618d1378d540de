//! Slow page parts: the page is shown at once and a script loads them. Without
//! scripts each is a page of its own behind a link.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};

use super::layout::Page;

/// The script sends this header.
const HEADER: &str = "x-part";

/// Whether the request is for the part alone, without a page around it.
pub(crate) struct PartOnly(bool);

impl<S: Sync> FromRequestParts<S> for PartOnly {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.headers.contains_key(HEADER)))
    }
}

impl PartOnly {
    /// Responds with the part, alone or as a page.
    pub(crate) fn show(&self, page: Page<'_>, crumb: &Markup, part: &Markup) -> Response {
        if self.0 {
            return Html(part.clone().into_string()).into_response();
        }
        let title = page.title.to_owned();
        page.show(&html! {
            p class="crumb" { (crumb) }
            div class="head" { h1 { (title) } }
            section class="card" { (part) }
        })
    }
}

/// The placeholder of a part.
pub(crate) fn later(url: &str, words: &str) -> Markup {
    html! {
        div data-part=(url) { p { a href=(url) { (words) } } }
    }
}
