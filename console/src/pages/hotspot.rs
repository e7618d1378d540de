//! A hotspot: the finding, its evidence, the diagnosis and the cure.

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::hotspots::ask;
use ballast_control_plane::load::history::{self, LoadHistory, Stretch};
use ballast_control_plane::load::now::LoadFilter;
use ballast_domain::{Result, Timestamp};
use maud::{Markup, html};

use super::load::chart;
use super::{hotspots, names};
use crate::console::Console;
use crate::page::error::Broken;
use crate::page::layout::Page;
use crate::page::words::moment;
use crate::session::Visitor;

/// How long before it began the charts begin, in milliseconds.
const BEFORE_MS: i64 = 15 * 60 * 1_000;

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    let plane = &console.plane;
    let found = ask::show(plane, &id).await?.value;
    let now = plane.now();
    let from = Timestamp::from_unix_ms(found.since.unix_ms() - BEFORE_MS);
    let stretch = Stretch::new(plane, Some(from), found.over_at)?;
    let filter = LoadFilter {
        shard: None,
        tenant: None,
        tenants_max: Some(1),
    };
    let evidence = history::show(plane, stretch, None, filter).await.ok();
    let main = html! {
        p class="crumb" { a href="/console/hotspots" { "Hotspots" } }
        div class="head" {
            h1 { "Hotspot on " @for shard in &found.shards { (names::shard(shard)) " " } }
            (hotspots::status(found.status))
            span class="muted mono small" { (found.hotspot_id) }
        }
        div class="grid" {
            section class="card w5" aria-labelledby="what" {
                h2 id="what" { "Finding" }
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
            section class="card w7" aria-labelledby="said" {
                h2 id="said" { "Diagnosis" }
                pre class="letter" tabindex="0" role="region" aria-label="Diagnosis" { (found.letter) }
            }
            @if let Some(evidence) = &evidence { (charts(evidence)) }
        }
    };
    let page = Page::new(&console, &visitor, "Hotspot").with_charts();
    Ok(page.show(&main))
}

fn charts(evidence: &LoadHistory) -> Markup {
    html! {
        section class="card w6" aria-labelledby="e-votes" {
            h2 id="e-votes" { "Votes per second" }
            (chart(evidence, "e-votes-chart", |point| Some(point.rates.votes_per_second)))
        }
        section class="card w6" aria-labelledby="e-latency" {
            h2 id="e-latency" { "Votes: 99 % within, in ms" }
            (chart(evidence, "e-latency-chart", |point| point.vote_latency.map(|latency| latency.p99)))
        }
    }
}
