//! A hotspot: the finding, its evidence, the diagnosis and the cure.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::hotspots::ask;
use ballast_control_plane::hotspots::records::Hotspot;
use ballast_control_plane::load::history::{self, LoadHistory, Stretch};
use ballast_control_plane::load::now::LoadFilter;
use ballast_domain::{Result, Timestamp};
use maud::{Markup, html};

use super::load::chart;
use super::{hotspots, names};
use crate::console::Console;
use crate::live::{Every, Parts, Right, streamed};
use crate::page::error::Broken;
use crate::page::layout::Page;
use crate::page::words::moment;
use crate::session::Visitor;

/// How long before it began the charts begin, in milliseconds.
const BEFORE_MS: i64 = 15 * 60 * 1_000;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(3);

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    let seen = seen(&console, &id).await?;
    let main = html! {
        p class="crumb" { a href="/console/hotspots" { "Hotspots" } }
        div id="hotspot-head" { (seen.head()) }
        div class="grid" {
            section class="card w5" aria-labelledby="what" {
                h2 id="what" { "Finding" }
                div id="hotspot-what" { (seen.what()) }
            }
            section class="card w7" aria-labelledby="said" {
                h2 id="said" { "Diagnosis" }
                div id="hotspot-said" { (seen.said()) }
            }
            div id="hotspot-charts" class="grid" { (seen.drawn()) }
        }
    };
    let page = Page::new(&console, &visitor, "Hotspot").with_charts();
    Ok(page
        .live(format!("/console/live/hotspots/{id}"))
        .show(&main))
}

/// The page as it changes.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    // It is refused before anything is sent if there is none.
    ask::show(&console.plane, &id).await?;
    let asked = Arc::new((console.clone(), id));
    let source = Every::new(EVERY, move || {
        let asked = asked.clone();
        async move { seen(&asked.0, &asked.1).await.ok().map(|seen| seen.parts()) }
    });
    streamed(&console, Right::Session(visitor.session), source)
}

/// All that the page shows.
struct Seen {
    found: Hotspot,
    evidence: Option<LoadHistory>,
    now: Timestamp,
}

async fn seen(console: &Console, id: &str) -> Result<Seen> {
    let plane = &console.plane;
    let found = ask::show(plane, id).await?.value;
    let from = Timestamp::from_unix_ms(found.since.unix_ms() - BEFORE_MS);
    let stretch = Stretch::new(plane, Some(from), found.over_at)?;
    let filter = LoadFilter {
        shard: None,
        tenant: None,
        tenants_max: Some(1),
    };
    Ok(Seen {
        evidence: history::show(plane, stretch, None, filter).await.ok(),
        now: plane.now(),
        found,
    })
}

impl Seen {
    fn parts(&self) -> Parts {
        vec![
            ("hotspot-head", self.head()),
            ("hotspot-what", self.what()),
            ("hotspot-said", self.said()),
            ("hotspot-charts", self.drawn()),
        ]
    }

    fn head(&self) -> Markup {
        html! {
            div class="head" {
                h1 { "Hotspot on " @for shard in &self.found.shards { (names::shard(shard)) " " } }
                (hotspots::status(self.found.status))
                span class="muted mono small" { (self.found.hotspot_id) }
            }
        }
    }

    fn what(&self) -> Markup {
        let (found, now) = (&self.found, self.now);
        html! {
            dl class="kv" {
                dt { "Since" } dd { (moment(found.since, now)) }
                @if let Some(over) = found.over_at { dt { "Over" } dd { (moment(over, now)) } }
                dt { "Severity" } dd { (found.severity) }
                dt { "Rules" } dd { (found.rules.join(", ")) }
                dt { "Cause" } dd { (found.cause) }
                dt { "Cure" } dd { (found.cure) }
                @if let Some(plan) = &found.plan_id { dt { "Plan" } dd { a href=(format!("/console/plans/{plan}")) { (plan) } } }
                @if let Some(why) = &found.why_not {
                    dt { "Why nothing happens" } dd { (why.because) @if let Some(until) = why.until { ", looked at again " (moment(until, now)) } }
                }
            }
        }
    }

    fn said(&self) -> Markup {
        html! { pre class="letter" tabindex="0" role="region" aria-label="Diagnosis" { (self.found.letter) } }
    }

    fn drawn(&self) -> Markup {
        self.evidence.as_ref().map(charts).unwrap_or_default()
    }
}

fn charts(evidence: &LoadHistory) -> Markup {
    html! {
        section class="card w6" aria-labelledby="e-votes" {
            h2 id="e-votes" { "Votes per second" }
            (chart(evidence, "e-votes-chart", |point| Some(point.rates.votes_per_second)))
        }
        section class="card w6" aria-labelledby="e-latency" {
            h2 id="e-latency" { "How long votes take: 99 % are done within, in ms" }
            (chart(evidence, "e-latency-chart", |point| point.vote_latency.map(|latency| latency.p99)))
        }
    }
}
