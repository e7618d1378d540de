//! The lists of hotspots and plans.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::hotspots::records::{
    HotspotRecord, HotspotStatus, PlanRecord, PlanStatus,
};
use ballast_control_plane::hotspots::{plans, queries};
use ballast_control_plane::registry::typed::Versioned;
use ballast_domain::{Result, ShardId, Timestamp};
use maud::{Markup, html};

use super::links;
use crate::console::Console;
use crate::fields::Fields;
use crate::live::{PageParts, PeriodicSource, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::format::{badge, listing, moment, nothing};
use crate::page::layout::Page;
use crate::session::Visitor;

/// Entries shown of each list.
const SHOWN: u32 = 50;

/// How often the page is rendered again.
const EVERY: Duration = Duration::from_secs(2);

/// The page.
pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let shard: Option<ShardId> = params.optional("shard")?;
    let data = load_page(&console).await?;
    let main = html! {
        div class="head" {
            h1 { "Hotspots" }
            div id="hotspots-calm" { (data.calm_badge()) }
        }
        (why_not_form(&console, shard.as_ref()))
        @if let Some(shard) = &shard { (why_not(&console, shard).await?) }
        div class="stack" {
            section class="card tight" aria-labelledby="found" {
                h2 id="found" { "Detected hotspots" }
                div id="hotspots-found" { (hotspot_table(&data.hotspots, data.now)) }
            }
            section class="card tight" aria-labelledby="plans" {
                h2 id="plans" { "Plans" }
                div id="hotspots-plans" { (plan_table(&data.plans, data.now)) }
            }
        }
    };
    let page = Page::new(&console, &visitor, "Hotspots");
    Ok(page.live("/console/live/hotspots").show(&main))
}

/// Live updates of the page.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
) -> Result<Response, ErrorPage> {
    let params = console.clone();
    let source = PeriodicSource::new(EVERY, move || {
        let console = params.clone();
        async move { load_page(&console).await.ok().map(|data| data.parts()) }
    });
    stream_updates(&console, ViewerAccess::Session(visitor.session), source)
}

/// Everything that changes on the page.
struct HotspotListPage {
    hotspots: Vec<Versioned<HotspotRecord>>,
    plans: Vec<Versioned<PlanRecord>>,
    now: Timestamp,
}

async fn load_page(console: &Console) -> Result<HotspotListPage> {
    let plane = &console.plane;
    Ok(HotspotListPage {
        hotspots: queries::list(plane, None, None, None, SHOWN).await?,
        plans: plans::list(plane, None, None, SHOWN).await?,
        now: plane.now(),
    })
}

impl HotspotListPage {
    fn parts(&self) -> PageParts {
        vec![
            ("hotspots-calm", self.calm_badge()),
            ("hotspots-found", hotspot_table(&self.hotspots, self.now)),
            ("hotspots-plans", plan_table(&self.plans, self.now)),
        ]
    }

    fn calm_badge(&self) -> Markup {
        let mut all = self.hotspots.iter();
        let open = all.any(|it| it.value.status == HotspotStatus::Open);
        html! { @if !open { (badge("good", "no open hotspots")) } }
    }
}

fn why_not_form(console: &Console, chosen: Option<&ShardId>) -> Markup {
    let snapshot = console.plane.fleet().snapshot();
    html! {
        form class="filter" method="get" action="/console/hotspots" {
            div {
                label for="shard" { "Explain why no action is taken on" }
                select id="shard" name="shard" {
                    @for shard in snapshot.shards() {
                        @let id = &shard.value.shard_id;
                        option value=(id) selected[chosen == Some(id)] { (id) }
                    }
                }
            }
            button type="submit" { "Explain" }
        }
    }
}

async fn why_not(console: &Console, shard: &ShardId) -> Result<Markup> {
    let explanation = queries::why_not(&console.plane, shard).await?;
    Ok(html! {
        section class="card" aria-label="Why no action is taken" {
            p { strong { (explanation.answer) } }
            @if !explanation.rules.is_empty() {
                ul class="small" { @for rule in &explanation.rules { li { code { (rule.rule) } ": " (rule.words) } } }
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

fn hotspot_table(hotspots: &[Versioned<HotspotRecord>], now: Timestamp) -> Markup {
    if hotspots.is_empty() {
        return nothing(
            "No hotspots so far.",
            &html! { "The detection rules are in the settings." },
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
                td { @for shard in &it.shards { (links::shard(shard)) " " } }
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

fn plan_table(plans: &[Versioned<PlanRecord>], now: Timestamp) -> Markup {
    if plans.is_empty() {
        return nothing(
            "No plans so far.",
            &html! { "Ballast makes a plan when it knows a cure for a hotspot." },
        );
    }
    let head = html! {
        th { "Plan" } th { "Status" } th { "Action" } th { "Shards" } th { "Created" }
    };
    let rows = html! {
        @for Versioned { value: plan, .. } in plans {
            tr {
                td { a class="mono" href=(format!("/console/plans/{}", plan.plan_id)) { (plan.plan_id) } }
                td { (plan_status(plan.status)) }
                td { (plan.does) }
                td { @for shard in &plan.shards { (links::shard(shard)) " " } }
                td class="nowrap" { (moment(plan.made_at, now)) " by " (plan.actor) }
            }
        }
    };
    listing("Plans", &head, &rows)
}
