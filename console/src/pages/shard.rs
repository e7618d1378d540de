//! A shard: how full and how hot it is, its weight, and its emptying. What
//! would go where is worked out for whoever asks: with very many slices that
//! takes long.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::drains::Manner;
use ballast_control_plane::drains::drain::{self, DrainStatus, Standing};
use ballast_control_plane::drains::plan::FleetPlan;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::shards::{self, ShardBody, ShardPatch};
use ballast_domain::shard::ShardState;
use ballast_domain::token::Role;
use ballast_domain::{Result, ShardId, Timestamp};
use maud::{Markup, html};
use tokio::sync::watch;

use super::deed::Deed;
use super::emptying::{self, Emptying};
use super::fleet::moving;
use super::{names, shards as list};
use crate::ahead::Foreseen;
use crate::census::{Fleet, ShardFigures};
use crate::console::Console;
use crate::draw::blocks::{Size, blocks};
use crate::fields::Fields;
use crate::live::{Right, Source, Told, streamed};
use crate::page::error::Broken;
use crate::page::flash::done;
use crate::page::form::{self, Verb};
use crate::page::layout::Page;
use crate::page::words::{badge, bar, bytes, nothing, number, span};
use crate::session::Visitor;

/// Slices of a plan that are named.
const NAMED: usize = 25;
/// Moves that are shown.
const MOVES: u32 = 20;

/// All that changes on the page.
struct Seen {
    body: ShardBody,
    figures: ShardFigures,
    drain: Standing,
    ahead: Arc<Foreseen>,
    leaving: Vec<MigrationBody>,
    emptying: Option<Emptying>,
    now: Timestamp,
}

async fn seen(console: &Console, id: &ShardId) -> Result<Seen> {
    let plane = &console.plane;
    let filter = MigrationFilter {
        from: Some(id.clone()),
        open: Some(true),
        ..MigrationFilter::default()
    };
    let drain = drain::standing(plane, id).await?;
    Ok(Seen {
        emptying: emptying::look(plane, id, &drain).await?,
        now: plane.now(),
        body: shards::get(plane, id).await?,
        figures: console
            .census
            .newest()
            .shards
            .get(id)
            .cloned()
            .unwrap_or_default(),
        drain,
        ahead: console.ahead.look(console),
        leaving: migrations::list(plane, &filter, None, MOVES).await?,
    })
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    asked: Fields,
) -> Result<Response, Broken> {
    let id: ShardId = names::named(&id)?;
    let seen = seen(&console, &id).await?;
    let plan = match asked.ticked("plan") {
        true => Some(drain::planned(&console.plane, &id).await?),
        false => None,
    };
    let may = visitor.may(Role::Operator);
    let main = html! {
        p class="crumb" { a href="/console/shards" { "Shards" } }
        div class="head" { h1 { (id) } div id="shard-state" { (seen.state()) } }
        div class="grid" {
            section class="card w5" aria-label="Now" { div id="shard-now" { (seen.now()) } }
            div class="stack w7" {
                section class="card" aria-labelledby="is" {
                    h2 id="is" { "What it is" }
                    (about(&seen.body))
                    @if may { (change_form(&visitor, &seen.body)) }
                }
                section class="card" aria-labelledby="drain" {
                    h2 id="drain" { "Emptying it" }
                    div id="shard-drain" { (seen.drained()) }
                    (planned(&seen, plan.as_ref()))
                    @if may { (drain_forms(&visitor, &seen, console.plane.settings().moves.window_ms)) }
                }
            }
            section class="card tight" aria-labelledby="tenants" {
                h2 id="tenants" { a href=(format!("/console/tenants?shard={id}")) { "Tenants on it" } }
            }
        }
    };
    let page = Page::new(&console, &visitor, id.as_str());
    Ok(page.live(format!("/console/live/shards/{id}")).show(&main))
}

fn about(body: &ShardBody) -> Markup {
    let shard = &body.shard.value;
    html! {
        dl class="kv" {
            dt { "Region" } dd { (shard.region) }
            @if !shard.zones.is_empty() {
                dt { "Zones" } dd { (shard.zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) }
            }
            dt { "URL" } dd { code { (shard.url) } }
            dt { "Weight" } dd { (shard.weight) }
            dt { "Slices at the most" } dd { (number(shard.max_slices)) }
        }
    }
}

