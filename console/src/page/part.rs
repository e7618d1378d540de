//! Parts of a page that take longer to make: the page is there at once, and
//! they follow. Without scripts each is a page of its own behind a link.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};

use super::layout::Page;

/// A script asks with this header.
const HEADER: &str = "x-part";

/// Whether the part is asked for without a page around it.
pub(crate) struct Alone(bool);

impl<S: Sync> FromRequestParts<S> for Alone {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.headers.contains_key(HEADER)))
    }
}

impl Alone {
    /// The part, by itself or as a page.
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

/// Where a part will be.
pub(crate) fn later(url: &str, words: &str) -> Markup {
    html! {
        div data-part=(url) { p { a href=(url) { (words) } } }
    }
}
