//! A plan: its steps, reasons and expected effect, and its approval.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::hotspots::plans;
use ballast_control_plane::hotspots::records::{PlanRecord, PlanStatus};
use ballast_control_plane::registry::typed::Versioned;
use ballast_domain::Result;
use ballast_domain::token::AdminRole;
use maud::{Markup, html};

use super::{hotspots, links};
use crate::console::Console;
use crate::form_submission::FormSubmission;
use crate::live::{PageParts, PeriodicSource, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form::ActionForm;
use crate::page::format::{listing, moment, number, whole};
use crate::page::layout::Page;
use crate::session::Visitor;

/// How often the page is rendered again.
const EVERY: Duration = Duration::from_secs(1);

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let found = plans::get(&console.plane, &id).await?;
    let main = html! {
        p class="crumb" { a href="/console/hotspots" { "Hotspots" } }
        div id="plan-head" { (head(&found.value)) }
        div class="grid" {
            section class="card w7" aria-labelledby="said" {
                h2 id="said" { "Steps and expected effect" }
                pre class="letter" tabindex="0" role="region" aria-label="The plan" { (found.value.letter) }
            }
            div class="stack w5" {
                section class="card" aria-labelledby="stands" {
                    h2 id="stands" { "Status" }
                    div id="plan-stands" { (status_card(&console, &found.value)) }
                    div id="plan-verbs" { (verbs(&visitor, &found)) }
                }
            }
            div id="plan-effect" { (effect_table(&found.value)) }
        }
    };
    let page = Page::new(&console, &visitor, "Plan");
    Ok(page.live(format!("/console/live/plans/{id}")).show(&main))
}

/// Live updates of the page.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    // An unknown ID is rejected before the stream starts.
    plans::get(&console.plane, &id).await?;
    let right = ViewerAccess::Session(visitor.session.clone());
    let captured = Arc::new((console.clone(), visitor, id));
    let source = PeriodicSource::new(EVERY, move || {
        let captured = captured.clone();
        async move {
            let (console, visitor, id) = &*captured;
            let found = plans::get(&console.plane, id).await.ok()?;
            Some(parts(console, visitor, &found))
        }
    });
    stream_updates(&console, right, source)
}

fn parts(console: &Console, visitor: &Visitor, found: &Versioned<PlanRecord>) -> PageParts {
    vec![
        ("plan-head", head(&found.value)),
        ("plan-stands", status_card(console, &found.value)),
        ("plan-verbs", verbs(visitor, found)),
        ("plan-effect", effect_table(&found.value)),
    ]
}

fn head(plan: &PlanRecord) -> Markup {
    html! {
        div class="head" {
            h1 { "Plan: " (plan.does) }
            (hotspots::plan_status(plan.status))
            span class="muted mono small" { (plan.plan_id) }
        }
    }
}

fn status_card(console: &Console, plan: &PlanRecord) -> Markup {
    let now = console.plane.now();
    html! {
        dl class="kv" {
            dt { "Created" } dd { (moment(plan.made_at, now)) " by " (plan.actor) @if let Some(reason) = &plan.reason { ": " (reason) } }
            @if let Some(hotspot) = &plan.hotspot_id { dt { "Hotspot" } dd { a href=(format!("/console/hotspots/{hotspot}")) { (hotspot) } } }
            dt { "Shards" } dd { @for shard in &plan.shards { (links::shard(shard)) " " } }
            @if let Some(decided) = &plan.decided {
                dt { "Decided" } dd { (moment(decided.at, now)) " by " (decided.actor) @if let Some(reason) = &decided.reason { ": " (reason) } }
            }
            @if !plan.migrations.is_empty() {
                dt { "Migrations" } dd { ul { @for id in &plan.migrations { li { (links::migration(id)) } } } }
            }
            @if let Some(at) = plan.done_at { dt { "Done" } dd { (moment(at, now)) } }
            @if let Some(note) = &plan.note { dt { "Note" } dd { (note) } }
        }
    }
}

