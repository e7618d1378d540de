//! The fleet: regions and shards as columns, tenants as blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::fleet::VersionedFleet;
use ballast_control_plane::hotspots::queries;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::registry::typed::Versioned;
use ballast_domain::shard::{Pressure, Shard, ShardState};
use ballast_domain::{RegionId, ShardId, Timestamp};
use maud::{Markup, html};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::column::Column;
use super::{links, machine};
use crate::census::{FleetFigures, Heat, RateSample, ShardFigures, TenantFigure};
use crate::console::Console;
use crate::draw::blocks::heat;
use crate::forecasts::Forecasts;
use crate::live::{LiveUpdate, Source, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::format::{badge, bytes, counted, nothing, number, progress, short};
use crate::page::layout::Page;
use crate::session::Visitor;
use crate::story::Story;

/// Shards shown as columns; the others get one table row each.
const DRAWN: usize = 36;
/// Table rows for the others.
const LISTED: usize = 200;
/// Rows of the table of hottest tenants.
const HOTTEST: usize = 12;
/// Migrations shown.
const MOVES: u32 = 8;
/// Hotspots read.
const HOTSPOTS: u32 = 100;
/// Lines in the chart.
const LINES: usize = 8;

/// Everything the page shows.
struct FleetPage {
    snapshot: Arc<VersionedFleet>,
    figures: Arc<FleetFigures>,
    moves: Vec<MigrationBody>,
    /// Open hotspots by shard.
    hot: BTreeMap<ShardId, String>,
    ahead: Arc<Forecasts>,
    story: Option<Story>,
    may_act: bool,
    now: Timestamp,
}

async fn load_page(console: &Console, may_act: bool) -> Result<FleetPage, ErrorPage> {
    let open = MigrationFilter {
        open: Some(true),
        ..MigrationFilter::default()
    };
    let moves = match console.plane.workflows() {
        Some(_) => migrations::list(&console.plane, &open, None, MOVES).await?,
        None => Vec::new(),
    };
    Ok(FleetPage {
        hot: open_hotspots(console).await?,
        ahead: console.forecasts.newest(console),
        snapshot: console.plane.fleet().snapshot(),
        figures: console.census.newest(),
        moves,
        story: console.story(),
        may_act,
        now: console.plane.now(),
    })
}

/// The open hotspot of each shard.
async fn open_hotspots(console: &Console) -> Result<BTreeMap<ShardId, String>, ErrorPage> {
    let open = queries::list(&console.plane, Some(true), None, None, HOTSPOTS).await?;
    let mut hot = BTreeMap::new();
    for found in open.into_iter().map(|found| found.value) {
        for shard in found.shards {
            hot.insert(shard, found.hotspot_id.clone());
        }
    }
    Ok(hot)
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
) -> Result<Response, ErrorPage> {
    let data = load_page(
        &console,
        visitor.may(ballast_domain::token::AdminRole::Operator),
    )
    .await?;
    let main = html! {
        div class="head" {
            h1 { "Fleet" }
            div class="grow" {}
            (legend(console.plane.load_monitor().is_some()))
        }
        @for (id, part) in data.parts() {
            @if id == "fleet-columns" {
                div id=(id) { (part) }
                div class="grid" {
                    section class="card w7" aria-labelledby="chart-rate" {
                        h2 id="chart-rate" { "Votes per second" }
                        div class="chart" data-chart="rate" {
                            noscript { p class="small muted" { "Charts need JavaScript. The current figures are in the columns above." } }
                        }
                    }
                    section class="card tight w5" aria-labelledby="hottest" {
                        h2 id="hottest" { "Hottest tenants" }
                        div id="fleet-hot" { (data.hottest()) }
                    }
                }
            } @else if id != "fleet-hot" {
                div id=(id) { (part) }
            }
        }
    };
    let page = Page::new(&console, &visitor, "Fleet").with_charts();
    Ok(page.live("/console/live/fleet").show(&main))
}

/// Live updates of the page.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
) -> Result<Response, ErrorPage> {
    let source = FleetSource {
        follow: console.census.follow(),
        console: console.clone(),
        may_act: visitor.may(ballast_domain::token::AdminRole::Operator),
        lines: None,
    };
    stream_updates(&console, ViewerAccess::Session(visitor.session), source)
}

