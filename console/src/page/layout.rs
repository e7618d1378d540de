//! The layout of every page: head, navigation, and the logged-in operator.

use axum::http::header;
use axum::response::{AppendHeaders, Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::flash::{self, Flash};
use super::form::hidden;
use crate::assets::Asset;
use crate::console::Console;
use crate::session::Visitor;

/// The sections of the navigation: title, path, and the first path segment of their pages.
const SECTIONS: [(&str, &str, &str); 9] = [
    ("Fleet", "/console", "fleet"),
    ("Tenants", "/console/tenants", "tenants"),
    ("Migrations", "/console/moves", "moves"),
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
    /// The path of the stream of live updates.
    pub(crate) live: Option<String>,
    /// Whether the page has charts.
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

    /// Renders the page around its main content.
    pub(crate) fn show(self, main: &Markup) -> Response {
        let page = html! {
            (head(self.title, self.charts))
            body data-live=[self.live.as_deref()] {
                a class="skip" href="#main" { "Skip to content" }
                (self.bar())
                main id="main" tabindex="-1" {
                    @if let Some(flash) = &self.visitor.flash { (flash_message(flash)) }
                    (main)
                }
                div id="tip" class="tip" hidden {}
            }
        };
        let flash_shown = self.visitor.flash.as_ref();
        let forget = flash_shown.and_then(|_| flash::forget(self.console));
        let forget = forget.map(|cookie| AppendHeaders([(header::SET_COOKIE, cookie)]));
        (forget, with_security_headers(page)).into_response()
    }

    fn bar(&self) -> Markup {
        let section = section_of_path(&self.visitor.path);
        let token = &self.visitor.token;
        html! {
            header class="bar" {
                a class="brand" href="/console" {
                    (mark())
                    span { "Ballast" }
                }
                nav aria-label="Console" {
                    ul {
                        @for (name, href, key) in SECTIONS {
                            li {
                                a href=(href) aria-current=[(section == key).then_some("page")] { (name) }
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

/// The flash message of the previous page.
fn flash_message(flash: &Flash) -> Markup {
    html! {
        @match &flash.secret {
            None => { p class="note good" role="status" { (flash.message) } }
            Some(secret) => {
                @let link = secret.starts_with("http");
                section class="card secret" role="status" aria-labelledby="secret-title" {
                    h2 id="secret-title" { @if link { "The link" } @else { "The new key" } ", shown only once" }
                    code id="secret" { (secret) }
                    div class="row" {
                        button type="button" data-copy="secret" { "Copy" }
                        @if link { a class="button" href=(secret) { "Open" } }
                        span class="muted" { (flash.message) }
                    }
                }
                br;
            }
        }
    }
}

/// The navigation section that a path belongs to.
fn section_of_path(path: &str) -> &str {
    let rest = path.trim_start_matches("/console").trim_start_matches('/');
    match rest.split('/').next() {
        None | Some("") => "fleet",
        Some("plans") => "hotspots",
        Some("replay") => "load",
        Some(first) => first,
    }
}

/// A page for a visitor who is not logged in.
pub(crate) fn outside(title: &str, main: &Markup) -> Response {
    with_security_headers(html! {
        (head(title, false))
        body class="outside" {
            header class="bar" {
                a class="brand" href="/console" { (mark()) span { "Ballast" } }
            }
            main id="main" { (main) }
        }
    })
}

/// A public page without links to the console.
pub(crate) fn public(title: &str, main: &Markup) -> Response {
    with_security_headers(html! {
        (head(title, false))
        body class="outside" {
            header class="bar" { span class="brand" { (mark()) span { "Ballast" } } }
            main id="main" { (main) }
        }
    })
}

/// A public page with live updates, for holders of its link.
pub(crate) fn shared(title: &str, live: &str, main: &Markup) -> Response {
    with_security_headers(html! {
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
            // Loaded before the first paint, so that the theme does not flash.
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

/// The content security policy: only our own assets are loaded.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

fn with_security_headers(page: Markup) -> Response {
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
    use super::section_of_path;

    #[test]
    fn paths_map_to_sections() {
        assert_eq!(section_of_path("/console"), "fleet");
        assert_eq!(section_of_path("/console/"), "fleet");
        assert_eq!(section_of_path("/console/tenants/acme"), "tenants");
    }
}
