//! A shard: its heat and density, its weight, and its drain. The drain plan is
//! computed only on request, because it takes long with many tenants.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::drains::MigrationOptions;
use ballast_control_plane::drains::drain::{self, DrainState, DrainStatus};
use ballast_control_plane::drains::plan::FleetPlan;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::shards::{self, ShardBody, ShardPatch};
use ballast_domain::shard::ShardState;
use ballast_domain::token::AdminRole;
use ballast_domain::{Result, ShardId, Timestamp};
use maud::{Markup, html};
use tokio::sync::watch;

use super::drain_progress::DrainProgress;
use super::fleet::migration_line;
use super::operator_form::OperatorForm;
use super::{links, shards as list};
use crate::census::{FleetFigures, ShardFigures};
use crate::console::Console;
use crate::draw::blocks::{Size, blocks};
use crate::fields::Fields;
use crate::forecasts::Forecasts;
use crate::live::{LiveUpdate, Source, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::finish::finish_estimate;
use crate::page::flash::redirect_with_message;
use crate::page::form::{self, ActionForm};
use crate::page::format::{badge, bar, bytes, counted, nothing, number, span};
use crate::page::layout::Page;
use crate::session::Visitor;

/// Slices of a plan that are listed.
const NAMED: usize = 25;
/// Migrations shown.
const MOVES: u32 = 20;

/// Everything that changes on the page.
struct ShardPage {
    body: ShardBody,
    figures: ShardFigures,
    drain: DrainState,
    ahead: Arc<Forecasts>,
    leaving: Vec<MigrationBody>,
    emptying: Option<DrainProgress>,
    now: Timestamp,
}

async fn load_page(console: &Console, id: &ShardId) -> Result<ShardPage> {
    let plane = &console.plane;
    let filter = MigrationFilter {
        from: Some(id.clone()),
        open: Some(true),
        ..MigrationFilter::default()
    };
    let drain = drain::drain_state(plane, id).await?;
    Ok(ShardPage {
        emptying: DrainProgress::from_state(&drain),
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
        ahead: console.forecasts.newest(console),
        leaving: migrations::list(plane, &filter, None, MOVES).await?,
    })
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let id: ShardId = links::parse_path_id(&id)?;
    let data = load_page(&console, &id).await?;
    let plan = match params.ticked("plan") {
        true => Some(drain::plan_drain(&console.plane, &id, &MigrationOptions::default()).await?),
        false => None,
    };
    let may = visitor.may(AdminRole::Operator);
    let main = html! {
        p class="crumb" { a href="/console/shards" { "Shards" } }
        div class="head" { h1 { (id) } div id="shard-state" { (data.state()) } }
        div class="grid" {
            section class="card w5" aria-label="Now" { div id="shard-now" { (data.now()) } }
            div class="stack w7" {
                section class="card" aria-labelledby="is" {
                    h2 id="is" { "Configuration" }
                    (about(&data.body))
                    @if may { (change_form(&visitor, &data.body)) }
                }
                section class="card" aria-labelledby="drain" {
                    h2 id="drain" { "Draining" }
                    div id="shard-drain" { (data.drain_status()) }
                    (planned(&data, plan.as_ref()))
                    @if may { (drain_forms(&visitor, &data, console.plane.settings().moves.window_ms)) }
                }
            }
            section class="card tight" aria-labelledby="tenants" {
                h2 id="tenants" { a href=(format!("/console/tenants?shard={id}")) { "Tenants on this shard" } }
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
            dt { "Maximum slices" } dd { (number(shard.max_slices)) }
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
                p { "A shard of weight 2 gets twice as many tenants as one of weight 1. Changing the weight moves no tenant." }
                label for="weight" { "Weight" }
                input id="weight" name="weight" inputmode="decimal" value=(shard.weight);
                label for="slices" { "Maximum slices" }
                input id="slices" name="slices" inputmode="numeric" pattern="[0-9]*" value=(shard.max_slices);
                label for="zones" { "Zones" }
                input id="zones" name="zones" value=(shard.zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
                (form::reason("change"))
                button type="submit" class="primary" { "Change" }
            }
        }
    }
}

fn drain_forms(visitor: &Visitor, data: &ShardPage, window_ms: u64) -> Markup {
    let id = &data.body.shard.value.shard_id;
    let version = Some(data.body.shard.version);
    let action = |verb: &str| format!("/console/shards/{id}/{verb}");
    let draining = data.body.shard.value.state == ShardState::Draining;
    html! {
        br;
        div class="verbs" {
            @if !draining || data.drain.status == DrainStatus::Idle {
                (ActionForm { label: "Drain", action: &action("drain"), version: None, grave: true,
                    description: "The shard accepts no new tenants, and its tenants move away a few at a time while voting continues. It keeps a copy of each until the tenant's migration window ends." }
                    .show(visitor, &html! {
                        label for="concurrency" { "Concurrent migrations (default: as configured)" }
                        input id="concurrency" name="concurrency" inputmode="numeric" pattern="[0-9]*";
                        label for="window" { "Migration window in seconds (default: " (span(window_ms)) ")" }
                        input id="window" name="window" inputmode="numeric" pattern="[0-9]*" placeholder=(window_ms / 1_000);
                        (form::synchronous_window())
                    }))
            }
            @if draining {
                (ActionForm { label: "Cancel drain", action: &action("keep"), version: None, grave: false,
                    description: "The shard accepts tenants again, and no further migrations start. Running migrations continue." }
                    .show(visitor, &html! {}))
            }
            @if data.drain.status == DrainStatus::Empty {
                (ActionForm { label: "Remove", action: &action("remove"), version, grave: true,
                    description: "The shard is removed from the fleet. Its directory stays on disk." }
                    .show(visitor, &html! {}))
            }
        }
    }
}

impl ShardPage {
    fn parts(&self) -> Vec<(&'static str, Markup)> {
        vec![
            ("shard-state", self.state()),
            ("shard-now", self.now()),
            ("shard-drain", self.drain_status()),
        ]
    }

    fn state(&self) -> Markup {
        list::state(&self.body, self.figures.trouble.is_some())
    }

    fn now(&self) -> Markup {
        let shard = &self.body.shard.value;
        let usage = &self.figures.usage;
        // No figures are known of a shard that cannot be read.
        if let Some(trouble) = &self.figures.trouble {
            return html! {
                p class="note bad" { "Cannot be read: " (trouble) }
                p class="small muted" { "It holds " (number(self.body.slices)) " of " (number(shard.max_slices))
                    " slices. Their polls accept no votes until it is back." }
            };
        }
        html! {
            dl class="strip" {
                div { dt { "Votes per second" } dd { (number(self.figures.rate)) } }
                div { dt { "Heat" } dd { @match &self.figures.heat { Some(heat) => { (heat.percent) " %" } None => { "—" } } } }
                div { dt { "Slices" } dd { (number(self.body.slices)) } }
                div { dt { "Polls" } dd { (number(usage.polls)) @if usage.polls_archived > 0 { " " small { (number(usage.polls_archived)) " archived" } } } }
                div { dt { "On disk" } dd { (bytes(usage.disk_bytes)) } }
                div { dt { "Commit latency" } dd { @match usage.commit_micros {
                    Some(micros) => { (format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100)) }
                    None => { "—" }
                } } }
            }
            (blocks(shard.shard_id.as_str(), &self.figures, Size::Large))
            br;
            (bar(self.body.slices, shard.max_slices, "Density"))
            p class="small muted" { (number(self.body.slices)) " of " (number(shard.max_slices)) " slices · "
                (number(usage.voters_in_memory)) " of " (number(usage.voters_in_memory_max)) " voters in memory" }
            @if let Some(full) = self.ahead.shard(&shard.shard_id) { p class="small muted" { (full.words()) } }
        }
    }

    fn drain_status(&self) -> Markup {
        html! {
            p {
                @match self.drain.status {
                    DrainStatus::No => { (badge("calm", "not draining")) }
                    DrainStatus::Running => { (badge("info", "draining")) }
                    DrainStatus::Stopping => { (badge("warn", "cancelled; running migrations continue")) }
                    DrainStatus::Idle => { (badge("warn", "accepts no new tenants, but no drain is running")) }
                    DrainStatus::Empty => { (badge("good", "empty")) }
                }
                " Slices: " (number(self.drain.slices_left)) " left, " (number(self.drain.leaving)) " moving"
            }
            @if let Some(emptying) = &self.emptying { (emptying.show(self.now)) }
            @if !self.leaving.is_empty() {
                ul class="moving" { @for body in &self.leaving { (migration_line(body)) } }
            }
            @if self.drain.slices_left == 0 {
                (nothing("This shard holds no tenants.", &html! { "It can be drained and removed immediately." }))
            }
        }
    }
}

/// The drain plan, or the link that computes it.
fn planned(data: &ShardPage, plan: Option<&FleetPlan>) -> Markup {
    let id = &data.body.shard.value.shard_id;
    let title = match data.drain.status {
        DrainStatus::Running => "Remaining drain plan",
        _ => "Show the drain plan",
    };
    html! {
        @match plan {
            Some(plan) => { h3 id="plan" { (title) } (plan_moves(plan, data.now)) }
            None if data.drain.slices_left > 0 => {
                p { a href=(format!("/console/shards/{id}?plan=yes#plan")) { (title) } }
            }
            None => {}
        }
    }
}

fn plan_moves(plan: &FleetPlan, now: Timestamp) -> Markup {
    html! {
        @if plan.moves_total + plan.stuck_total == 0 { p class="small muted" { "No tenant would move." } }
        @else {
            p class="small" {
                (counted(plan.moves_total, "migration")) " of about " (counted(plan.price.rows, "row")) ", " (bytes(plan.price.bytes))
                @if plan.stuck_total > 0 { "; " strong { (counted(plan.stuck_total, "tenant")) " without a possible target" } }
            }
            (finish_estimate(&plan.finish, now))
            ul class="small" {
                @for slice in plan.slices.iter().take(NAMED) {
                    li {
                        (links::tenant(&slice.tenant_id)) " "
                        @match (&slice.to, &slice.stays) {
                            (Some(to), _) => { "→ " (links::shard(to)) }
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
pub(super) async fn change(
    OperatorForm { console, id, act }: OperatorForm<ShardId>,
) -> Result<Response, ErrorPage> {
    let patch = ShardPatch {
        weight: act.fields.optional("weight")?,
        max_slices: act.fields.optional("slices")?,
        zones: Some(act.fields.words("zones")?),
        state: None,
    };
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    shards::update(&console.plane, &intent, &id, &if_match, &patch).await?;
    let to = format!("/console/shards/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("{id} was changed."),
    ))
}

/// Starts draining the shard.
pub(super) async fn drain(
    OperatorForm { console, id, act }: OperatorForm<ShardId>,
) -> Result<Response, ErrorPage> {
    let window: Option<u64> = act.fields.optional("window")?;
    let manner = MigrationOptions {
        concurrency: act.fields.optional("concurrency")?,
        window_ms: window.map(|seconds| seconds.saturating_mul(1_000)),
        sync: act.fields.ticked("sync"),
        now: false,
    };
    drain::begin(&console.plane, &act.intent()?, &id, &manner).await?;
    let to = format!("/console/shards/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("{id} is draining."),
    ))
}

/// Cancels the drain.
pub(super) async fn cancel_drain(
    OperatorForm { console, id, act }: OperatorForm<ShardId>,
) -> Result<Response, ErrorPage> {
    drain::cancel(&console.plane, &act.intent()?, &id).await?;
    let to = format!("/console/shards/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("The drain is cancelled: {id} accepts tenants again."),
    ))
}

/// Removes the shard from the fleet.
pub(super) async fn remove(
    OperatorForm { console, id, act }: OperatorForm<ShardId>,
) -> Result<Response, ErrorPage> {
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    shards::remove(&console.plane, &intent, &id, &if_match).await?;
    Ok(redirect_with_message(
        &console,
        "/console/shards",
        format!("{id} is removed from the fleet."),
    ))
}

/// Live updates of the page.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let source = ShardSource {
        id: links::parse_path_id(&id)?,
        follow: console.census.follow(),
        console: console.clone(),
    };
    stream_updates(&console, ViewerAccess::Session(visitor.session), source)
}

struct ShardSource {
    console: Console,
    id: ShardId,
    follow: watch::Receiver<Arc<FleetFigures>>,
}

impl Source for ShardSource {
    async fn next(&mut self) -> Option<Vec<LiveUpdate>> {
        self.follow.changed().await.ok()?;
        let data = load_page(&self.console, &self.id).await.ok()?;
        Some(vec![LiveUpdate::Parts(data.parts())])
    }
}
