//! What every page has around it: head, navigation, who is looking.

use axum::http::header;
use axum::response::{AppendHeaders, Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::flash::{self, Flash};
use super::form::hidden;
use crate::assets::Asset;
use crate::console::Console;
use crate::session::Visitor;

/// The pages of the navigation: what they are called, where they are, and
/// what their pages' paths begin with.
const ROOMS: [(&str, &str, &str); 9] = [
    ("Fleet", "/console", "fleet"),
    ("Tenants", "/console/tenants", "tenants"),
    ("Moves", "/console/moves", "moves"),
    ("Hotspots", "/console/hotspots", "hotspots"),
    ("Load", "/console/load", "load"),
    ("Shards", "/console/shards", "shards"),
    ("Polls", "/console/polls", "polls"),
    ("Events", "/console/events", "events"),
    ("Settings", "/console/settings", "settings"),
];

/// A page for somebody who is logged in.
pub(crate) struct Page<'a> {
    pub(crate) console: &'a Console,
    pub(crate) visitor: &'a Visitor,
    pub(crate) title: &'a str,
    /// The stream that keeps it up to date.
    pub(crate) live: Option<String>,
    /// Whether it draws charts.
    pub(crate) charts: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(console: &'a Console, visitor: &'a Visitor, title: &'a str) -> Self {
        Self {
            console,
            visitor,
            title,
            live: None,
            charts: false,
        }
    }

    pub(crate) fn live(mut self, stream: impl Into<String>) -> Self {
        self.live = Some(stream.into());
        self
    }

    pub(crate) fn with_charts(mut self) -> Self {
        self.charts = true;
        self
    }

    /// The page around this.
    pub(crate) fn show(self, main: &Markup) -> Response {
        let page = html! {
            (head(self.title, self.charts))
            body data-live=[self.live.as_deref()] {
                a class="skip" href="#main" { "Skip to content" }
                (self.bar())
                main id="main" tabindex="-1" {
                    @if let Some(flash) = &self.visitor.flash { (said(flash)) }
                    (main)
                }
                div id="tip" class="tip" hidden {}
            }
        };
        let said = self.visitor.flash.as_ref();
        let forget = said.and_then(|_| flash::forget(self.console));
        let forget = forget.map(|cookie| AppendHeaders([(header::SET_COOKIE, cookie)]));
        (forget, dressed(page)).into_response()
    }

    fn bar(&self) -> Markup {
        let room = room(&self.visitor.path);
        let token = &self.visitor.token;
        html! {
            header class="bar" {
                a class="brand" href="/console" {
                    (mark())
                    span { "Ballast" }
                }
                nav aria-label="Console" {
                    ul {
                        @for (name, href, key) in ROOMS {
                            li {
                                a href=(href) aria-current=[(room == key).then_some("page")] { (name) }
                            }
                        }
                    }
                }
                div class="who" {
                    span id="pulse" class="pulse" hidden title="Live" { "live" }
                    button type="button" class="quiet" id="theme" hidden { "Theme" }
                    span class="muted whoami" title=(token.name) { bdi { (token.name) } " · " (token.role.name()) }
                    form method="post" action="/console/logout" {
                        (hidden(self.visitor))
                        button type="submit" class="quiet" { "Log out" }
                    }
                }
            }
        }
    }
}

/// What the page before left to be said.
fn said(flash: &Flash) -> Markup {
    html! {
        @match &flash.secret {
            None => { p class="note good" role="status" { (flash.said) } }
            Some(secret) => {
                @let link = secret.starts_with("http");
                section class="card secret" role="status" aria-labelledby="secret-title" {
                    h2 id="secret-title" { @if link { "The link" } @else { "The new key" } ", shown this once" }
                    code id="secret" { (secret) }
                    div class="row" {
                        button type="button" data-copy="secret" { "Copy" }
                        @if link { a class="button" href=(secret) { "Open" } }
                        span class="muted" { (flash.said) }
                    }
                }
                br;
            }
        }
    }
}

/// Which room of the navigation a path belongs to.
fn room(path: &str) -> &str {
    let rest = path.trim_start_matches("/console").trim_start_matches('/');
    match rest.split('/').next() {
        None | Some("") => "fleet",
        Some("plans") => "hotspots",
        Some("replay") => "load",
        Some(first) => first,
    }
}

/// A page for somebody who is not logged in, or for whom nothing is known.
pub(crate) fn outside(title: &str, main: &Markup) -> Response {
    dressed(html! {
        (head(title, false))
        body class="outside" {
            header class="bar" {
                a class="brand" href="/console" { (mark()) span { "Ballast" } }
            }
            main id="main" { (main) }
        }
    })
}

/// A page for anyone, that says nothing of the console.
pub(crate) fn public(title: &str, main: &Markup) -> Response {
    dressed(html! {
        (head(title, false))
        body class="outside" {
            header class="bar" { span class="brand" { (mark()) span { "Ballast" } } }
            main id="main" { (main) }
        }
    })
}

/// A page that anyone with its address may see, live.
pub(crate) fn shared(title: &str, live: &str, main: &Markup) -> Response {
    dressed(html! {
        (head(title, false))
        body class="outside" data-live=(live) {
            header class="bar" {
                span class="brand" { (mark()) span { "Ballast" } }
                div class="who" { span id="pulse" class="pulse" hidden title="Live" { "live" } }
            }
            main id="main" { (main) }
        }
    })
}

fn head(title: &str, charts: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en";
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Ballast" }
            link rel="icon" type="image/svg+xml" href=(Asset::Icon.url());
            link rel="stylesheet" href=(Asset::Style.url());
            // Before anything is painted, so that no theme flashes.
            script src=(Asset::Theme.url()) {}
            @if charts {
                link rel="stylesheet" href=(Asset::ChartsStyle.url());
                script src=(Asset::Charts.url()) defer {}
            }
            script src=(Asset::Script.url()) defer {}
        }
    }
}

fn mark() -> Markup {
    html! {
        svg class="mark" viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" {
            path d="M3 9h18l-2.2 8.2A4 4 0 0 1 15 20H9a4 4 0 0 1-3.8-2.8L3 9Z" fill="none"
                stroke="currentColor" stroke-width="1.8" stroke-linejoin="round" {}
            path d="M12 3v6" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" {}
            rect x="8" y="12" width="3.4" height="4.6" rx=".8" fill="currentColor" {}
            rect x="12.6" y="12" width="3.4" height="4.6" rx=".8" fill="currentColor" opacity=".55" {}
        }
    }
}

/// What a browser may do with a page: load what is ours, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

fn dressed(page: Markup) -> Response {
    let headers = [
        ("content-security-policy", POLICY),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        (
            "permissions-policy",
            "camera=(), geolocation=(), microphone=()",
        ),
    ];
    (headers, Html(page.into_string())).into_response()
}

#[cfg(test)]
mod tests {
    use super::room;

    #[test]
    fn a_page_knows_its_room() {
        assert_eq!(room("/console"), "fleet");
        assert_eq!(room("/console/"), "fleet");
        assert_eq!(room("/console/tenants/acme"), "tenants");
    }
}
