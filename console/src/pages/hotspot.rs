//! A hotspot: its rules and evidence, the diagnosis and the cure.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::hotspots::queries;
use ballast_control_plane::hotspots::records::HotspotRecord;
use ballast_control_plane::load::current::LoadFilter;
use ballast_control_plane::load::history::{self, LoadHistoryBody, TimeRange};
use ballast_domain::{Result, Timestamp};
use maud::{Markup, html};

use super::load::chart;
use super::{hotspots, links};
use crate::console::Console;
use crate::live::{PageParts, PeriodicSource, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::format::moment;
use crate::page::layout::Page;
use crate::session::Visitor;

/// How long before the hotspot the charts begin, in milliseconds.
const BEFORE_MS: i64 = 15 * 60 * 1_000;

/// How often the page is rendered again.
const EVERY: Duration = Duration::from_secs(3);

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let data = load_page(&console, &id).await?;
    let main = html! {
        p class="crumb" { a href="/console/hotspots" { "Hotspots" } }
        div id="hotspot-head" { (data.head()) }
        div class="grid" {
            section class="card w5" aria-labelledby="what" {
                h2 id="what" { "Finding" }
                div id="hotspot-what" { (data.summary()) }
            }
            section class="card w7" aria-labelledby="said" {
                h2 id="said" { "Diagnosis" }
                div id="hotspot-said" { (data.diagnosis()) }
            }
            div id="hotspot-charts" class="grid" { (data.evidence_charts()) }
        }
    };
    let page = Page::new(&console, &visitor, "Hotspot").with_charts();
    Ok(page
        .live(format!("/console/live/hotspots/{id}"))
        .show(&main))
}

/// Live updates of the page.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    // An unknown ID is rejected before the stream starts.
    queries::show(&console.plane, &id).await?;
    let captured = Arc::new((console.clone(), id));
    let source = PeriodicSource::new(EVERY, move || {
        let captured = captured.clone();
        async move {
            load_page(&captured.0, &captured.1)
                .await
                .ok()
                .map(|data| data.parts())
        }
    });
    stream_updates(&console, ViewerAccess::Session(visitor.session), source)
}

/// Everything the page shows.
struct HotspotPage {
    hotspot: HotspotRecord,
    evidence: Option<LoadHistoryBody>,
    now: Timestamp,
}

async fn load_page(console: &Console, id: &str) -> Result<HotspotPage> {
    let plane = &console.plane;
    let hotspot = queries::show(plane, id).await?.value;
    let from = Timestamp::from_unix_ms(hotspot.since.unix_ms() - BEFORE_MS);
    let stretch = TimeRange::new(plane, Some(from), hotspot.over_at)?;
    let filter = LoadFilter {
        shard: None,
        tenant: None,
        tenants_max: Some(1),
    };
    Ok(HotspotPage {
        evidence: history::show(plane, stretch, None, filter).await.ok(),
        now: plane.now(),
        hotspot,
    })
}

impl HotspotPage {
    fn parts(&self) -> PageParts {
        vec![
            ("hotspot-head", self.head()),
            ("hotspot-what", self.summary()),
            ("hotspot-said", self.diagnosis()),
            ("hotspot-charts", self.evidence_charts()),
        ]
    }

    fn head(&self) -> Markup {
        html! {
            div class="head" {
                h1 { "Hotspot on " @for shard in &self.hotspot.shards { (links::shard(shard)) " " } }
                (hotspots::status(self.hotspot.status))
                span class="muted mono small" { (self.hotspot.hotspot_id) }
            }
        }
    }

    fn summary(&self) -> Markup {
        let (hotspot, now) = (&self.hotspot, self.now);
        html! {
            dl class="kv" {
                dt { "Since" } dd { (moment(hotspot.since, now)) }
                @if let Some(over) = hotspot.over_at { dt { "Ended" } dd { (moment(over, now)) } }
                dt { "Severity" } dd { (hotspot.severity) }
                dt { "Rules" } dd { (hotspot.rules.join(", ")) }
                dt { "Cause" } dd { (hotspot.cause) }
                dt { "Cure" } dd { (hotspot.cure) }
                @if let Some(plan) = &hotspot.plan_id { dt { "Plan" } dd { a href=(format!("/console/plans/{plan}")) { (plan) } } }
                @if let Some(why) = &hotspot.why_not {
                    dt { "Why no action is taken" } dd { (why.because) @if let Some(until) = why.until { ", next check " (moment(until, now)) } }
                }
            }
        }
    }

    fn diagnosis(&self) -> Markup {
        html! { pre class="letter" tabindex="0" role="region" aria-label="Diagnosis" { (self.hotspot.letter) } }
    }

    fn evidence_charts(&self) -> Markup {
        self.evidence.as_ref().map(charts).unwrap_or_default()
    }
}

fn charts(evidence: &LoadHistoryBody) -> Markup {
    html! {
        section class="card w6" aria-labelledby="e-votes" {
            h2 id="e-votes" { "Votes per second" }
            (chart(evidence, "e-votes-chart", |point| Some(point.rates.votes_per_second)))
        }
        section class="card w6" aria-labelledby="e-latency" {
            h2 id="e-latency" { "Vote latency, p99 (ms)" }
            (chart(evidence, "e-latency-chart", |point| point.vote_latency.map(|latency| latency.p99)))
        }
    }
}