/// Each shard's load before, predicted and measured.
fn effect_table(plan: &PlanRecord) -> Markup {
    let Some(moves) = &plan.plan else {
        return html! {};
    };
    let percent = |share: f64| format!("{} %", whole(share * 100.0));
    let head = html! {
        th { "Shard" } th class="num" { "Fill before" } th class="num" { "Fill after (predicted)" }
        th class="num" { "Votes/s before" } th class="num" { "Predicted" } th class="num" { "Measured" }
    };
    let rows = html! {
        @for shard in &moves.shards {
            @let outcome = plan.outcome.as_ref();
            @let found = outcome.and_then(|outcome| outcome.shards.iter().find(|it| it.shard_id == shard.shard_id));
            tr {
                td { (links::shard(&shard.shard_id)) }
                td class="num" { (percent(shard.before.share)) }
                td class="num" { (percent(shard.after.share)) }
                td class="num" { (number(whole(shard.before.load.votes))) }
                td class="num" { (number(whole(shard.after.load.votes))) }
                td class="num" { @match found { Some(found) => { (number(whole(found.measured.votes))) } None => { "—" } } }
            }
        }
    };
    html! {
        section class="card tight" aria-labelledby="effect" {
            h2 id="effect" { "Before and after" }
            (listing("Before and after", &head, &rows))
            @if let Some(words) = prediction_error(plan) { p class="small muted" { (words) } } @else { p class="small muted" { "Measured some time after the migrations have completed." } }
        }
    }
}

/// The average prediction error of each dimension.
fn prediction_error(plan: &PlanRecord) -> Option<String> {
    let outcome = plan.outcome.as_ref()?;
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (dimension, error) in outcome.shards.iter().flat_map(|shard| &shard.errors) {
        let (sum, many) = sums.entry(dimension.name()).or_default();
        *sum += error.abs();
        *many += 1.0;
    }
    let averages = sums
        .iter()
        .map(|(name, (sum, many))| format!("{name} {} %", whole(sum / many * 100.0)));
    let averages: Vec<String> = averages.collect();
    Some(match averages.is_empty() {
        true => "None of the predicted values could be measured.".to_owned(),
        false => format!("Average prediction error: {}.", averages.join(", ")),
    })
}

fn verbs(visitor: &Visitor, found: &Versioned<PlanRecord>) -> Markup {
    if found.value.status != PlanStatus::Proposed || !visitor.may(AdminRole::Operator) {
        return html! {};
    }
    let action = |verb: &str| format!("/console/plans/{}/{verb}", found.value.plan_id);
    let version = Some(found.version);
    html! {
        br;
        div class="verbs" {
            (ActionForm { label: "Approve", action: &action("approve"), version, grave: false,
                description: "Ballast executes the plan." }.show(visitor, &html! {}))
            (ActionForm { label: "Reject", action: &action("reject"), version, grave: true,
                description: "The plan is not executed." }.show(visitor, &html! {}))
        }
    }
}

async fn decide(
    console: Console,
    id: String,
    act: FormSubmission,
    yes: bool,
) -> Result<Response, ErrorPage> {
    act.visitor.at_least(AdminRole::Operator)?;
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    plans::decide(&console.plane, &intent, &id, &if_match, yes).await?;
    let message = if yes {
        "The plan is approved."
    } else {
        "The plan is rejected."
    };
    Ok(redirect_with_message(
        &console,
        &format!("/console/plans/{id}"),
        message,
    ))
}

/// Approves a plan.
pub(super) async fn approve(
    State(console): State<Console>,
    Path(id): Path<String>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    decide(console, id, act, true).await
}

/// Rejects a plan.
pub(super) async fn reject(
    State(console): State<Console>,
    Path(id): Path<String>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    decide(console, id, act, false).await
}
