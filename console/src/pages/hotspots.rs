//! Hotspots and plans: what is hot, why, what helps, and what is done.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::hotspots::records::{Hotspot, HotspotStatus, PlanRecord, PlanStatus};
use ballast_control_plane::hotspots::{ask, plans};
use ballast_control_plane::registry::typed::Versioned;
use ballast_domain::{Result, ShardId, Timestamp};
use maud::{Markup, html};

use super::names;
use crate::console::Console;
use crate::fields::Fields;
use crate::live::{Every, Parts, Right, streamed};
use crate::page::error::Broken;
use crate::page::layout::Page;
use crate::page::words::{badge, listing, moment, nothing};
use crate::session::Visitor;

/// Of each that are shown.
const SHOWN: u32 = 50;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(2);

/// The page.
pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    asked: Fields,
) -> Result<Response, Broken> {
    let shard: Option<ShardId> = asked.optional("shard")?;
    let seen = seen(&console).await?;
    let main = html! {
        div class="head" {
            h1 { "Hotspots" }
            div id="hotspots-calm" { (seen.calm()) }
        }
        (why_not_form(&console, shard.as_ref()))
        @if let Some(shard) = &shard { (why_not(&console, shard).await?) }
        div class="stack" {
            section class="card tight" aria-labelledby="found" {
                h2 id="found" { "Found" }
                div id="hotspots-found" { (found(&seen.hotspots, seen.now)) }
            }
            section class="card tight" aria-labelledby="plans" {
                h2 id="plans" { "Plans" }
                div id="hotspots-plans" { (planned(&seen.plans, seen.now)) }
            }
        }
    };
    let page = Page::new(&console, &visitor, "Hotspots");
    Ok(page.live("/console/live/hotspots").show(&main))
}

/// The page as it changes.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
) -> Result<Response, Broken> {
    let asked = console.clone();
    let source = Every::new(EVERY, move || {
        let console = asked.clone();
        async move { seen(&console).await.ok().map(|seen| seen.parts()) }
    });
    streamed(&console, Right::Session(visitor.session), source)
}

/// All that changes on the page.
struct Seen {
    hotspots: Vec<Versioned<Hotspot>>,
    plans: Vec<Versioned<PlanRecord>>,
    now: Timestamp,
}

async fn seen(console: &Console) -> Result<Seen> {
    let plane = &console.plane;
    Ok(Seen {
        hotspots: ask::list(plane, None, None, None, SHOWN).await?,
        plans: plans::list(plane, None, None, SHOWN).await?,
        now: plane.now(),
    })
}

impl Seen {
    fn parts(&self) -> Parts {
        vec![
            ("hotspots-calm", self.calm()),
            ("hotspots-found", found(&self.hotspots, self.now)),
            ("hotspots-plans", planned(&self.plans, self.now)),
        ]
    }

    fn calm(&self) -> Markup {
        let mut all = self.hotspots.iter();
        let open = all.any(|it| it.value.status == HotspotStatus::Open);
        html! { @if !open { (badge("good", "nothing is hot")) } }
    }
}

fn why_not_form(console: &Console, chosen: Option<&ShardId>) -> Markup {
    let snapshot = console.plane.fleet().snapshot();
    html! {
        form class="filter" method="get" action="/console/hotspots" {
            div {
                label for="shard" { "Why does nothing happen on" }
                select id="shard" name="shard" {
                    @for shard in snapshot.shards() {
                        @let id = &shard.value.shard_id;
                        option value=(id) selected[chosen == Some(id)] { (id) }
                    }
                }
            }
            button type="submit" { "Ask" }
        }
    }
}

async fn why_not(console: &Console, shard: &ShardId) -> Result<Markup> {
    let told = ask::why_not(&console.plane, shard).await?;
    Ok(html! {
        section class="card" aria-label="Why nothing happens" {
            p { strong { (told.answer) } }
            @if !told.rules.is_empty() {
                ul class="small" { @for rule in &told.rules { li { code { (rule.rule) } ": " (rule.words) } } }
            }
        }
        br;
    })
}

pub(super) fn status(status: HotspotStatus) -> Markup {
    match status {
        HotspotStatus::Open => badge("bad", "open"),
        HotspotStatus::Over => badge("calm", "over"),
    }
}

fn found(hotspots: &[Versioned<Hotspot>], now: Timestamp) -> Markup {
    if hotspots.is_empty() {
        return nothing(
            "Nothing was ever too hot.",
            &html! { "Rules are in the settings." },
        );
    }
    let head = html! {
        th { "Hotspot" } th { "Status" } th { "Shards" } th { "Cause" } th { "Cure" } th { "Plan" } th { "Since" }
    };
    let rows = html! {
        @for Versioned { value: it, .. } in hotspots {
            tr {
                td { a class="mono" href=(format!("/console/hotspots/{}", it.hotspot_id)) { (it.hotspot_id) } }
                td { (status(it.status)) " " span class="small muted" { (it.severity) } }
                td { @for shard in &it.shards { (names::shard(shard)) " " } }
                td { (it.cause) }
                td { (it.cure) @if let Some(why) = &it.why_not { p class="small muted" { (why.because) } } }
                td { @if let Some(plan) = &it.plan_id { a href=(format!("/console/plans/{plan}")) { "plan" } } @else { "—" } }
                td class="nowrap" { (moment(it.since, now)) }
            }
        }
    };
    listing("Hotspots", &head, &rows)
}

pub(super) fn plan_status(status: PlanStatus) -> Markup {
    let kind = match status {
        PlanStatus::Proposed => "warn",
        PlanStatus::Approved | PlanStatus::Running | PlanStatus::Judging => "info",
        PlanStatus::Done => "good",
        PlanStatus::Rejected | PlanStatus::Expired => "calm",
        PlanStatus::Failed => "bad",
    };
    badge(kind, status.name())
}

fn planned(plans: &[Versioned<PlanRecord>], now: Timestamp) -> Markup {
    if plans.is_empty() {
        return nothing(
            "There was never a plan.",
            &html! { "One is made when something is hot and moving helps." },
        );
    }
    let head = html! {
        th { "Plan" } th { "Status" } th { "What it does" } th { "Shards" } th { "Made" }
    };
    let rows = html! {
        @for Versioned { value: plan, .. } in plans {
            tr {
                td { a class="mono" href=(format!("/console/plans/{}", plan.plan_id)) { (plan.plan_id) } }
                td { (plan_status(plan.status)) }
                td { (plan.does) }
                td { @for shard in &plan.shards { (names::shard(shard)) " " } }
                td class="nowrap" { (moment(plan.made_at, now)) " by " (plan.actor) }
            }
        }
    };
    listing("Plans", &head, &rows)
}
