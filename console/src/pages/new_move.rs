//! A move is asked for: first what it would do and cost, then the button.

use axum::response::Response;
use ballast_control_plane::migrations::begin::{self, NewMove};
use ballast_control_plane::migrations::plan::{self, MovePlan};
use ballast_domain::tenant::Tenant;
use ballast_domain::{Error, Result, TenantId};
use maud::{Markup, html};

use super::deed::{Deed, Draft};
use super::names;
use crate::console::Console;
use crate::fields::Fields;
use crate::page::error::Broken;
use crate::page::flash::done;
use crate::page::form::{both_acknowledge, hidden, reason};
use crate::page::layout::Page;
use crate::page::words::{bytes, number, span};
use crate::session::Visitor;

/// Where to, and how. It only shows a plan.
pub(super) fn form(console: &Console, tenant: &Tenant) -> Markup {
    let snapshot = console.plane.fleet().snapshot();
    let here: Vec<_> = tenant.slices.iter().map(|slice| &slice.shard_id).collect();
    let others = snapshot.shards().iter().map(|shard| &shard.value.shard_id);
    let others: Vec<_> = others
        .filter(|id| here.len() > 1 || !here.contains(id))
        .collect();
    html! {
        form method="get" action=(format!("/console/tenants/{}/move", tenant.tenant_id)) {
            div class="fields" {
                @if tenant.slices.len() > 1 {
                    div {
                        label for="move-slice" { "Slice" }
                        select id="move-slice" name="slice" {
                            @for slice in &tenant.slices {
                                option value=(slice.slice) { (slice.slice) " on " (slice.shard_id) }
                            }
                        }
                    }
                }
                div {
                    label for="move-to" { "Move to" }
                    select id="move-to" name="to" {
                        @for id in others { option value=(id) { (id) } }
                    }
                }
                div {
                    label for="move-window" { "Keep both sides for, in seconds" }
                    input id="move-window" name="window" inputmode="numeric" pattern="[0-9]*"
                        placeholder=(console.plane.settings().moves.window_ms / 1_000);
                }
                div {
                    label for="move-pause" { "Pause at the most, in ms" }
                    input id="move-pause" name="pause" inputmode="numeric" pattern="[0-9]*" placeholder="any";
                }
                div {
                    (both_acknowledge())
                }
                div { button type="submit" class="primary" { "Show what a move would do" } }
            }
        }
        br;
    }
}

fn asked(fields: &Fields, dry_run: bool) -> Result<NewMove> {
    let window: Option<u64> = fields.optional("window")?;
    Ok(NewMove {
        to: fields.required("to")?,
        from: fields.optional("from")?,
        slice: fields.optional("slice")?.unwrap_or(0),
        window_ms: window.map(|seconds| seconds.saturating_mul(1_000)),
        sync: fields.ticked("sync"),
        max_pause_ms: fields.optional("pause")?,
        passed_over: Vec::new(),
        dry_run,
    })
}

/// What a move would do.
pub(super) async fn plan(draft: Draft<TenantId>) -> Result<Response, Broken> {
    let Draft {
        console,
        visitor,
        id,
        fields,
    } = draft;
    let plan = plan::plan(&console.plane, &id, &asked(&fields, true)?).await?;
    let title = format!("Move {id}");
    let main = html! {
        p class="crumb" { a href=(format!("/console/tenants/{id}")) { (id) } }
        div class="head" { h1 { "Move " (id) } span { (names::way(&plan.from, &plan.to)) } }
        div class="grid" {
            section class="card w7" aria-labelledby="does" {
                h2 id="does" { "What it would do" }
                ol {
                    @for step in &plan.actions {
                        li { strong { (step.phase) } ": " (step.action) }
                    }
                }
            }
            section class="card w5" aria-labelledby="costs" {
                h2 id="costs" { "What it would cost" }
                (price(&plan))
                br;
                (confirm(&visitor, &plan, &fields))
            }
        }
    };
    Ok(Page::new(&console, &visitor, &title).show(&main))
}

fn price(plan: &MovePlan) -> Markup {
    let price = &plan.price;
    html! {
        dl class="kv" {
            dt { "To copy" } dd { (number(price.rows)) " rows in " (number(price.polls)) " polls, about " (bytes(price.bytes)) }
            dt { "Until the cutover" } dd { "about " (span(price.duration_ms)) }
            dt { "Nobody can vote for" } dd { "about " (price.pause_ms) " ms"
                @if let Some(most) = plan.terms.max_pause_ms { ", at the most " (most) " ms" } }
            dt { "Both sides are kept for" } dd { (span(plan.terms.window_ms))
                @if plan.terms.sync { ", and votes count when both have them" } }
            dt { "Neighbours" } dd { (number(price.neighbours)) " slices share source or target" }
            dt { "Judged from" } dd {
                @if price.from_moves == 0 { "what is usual: nothing has moved here yet" }
                @else { (number(price.from_moves)) " moves that were completed" }
            }
        }
        @if plan.terms.needs_approval {
            p class="note warn" { "It is so large that somebody has to approve it before it begins." }
        }
    }
}

fn confirm(visitor: &Visitor, plan: &MovePlan, fields: &Fields) -> Markup {
    html! {
        form method="post" action=(format!("/console/tenants/{}/move", plan.tenant_id)) {
            (hidden(visitor))
            // It is moved only from where this page saw it.
            input type="hidden" name="from" value=(plan.from);
            input type="hidden" name="to" value=(plan.to);
            input type="hidden" name="slice" value=(plan.slice);
            @for name in ["window", "pause"] {
                @if let Some(value) = fields.filled(name) { input type="hidden" name=(name) value=(value); }
            }
            @if fields.ticked("sync") { input type="hidden" name="sync" value="on"; }
            (reason("move"))
            div class="row" {
                button type="submit" class="primary" { "Start the move" }
                a class="button" href=(format!("/console/tenants/{}", plan.tenant_id)) { "Do not" }
            }
        }
    }
}

/// Asks for the move.
pub(super) async fn begin(Deed { console, id, act }: Deed<TenantId>) -> Result<Response, Broken> {
    let new = asked(&act.fields, false)?;
    if new.from.is_none() {
        return Err(Error::invalid_field("/from", "it is empty").into());
    }
    let body = begin::begin(&console.plane, &act.intent()?, &id, &new).await?;
    let to = format!("/console/moves/{}", body.migration.value.migration_id);
    Ok(done(&console, &to, format!("{id} moves to {}.", new.to)))
}