fn change_form(visitor: &Visitor, body: &ShardBody) -> Markup {
    let shard = &body.shard.value;
    html! {
        br;
        details class="verb" {
            summary class="button" { "Change…" }
            form method="post" action=(format!("/console/shards/{}", shard.shard_id)) {
                (form::hidden(visitor))
                (form::version(body.shard.version))
                p { "A shard of weight 2 gets twice the tenants of one of weight 1. Nobody moves by this alone." }
                label for="weight" { "Weight" }
                input id="weight" name="weight" inputmode="decimal" value=(shard.weight);
                label for="slices" { "Slices at the most" }
                input id="slices" name="slices" inputmode="numeric" pattern="[0-9]*" value=(shard.max_slices);
                label for="zones" { "Zones" }
                input id="zones" name="zones" value=(shard.zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
                (form::reason("change"))
                button type="submit" class="primary" { "Change" }
            }
        }
    }
}

fn drain_forms(visitor: &Visitor, seen: &Seen, window_ms: u64) -> Markup {
    let id = &seen.body.shard.value.shard_id;
    let version = Some(seen.body.shard.version);
    let action = |verb: &str| format!("/console/shards/{id}/{verb}");
    let draining = seen.body.shard.value.state == ShardState::Draining;
    html! {
        br;
        div class="verbs" {
            @if !draining || seen.drain.status == DrainStatus::Idle {
                (Verb { label: "Drain", action: &action("drain"), version: None, grave: true,
                    tells: "It takes nothing new, and its slices move away a few at a time, while votes go on. It keeps a copy of each for the window." }
                    .show(visitor, &html! {
                        label for="concurrency" { "Moves at a time; as configured when empty" }
                        input id="concurrency" name="concurrency" inputmode="numeric" pattern="[0-9]*";
                        label for="window" { "Keep both sides for, in seconds; " (span(window_ms)) " when empty" }
                        input id="window" name="window" inputmode="numeric" pattern="[0-9]*" placeholder=(window_ms / 1_000);
                        (form::both_acknowledge())
                    }))
            }
            @if draining {
                (Verb { label: "Keep it", action: &action("keep"), version: None, grave: false,
                    tells: "It takes slices again, and no further moves begin. Those under way go on." }
                    .show(visitor, &html! {}))
            }
            @if seen.drain.status == DrainStatus::Empty {
                (Verb { label: "Remove", action: &action("remove"), version, grave: true,
                    tells: "It leaves the fleet. Its directory stays on disk." }
                    .show(visitor, &html! {}))
            }
        }
    }
}

impl Seen {
    fn parts(&self) -> Vec<(&'static str, Markup)> {
        vec![
            ("shard-state", self.state()),
            ("shard-now", self.now()),
            ("shard-drain", self.drained()),
        ]
    }

    fn state(&self) -> Markup {
        list::state(&self.body, self.figures.trouble.is_some())
    }

    fn now(&self) -> Markup {
        let shard = &self.body.shard.value;
        let usage = &self.figures.usage;
        // Of what cannot be looked at no figure is shown.
        if let Some(trouble) = &self.figures.trouble {
            return html! {
                p class="note bad" { "It cannot be read: " (trouble) }
                p class="small muted" { "It owns " (number(self.body.slices)) " of " (number(shard.max_slices))
                    " slices. Their polls take no votes until it is back." }
            };
        }
        html! {
            dl class="strip" {
                div { dt { "Votes per second" } dd { (number(self.figures.rate)) } }
                div { dt { "Heat" } dd { @match &self.figures.heat { Some(heat) => { (heat.percent) " %" } None => { "—" } } } }
                div { dt { "Slices" } dd { (number(self.body.slices)) } }
                div { dt { "Polls" } dd { (number(usage.polls)) @if usage.polls_archived > 0 { " " small { (number(usage.polls_archived)) " in files" } } } }
                div { dt { "On disk" } dd { (bytes(usage.disk_bytes)) } }
                div { dt { "Commit" } dd { @match usage.commit_micros {
                    Some(micros) => { (format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100)) }
                    None => { "—" }
                } } }
            }
            (blocks(shard.shard_id.as_str(), &self.figures, Size::Large))
            br;
            (bar(self.body.slices, shard.max_slices, "Density"))
            p class="small muted" { (number(self.body.slices)) " of " (number(shard.max_slices)) " slices · "
                (number(usage.voters_in_memory)) " of " (number(usage.voters_in_memory_max)) " voters in memory" }
            @if let Some(full) = self.ahead.of(&shard.shard_id) { p class="small muted" { (full.words()) } }
        }
    }

    fn drained(&self) -> Markup {
        html! {
            p {
                @match self.drain.status {
                    DrainStatus::No => { (badge("calm", "not being emptied")) }
                    DrainStatus::Running => { (badge("info", "being emptied")) }
                    DrainStatus::Stopping => { (badge("warn", "called off; moves under way go on")) }
                    DrainStatus::Idle => { (badge("warn", "takes nothing new, but nobody moves its slices away")) }
                    DrainStatus::Empty => { (badge("good", "empty")) }
                }
                " Slices: " (number(self.drain.slices_left)) " left, " (number(self.drain.leaving)) " leaving"
            }
            @if let Some(emptying) = &self.emptying { (emptying.show(self.now)) }
            @if !self.leaving.is_empty() {
                ul class="moving" { @for body in &self.leaving { (moving(body)) } }
            }
            @if self.drain.slices_left == 0 {
                (nothing("It holds nothing.", &html! { "It can be drained and removed at once." }))
            }
        }
    }
}

