//! The shard list, and adding a shard.

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::shards::{self, NewShard, ShardBody};
use ballast_domain::Result;
use ballast_domain::token::AdminRole;
use maud::{Markup, html};

use super::{fleet, links};
use crate::console::Console;
use crate::form_submission::FormSubmission;
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form;
use crate::page::format::{badge, bar, bytes, nothing, number};
use crate::page::layout::Page;
use crate::session::Visitor;

/// Shards on the page.
const SHOWN: usize = 2_000;

/// The page.
pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
) -> Result<Response, ErrorPage> {
    let all = shards::list(&console.plane).await?;
    let main = html! {
        div class="head" { h1 { "Shards" } span class="muted" { (number(all.len() as u64)) } }
        @if visitor.may(AdminRole::Operator) { (new(&visitor)) }
        section class="card tight" { (table(&console, &all)) }
    };
    Ok(Page::new(&console, &visitor, "Shards").show(&main))
}

fn table(console: &Console, all: &[ShardBody]) -> Markup {
    if all.is_empty() {
        return nothing(
            "There are no shards.",
            &html! { "Tenants cannot be placed without a shard." },
        );
    }
    let figures = console.census.newest();
    html! {
        div class="scroll" role="region" aria-label="Shards" tabindex="0" {
            table {
                thead { tr {
                    th { "Shard" } th { "Region" } th { "Zones" } th { "State" } th class="num" { "Weight" }
                    th { "Density" } th class="num" { "Slices" } th class="num" { "Votes/s" }
                    th class="num" { "Commit latency" } th class="num" { "On disk" }
                } }
                tbody {
                    @for body in all.iter().take(SHOWN) {
                        @let shard = &body.shard.value;
                        @let readings = figures.shards.get(&shard.shard_id);
                        tr {
                            td { (links::shard(&shard.shard_id)) }
                            td { (shard.region) }
                            td { (shard.zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) }
                            td {
                                @let trouble = readings.and_then(|readings| readings.trouble.as_ref());
                                (state(body, trouble.is_some()))
                                @if let Some(trouble) = trouble {
                                    " " span class="small muted" { (trouble) }
                                }
                            }
                            td class="num" { (shard.weight) }
                            td { (bar(body.slices, shard.max_slices, &format!("{} of {} slices", body.slices, shard.max_slices))) }
                            td class="num" { (number(body.slices)) " / " (number(shard.max_slices)) }
                            td class="num" { (number(readings.map_or(0, |readings| readings.rate))) }
                            td class="num" { @match readings.and_then(|readings| readings.usage.commit_micros) {
                                Some(micros) => { (format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100)) }
                                None => { "—" }
                            } }
                            td class="num" { (bytes(readings.map_or(0, |readings| readings.usage.disk_bytes))) }
                        }
                    }
                }
            }
        }
        @if all.len() > SHOWN { p class="pager muted" { "and " (all.len() - SHOWN) " more" } }
    }
}

pub(super) fn state(body: &ShardBody, away: bool) -> Markup {
    use ballast_domain::shard::{Pressure, ShardState};
    let shard = &body.shard.value;
    html! {
        @if shard.state == ShardState::Active && shard.pressure == Pressure::Calm && !away { (badge("good", "active")) }
        @else { (fleet::state(shard, away)) }
    }
}

fn new(visitor: &Visitor) -> Markup {
    html! {
        details class="verb card" {
            summary class="button" { "Add a shard…" }
            form method="post" action="/console/shards" {
                (form::hidden(visitor))
                p { "No tenant moves automatically: tenants that placement prefers here stay until they are migrated." }
                label for="shard-id" { "ID" }
                input id="shard-id" name="id" required maxlength="64" spellcheck="false" autocapitalize="none";
                label for="shard-region" { "Region (default: the fleet's default)" }
                input id="shard-region" name="region" maxlength="64";
                label for="shard-zones" { "Zones, separated by blanks" }
                input id="shard-zones" name="zones" maxlength="500";
                label for="shard-weight" { "Weight" }
                input id="shard-weight" name="weight" inputmode="decimal" placeholder="1";
                label for="shard-slices" { "Maximum tenants" }
                input id="shard-slices" name="slices" inputmode="numeric" pattern="[0-9]*";
                label for="shard-url" { "URL (default: a new local directory)" }
                input id="shard-url" name="url" maxlength="500" placeholder="file:shards/shard-7";
                (form::reason("shard"))
                button type="submit" class="primary" { "Add" }
            }
        }
        br;
    }
}

/// Adds a shard.
pub(super) async fn add(
    State(console): State<Console>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    act.visitor.at_least(AdminRole::Operator)?;
    let new = NewShard {
        shard_id: act.fields.required("id")?,
        url: act.fields.filled("url").map(str::to_owned),
        region: act.fields.optional("region")?,
        zones: act.fields.words("zones")?,
        weight: act.fields.optional("weight")?,
        max_slices: act.fields.optional("slices")?,
    };
    let made = shards::add(&console.plane, &act.intent()?, &new).await?;
    let id = &made.shard.value.shard_id;
    let to = format!("/console/shards/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("Shard {id} was added."),
    ))
}
