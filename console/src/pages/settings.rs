//! The settings in force; a configuration file tried; the configuration read
//! again.

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::reloads;
use ballast_domain::Result;
use ballast_domain::token::Role;
use maud::{Markup, html};

use crate::act::Act;
use crate::console::Console;
use crate::page::error::Broken;
use crate::page::flash::done;
use crate::page::form::{Verb, hidden};
use crate::page::layout::Page;
use crate::session::Visitor;

/// The page.
pub(super) async fn show(State(console): State<Console>, visitor: Visitor) -> Response {
    page(&console, &visitor, None, &html! {})
}

fn page(console: &Console, visitor: &Visitor, tried: Option<&str>, verdict: &Markup) -> Response {
    let text = console.running.text();
    let main = html! {
        div class="head" { h1 { "Settings" } }
        (verdict)
        div class="grid" {
            section class="card w6" aria-labelledby="now" {
                div class="head" {
                    h2 id="now" { "In force" }
                    div class="grow" {}
                    @if visitor.may(Role::Admin) {
                        (Verb { label: "Reload", action: "/console/settings/reload", version: None, grave: false,
                            tells: "Reads the configuration file again. One that is not valid changes nothing." }
                            .show(visitor, &html! {}))
                    }
                }
                pre tabindex="0" role="region" aria-label="Settings in force" { (text) }
            }
            section class="card w6" aria-labelledby="try" {
                h2 id="try" { "Try a configuration" }
                form method="post" action="/console/settings/check" {
                    (hidden(visitor))
                    label for="text" { "The text of a ballast.toml. It is only checked, and changes nothing" }
                    textarea id="text" name="text" spellcheck="false" { (tried.unwrap_or(&text)) }
                    div class="row" { button type="submit" { "Check" } }
                }
            }
        }
    };
    Page::new(console, visitor, "Settings").show(&main)
}

/// Checks the text of a configuration file.
pub(super) async fn check(State(console): State<Console>, act: Act) -> Result<Response, Broken> {
    let text = act.fields.text("text").unwrap_or_default();
    let verdict = match console.running.problem_with(text) {
        None => html! { p class="note good" role="status" { "This configuration would do." } },
        Some(problem) => html! { p class="note bad" role="alert" { (problem) } },
    };
    Ok(page(&console, &act.visitor, Some(text), &verdict))
}

/// Reads the configuration again.
pub(super) async fn reload(State(console): State<Console>, act: Act) -> Result<Response, Broken> {
    act.visitor.at_least(Role::Admin)?;
    let intent = act.intent()?;
    match console.running.reload() {
        Ok(later) => {
            reloads::note(&console.plane, &intent, console.running.value()).await?;
            let said = match later.as_slice() {
                [] => "The settings were read again.".to_owned(),
                some => format!(
                    "The settings were read again; what changed in {} takes effect at the next start.",
                    some.join(", ")
                ),
            };
            Ok(done(&console, "/console/settings", said))
        }
        Err(problem) => {
            let verdict = html! {
                p class="note bad" role="alert" { "Nothing was changed: " (problem) }
            };
            Ok(page(&console, &act.visitor, None, &verdict))
        }
    }
}