/// What emptying it would do: for whoever asks.
fn planned(seen: &Seen, plan: Option<&FleetPlan>) -> Markup {
    let id = &seen.body.shard.value.shard_id;
    let title = match seen.drain.status {
        DrainStatus::Running => "What is still to go",
        _ => "What emptying it would do",
    };
    html! {
        @match plan {
            Some(plan) => { h3 id="plan" { (title) } (moves_of(plan)) }
            None if seen.drain.slices_left > 0 => {
                p { a href=(format!("/console/shards/{id}?plan=yes#plan")) { (title) } }
            }
            None => {}
        }
    }
}

fn moves_of(plan: &FleetPlan) -> Markup {
    html! {
        @if plan.moves_total + plan.stuck_total == 0 { p class="small muted" { "Nothing would move." } }
        @else {
            p class="small" {
                (number(plan.moves_total)) " moves of about " (number(plan.price.rows)) " rows, " (bytes(plan.price.bytes))
                ", " (span(plan.price.duration_ms)) " of copying"
                @if plan.stuck_total > 0 { "; " strong { (number(plan.stuck_total)) " slices have nowhere to go" } }
            }
            ul class="small" {
                @for slice in plan.slices.iter().take(NAMED) {
                    li {
                        (names::tenant(&slice.tenant_id)) " "
                        @match (&slice.to, &slice.stays) {
                            (Some(to), _) => { "→ " (names::shard(to)) }
                            (None, Some(why)) => { "stays: " (why) }
                            (None, None) => { "stays" }
                        }
                    }
                }
                @if plan.slices.len() > NAMED || plan.more { li { "and more" } }
            }
        }
    }
}

/// Changes weight, density or zones.
pub(super) async fn change(Deed { console, id, act }: Deed<ShardId>) -> Result<Response, Broken> {
    let patch = ShardPatch {
        weight: act.fields.optional("weight")?,
        max_slices: act.fields.optional("slices")?,
        zones: Some(act.fields.words("zones")?),
        state: None,
    };
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    shards::update(&console.plane, &intent, &id, &if_match, &patch).await?;
    let to = format!("/console/shards/{id}");
    Ok(done(&console, &to, format!("{id} was changed.")))
}

/// Has it emptied.
pub(super) async fn drain(Deed { console, id, act }: Deed<ShardId>) -> Result<Response, Broken> {
    let window: Option<u64> = act.fields.optional("window")?;
    let manner = Manner {
        concurrency: act.fields.optional("concurrency")?,
        window_ms: window.map(|seconds| seconds.saturating_mul(1_000)),
        sync: act.fields.ticked("sync"),
    };
    drain::begin(&console.plane, &act.intent()?, &id, &manner).await?;
    let to = format!("/console/shards/{id}");
    Ok(done(&console, &to, format!("{id} is being emptied.")))
}

/// Calls the emptying off.
pub(super) async fn keep(Deed { console, id, act }: Deed<ShardId>) -> Result<Response, Broken> {
    drain::cancel(&console.plane, &act.intent()?, &id).await?;
    let to = format!("/console/shards/{id}");
    Ok(done(&console, &to, format!("{id} takes slices again.")))
}

/// Takes it out of the fleet.
pub(super) async fn remove(Deed { console, id, act }: Deed<ShardId>) -> Result<Response, Broken> {
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    shards::remove(&console.plane, &intent, &id, &if_match).await?;
    Ok(done(
        &console,
        "/console/shards",
        format!("{id} has left the fleet."),
    ))
}

/// The page as it changes.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    let source = Live {
        id: names::named(&id)?,
        follow: console.census.follow(),
        console: console.clone(),
    };
    streamed(&console, Right::Session(visitor.session), source)
}

struct Live {
    console: Console,
    id: ShardId,
    follow: watch::Receiver<Arc<Fleet>>,
}

impl Source for Live {
    async fn next(&mut self) -> Option<Vec<Told>> {
        self.follow.changed().await.ok()?;
        let seen = seen(&self.console, &self.id).await.ok()?;
        Some(vec![Told::Parts(seen.parts())])
    }
}