struct FleetSource {
    console: Console,
    follow: watch::Receiver<Arc<FleetFigures>>,
    may_act: bool,
    /// The shards in the chart, once it has been sent.
    lines: Option<Vec<ShardId>>,
}

impl Source for FleetSource {
    async fn next(&mut self) -> Option<Vec<LiveUpdate>> {
        let first = self.lines.is_none();
        if !first {
            self.follow.changed().await.ok()?;
        }
        let data = load_page(&self.console, self.may_act).await.ok()?;
        let figures = data.figures.clone();
        let mut updates = vec![LiveUpdate::Parts(data.parts())];
        match &self.lines {
            Some(lines) => {
                let at = figures.at?;
                let mut row = vec![json!(at.unix_ms() / 1_000)];
                let rate = |id| figures.shards.get(id).map_or(0, |shard| shard.rate);
                row.extend(lines.iter().map(|id| json!(rate(id))));
                updates.push(LiveUpdate::Sample(json!({ "rate": row })));
            }
            None => {
                let lines = lines(&figures);
                updates.push(LiveUpdate::Charts(chart(
                    &lines,
                    &self.console.census.series(),
                )));
                self.lines = Some(lines);
            }
        }
        Some(updates)
    }
}

/// The busiest shards, for the chart.
fn lines(figures: &FleetFigures) -> Vec<ShardId> {
    let mut shards: Vec<_> = figures.shards.iter().collect();
    shards.sort_by_key(|(_, shard)| std::cmp::Reverse(shard.rate));
    let mut lines: Vec<_> = shards
        .into_iter()
        .take(LINES)
        .map(|(id, _)| id.clone())
        .collect();
    lines.sort();
    lines
}

fn chart(lines: &[ShardId], series: &[RateSample]) -> Value {
    let x: Vec<i64> = series.iter().map(|sample| sample.at_ms / 1_000).collect();
    let line = |id| -> Vec<u64> {
        let rate = |sample: &RateSample| sample.rate.get(id).copied().unwrap_or(0);
        series.iter().map(rate).collect()
    };
    let y: Vec<Vec<u64>> = lines.iter().map(line).collect();
    json!({ "rate": { "labels": lines, "x": x, "y": y } })
}

/// The colour legend.
fn legend(measured: bool) -> Markup {
    html! {
        div class="key" {
            span { "Each block is a tenant; its size is its votes in open polls." }
            span { "0" }
            svg viewBox="0 0 168 10" aria-hidden="true" {
                @for step in 0..8 {
                    rect class=(format!("h{step}")) x=(step * 21) width="21" height="10" {}
                }
            }
            span { @if measured { "half of its shard's capacity" } @else { "4,000+ votes/s" } }
        }
    }
}

impl FleetPage {
    fn parts(&self) -> Vec<(&'static str, Markup)> {
        vec![
            (
                "fleet-story",
                self.story
                    .as_ref()
                    .map(|story| story.show(self.now))
                    .unwrap_or_default(),
            ),
            ("fleet-strip", self.strip()),
            ("fleet-moves", self.running_migrations()),
            ("fleet-columns", self.columns()),
            ("fleet-hot", self.hottest()),
        ]
    }

    fn figures(&self, shard: &Shard) -> ShardFigures {
        let known = self.figures.shards.get(&shard.shard_id);
        known.cloned().unwrap_or_default()
    }

    fn shard_heat(&self, shard: &ShardId) -> Option<&Heat> {
        self.figures.shards.get(shard)?.heat.as_ref()
    }

