//! The settings in effect; checking a configuration file; reloading the configuration.

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::reloads;
use ballast_domain::Result;
use ballast_domain::token::AdminRole;
use maud::{Markup, html};

use crate::console::Console;
use crate::form_submission::FormSubmission;
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form::{ActionForm, hidden};
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
                    h2 id="now" { "Settings in effect" }
                    div class="grow" {}
                    @if visitor.may(AdminRole::Admin) {
                        (ActionForm { label: "Reload", action: "/console/settings/reload", version: None, grave: false,
                            description: "Reloads the configuration file. An invalid file changes nothing." }
                            .show(visitor, &html! {}))
                    }
                }
                pre tabindex="0" role="region" aria-label="Settings in effect" { (text) }
            }
            section class="card w6" aria-labelledby="try" {
                h2 id="try" { "Check a configuration" }
                form method="post" action="/console/settings/check" {
                    (hidden(visitor))
                    label for="text" { "Text of a ballast.toml. It is only checked, not applied" }
                    textarea id="text" name="text" spellcheck="false" { (tried.unwrap_or(&text)) }
                    div class="row" { button type="submit" { "Check" } }
                }
            }
        }
    };
    Page::new(console, visitor, "Settings").show(&main)
}

/// Checks the text of a configuration file.
pub(super) async fn check(
    State(console): State<Console>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    let text = act.fields.text("text").unwrap_or_default();
    let verdict = match console.running.problem_with(text) {
        None => html! { p class="note good" role="status" { "This configuration is valid." } },
        Some(problem) => html! { p class="note bad" role="alert" { (problem) } },
    };
    Ok(page(&console, &act.visitor, Some(text), &verdict))
}

/// Reloads the configuration.
pub(super) async fn reload(
    State(console): State<Console>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    act.visitor.at_least(AdminRole::Admin)?;
    let intent = act.intent()?;
    match console.running.reload() {
        Ok(later) => {
            reloads::record_reload(&console.plane, &intent, console.running.value()).await?;
            let message = match later.as_slice() {
                [] => "The settings were reloaded.".to_owned(),
                some => format!(
                    "The settings were reloaded; changes in {} take effect at the next start.",
                    some.join(", ")
                ),
            };
            Ok(redirect_with_message(
                &console,
                "/console/settings",
                message,
            ))
        }
        Err(problem) => {
            let verdict = html! {
                p class="note bad" role="alert" { "Nothing was changed: " (problem) }
            };
            Ok(page(&console, &act.visitor, None, &verdict))
        }
    }
}
