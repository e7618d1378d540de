//! A plan: what it does and why, what it should bring, and somebody's word.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::hotspots::plans;
use ballast_control_plane::hotspots::records::{PlanRecord, PlanStatus};
use ballast_control_plane::registry::typed::Versioned;
use ballast_domain::Result;
use ballast_domain::token::Role;
use maud::{Markup, html};

use super::{hotspots, names};
use crate::act::Act;
use crate::console::Console;
use crate::live::{Every, Parts, Right, streamed};
use crate::page::error::Broken;
use crate::page::flash::done;
use crate::page::form::Verb;
use crate::page::layout::Page;
use crate::page::words::{listing, moment, number, whole};
use crate::session::Visitor;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    let found = plans::get(&console.plane, &id).await?;
    let main = html! {
        p class="crumb" { a href="/console/hotspots" { "Hotspots" } }
        div id="plan-head" { (head(&found.value)) }
        div class="grid" {
            section class="card w7" aria-labelledby="said" {
                h2 id="said" { "What it does, and what should come of it" }
                pre class="letter" tabindex="0" role="region" aria-label="The plan" { (found.value.letter) }
            }
            div class="stack w5" {
                section class="card" aria-labelledby="stands" {
                    h2 id="stands" { "How it stands" }
                    div id="plan-stands" { (stands(&console, &found.value)) }
                    div id="plan-verbs" { (verbs(&visitor, &found)) }
                }
            }
            div id="plan-effect" { (effect(&found.value)) }
        }
    };
    let page = Page::new(&console, &visitor, "Plan");
    Ok(page.live(format!("/console/live/plans/{id}")).show(&main))
}

/// The page as it changes.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    // It is refused before anything is sent if there is none.
    plans::get(&console.plane, &id).await?;
    let right = Right::Session(visitor.session.clone());
    let asked = Arc::new((console.clone(), visitor, id));
    let source = Every::new(EVERY, move || {
        let asked = asked.clone();
        async move {
            let (console, visitor, id) = &*asked;
            let found = plans::get(&console.plane, id).await.ok()?;
            Some(parts(console, visitor, &found))
        }
    });
    streamed(&console, right, source)
}

fn parts(console: &Console, visitor: &Visitor, found: &Versioned<PlanRecord>) -> Parts {
    vec![
        ("plan-head", head(&found.value)),
        ("plan-stands", stands(console, &found.value)),
        ("plan-verbs", verbs(visitor, found)),
        ("plan-effect", effect(&found.value)),
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

fn stands(console: &Console, plan: &PlanRecord) -> Markup {
    let now = console.plane.now();
    html! {
        dl class="kv" {
            dt { "Made" } dd { (moment(plan.made_at, now)) " by " (plan.actor) @if let Some(reason) = &plan.reason { ": " (reason) } }
            @if let Some(hotspot) = &plan.hotspot_id { dt { "For" } dd { a href=(format!("/console/hotspots/{hotspot}")) { (hotspot) } } }
            dt { "Shards" } dd { @for shard in &plan.shards { (names::shard(shard)) " " } }
            @if let Some(decided) = &plan.decided {
                dt { "Decided" } dd { (moment(decided.at, now)) " by " (decided.actor) @if let Some(reason) = &decided.reason { ": " (reason) } }
            }
            @if !plan.migrations.is_empty() {
                dt { "Moves" } dd { ul { @for id in &plan.migrations { li { (names::migration(id)) } } } }
            }
            @if let Some(at) = plan.done_at { dt { "Done" } dd { (moment(at, now)) } }
            @if let Some(note) = &plan.note { dt { "Note" } dd { (note) } }
        }
    }
}

/// What each shard had to do, what was promised, and what was measured.
fn effect(plan: &PlanRecord) -> Markup {
    let Some(moves) = &plan.plan else {
        return html! {};
    };
    let percent = |share: f64| format!("{} %", whole(share * 100.0));
    let head = html! {
        th { "Shard" } th class="num" { "Full before" } th class="num" { "Full after, as predicted" }
        th class="num" { "Votes/s before" } th class="num" { "predicted" } th class="num" { "measured" }
    };
    let rows = html! {
        @for shard in &moves.shards {
            @let outcome = plan.outcome.as_ref();
            @let found = outcome.and_then(|outcome| outcome.shards.iter().find(|it| it.shard_id == shard.shard_id));
            tr {
                td { (names::shard(&shard.shard_id)) }
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
            @if let Some(words) = off_by(plan) { p class="small muted" { (words) } } @else { p class="small muted" { "Measured once the moves are over and have been watched for a while." } }
        }
    }
}

/// By how much the prediction was off: of the votes, which the table shows, and
/// of each of the other things that were foretold.
fn off_by(plan: &PlanRecord) -> Option<String> {
    let outcome = plan.outcome.as_ref()?;
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (dimension, error) in outcome.shards.iter().flat_map(|shard| &shard.errors) {
        let (sum, many) = sums.entry(dimension.name()).or_default();
        *sum += error.abs();
        *many += 1.0;
    }
    let told = sums
        .iter()
        .map(|(name, (sum, many))| format!("{name} {} %", whole(sum / many * 100.0)));
    let told: Vec<String> = told.collect();
    Some(match told.is_empty() {
        true => "Nothing that was foretold could be measured.".to_owned(),
        false => format!("On average the prediction is off by: {}.", told.join(", ")),
    })
}

fn verbs(visitor: &Visitor, found: &Versioned<PlanRecord>) -> Markup {
    if found.value.status != PlanStatus::Proposed || !visitor.may(Role::Operator) {
        return html! {};
    }
    let action = |verb: &str| format!("/console/plans/{}/{verb}", found.value.plan_id);
    let version = Some(found.version);
    html! {
        br;
        div class="verbs" {
            (Verb { label: "Approve", action: &action("approve"), version, grave: false,
                tells: "It is carried out." }.show(visitor, &html! {}))
            (Verb { label: "Reject", action: &action("reject"), version, grave: true,
                tells: "It is not carried out." }.show(visitor, &html! {}))
        }
    }
}

async fn decide(console: Console, id: String, act: Act, yes: bool) -> Result<Response, Broken> {
    act.visitor.at_least(Role::Operator)?;
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    plans::decide(&console.plane, &intent, &id, &if_match, yes).await?;
    let said = if yes {
        "The plan is approved."
    } else {
        "The plan is rejected."
    };
    Ok(done(&console, &format!("/console/plans/{id}"), said))
}

/// Approves a plan.
pub(super) async fn approve(
    State(console): State<Console>,
    Path(id): Path<String>,
    act: Act,
) -> Result<Response, Broken> {
    decide(console, id, act, true).await
}

/// Rejects a plan.
pub(super) async fn reject(
    State(console): State<Console>,
    Path(id): Path<String>,
    act: Act,
) -> Result<Response, Broken> {
    decide(console, id, act, false).await
}