    fn slices(&self, shard: &Shard) -> u64 {
        let view = self.snapshot.fleet.get(&shard.shard_id);
        view.map_or(0, |view| view.slices)
    }

    fn strip(&self) -> Markup {
        let shards = self.snapshot.shards();
        let slices: u64 = shards.iter().map(|shard| self.slices(&shard.value)).sum();
        let votes: u64 = self.figures.shards.values().map(|shard| shard.votes).sum();
        let rate: u64 = self.figures.shards.values().map(|shard| shard.rate).sum();
        let away: Vec<&str> = self
            .figures
            .shards
            .iter()
            .filter(|(_, shard)| shard.trouble.is_some())
            .map(|(id, _)| id.as_str())
            .collect();
        html! {
            dl class="strip" {
                div { dt { "Votes per second" } dd { (number(rate)) } }
                div { dt { "Votes in open polls" } dd {
                    (short(votes))
                    @if !away.is_empty() { " " small { "without " (without(&away)) } }
                } }
                div { dt { "Slices" } dd { (number(slices)) } }
                div { dt { "Shards" } dd {
                    (shards.len())
                    @if !away.is_empty() { " " small { (badge("bad", &format!("{} unreachable", away.len()))) } }
                } }
                div { dt { "Migrations running" } dd { (self.moves.len()) } }
            }
        }
    }

    fn running_migrations(&self) -> Markup {
        html! {
            @if !self.moves.is_empty() {
                section class="card" aria-label="Running migrations" {
                    ul class="moving" {
                        @for body in &self.moves { (migration_line(body)) }
                    }
                }
                br;
            }
        }
    }

    fn columns(&self) -> Markup {
        let mut regions: BTreeMap<&RegionId, Vec<&Versioned<Shard>>> = BTreeMap::new();
        let mut shards: Vec<_> = self.snapshot.shards().iter().collect();
        let weight = |shard: &&Versioned<Shard>| {
            let figures = self.figures.shards.get(&shard.value.shard_id);
            figures.map_or((0, 0), |figures| (figures.rate, figures.votes))
        };
        let mut spare = Vec::new();
        if shards.len() > DRAWN {
            shards.sort_by_key(|shard| std::cmp::Reverse(weight(shard)));
            spare = shards.split_off(DRAWN);
            shards.sort_by(|one, two| one.value.shard_id.cmp(&two.value.shard_id));
        }
        for shard in shards {
            regions.entry(&shard.value.region).or_default().push(shard);
        }
        html! {
            @for (region, shards) in regions {
                section class="region" aria-label=(format!("Region {region}")) {
                    h2 { "Region " (region) }
                    div class="columns" {
                        @for shard in shards { (self.column(&shard.value)) }
                    }
                }
            }
            @if !spare.is_empty() { (self.spare(&spare)) }
            @if self.snapshot.shards().is_empty() {
                div class="card" {
                    (nothing("There are no shards.", &html! {
                        @if self.may_act { a href="/console/shards" { "Add the first one" } "." }
                    }))
                }
            }
        }
    }

    fn column(&self, shard: &Shard) -> Markup {
        Column {
            shard,
            figures: &self.figures(shard),
            slices: self.slices(shard),
            hotspot: self.hot.get(&shard.shard_id).map(String::as_str),
            ahead: self.ahead.shard(&shard.shard_id),
        }
        .show()
    }

    fn spare(&self, spare: &[&Versioned<Shard>]) -> Markup {
        html! {
            section class="card tight" aria-label="Other shards" {
                h2 { (counted(spare.len() as u64, "less busy shard")) }
                div class="scroll" role="region" aria-label="Other shards" tabindex="0" {
                    table {
                        thead { tr {
                            th { "Shard" } th { "Region" } th { "State" }
                            th class="num" { "Votes/s" } th class="num" { "Heat" } th class="num" { "Slices" } th class="num" { "On disk" }
                            th { "Forecast" }
                        } }
                        tbody {
                            @for shard in spare.iter().take(LISTED) {
                                @let figures = self.figures(&shard.value);
                                tr {
                                    td { (links::shard(&shard.value.shard_id)) }
                                    td { (shard.value.region) }
                                    td { (state(&shard.value, figures.trouble.is_some())) }
                                    td class="num" { (number(figures.rate)) }
                                    td class="num" { @match &figures.heat { Some(heat) => { (heat.percent) " %" } None => { "—" } } }
                                    td class="num" { (number(self.slices(&shard.value))) }
                                    td class="num" { (bytes(figures.usage.disk_bytes)) }
                                    td class="small" { @if let Some(full) = self.ahead.shard(&shard.value.shard_id) { (full.words()) } }
                                }
                            }
                        }
                    }
                }
                @if spare.len() > LISTED {
                    p class="pager" { a href="/console/shards" { "All shards" } }
                }
            }
        }
    }

    fn hottest(&self) -> Markup {
        let mut tenants: Vec<(&ShardId, &TenantFigure)> = self
            .figures
            .shards
            .iter()
            .flat_map(|(id, shard)| shard.tenants.iter().map(move |tenant| (id, tenant)))
            .collect();
        // Ties are broken by name, so that rows keep their order between updates.
        tenants.sort_by(|(_, one), (_, two)| {
            (two.rate, two.votes, &one.tenant).cmp(&(one.rate, one.votes, &two.tenant))
        });
        tenants.truncate(HOTTEST);
        html! {
            @if tenants.is_empty() {
                (nothing("No tenant has an open poll.", &html! { "Votes appear here as they arrive." }))
            } @else {
                div class="scroll" role="region" aria-label="Hottest tenants" tabindex="0" {
                    table {
                        thead { tr {
                            th { "Tenant" } th { "Shard" }
                            th class="num" { "Votes/s" } th class="num" { "Votes" }
                        } }
                        tbody {
                            @for (shard, tenant) in tenants {
                                tr {
                                    td { (swatch(tenant.rate, self.shard_heat(shard))) " " (links::tenant(&tenant.tenant)) }
                                    td { (links::shard(shard)) }
                                    td class="num" { (number(tenant.rate)) }
                                    td class="num" { (number(tenant.votes)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The shards missing from the totals.
fn without(away: &[&str]) -> String {
    match away {
        [one] => format!("{one}, which cannot be read"),
        many => format!("{} shards that cannot be read", many.len()),
    }
}

fn swatch(rate: u64, shard: Option<&Heat>) -> Markup {
    html! {
        svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true" {
            rect class=(format!("h{}", heat(rate, shard))) width="10" height="10" rx="2" {}
        }
    }
}

/// Badges for every state other than active and calm. A shard that cannot be
/// read is shown as unreachable, whatever its recorded state.
pub(super) fn state(shard: &Shard, away: bool) -> Markup {
    html! {
        @if away { (badge("bad", "unreachable")) " " }
        @match shard.state {
            ShardState::Active => {}
            ShardState::Draining => { (badge("warn", "draining")) }
            ShardState::Down => { (badge("bad", "down")) }
        }
        @if shard.pressure == Pressure::Busy { " " (badge("warn", "filling up")) }
    }
}

/// A migration as one line.
pub(super) fn migration_line(body: &MigrationBody) -> Markup {
    let moved = &body.migration.value;
    let step_progress = &body.progress;
    let total = step_progress.total.unwrap_or(0);
    let label = format!(
        "{}: {} of {} {}",
        body.phase, step_progress.done, total, step_progress.unit
    );
    html! {
        li {
            span {
                (links::tenant(&moved.tenant_id)) " "
                (links::route(&moved.from, &moved.to))
            }
            span class="small" {
                a href=(format!("/console/moves/{}", moved.migration_id)) { (body.phase) } " "
                (crate::page::format::status(body.status))
                @if let Some(progress_text) = machine::progress_text(body) { " " span class="muted" { (progress_text) } }
            }
            (progress(step_progress.done, total, &label))
        }
    }
}
