//! Starting a migration: a preview with steps and costs, then the action.

use axum::response::Response;
use ballast_control_plane::migrations::begin::{self, NewMigration};
use ballast_control_plane::migrations::plan::{self, MigrationPlan};
use ballast_domain::tenant::Tenant;
use ballast_domain::{Error, Result, TenantId};
use maud::{Markup, html};

use super::links;
use super::operator_form::{OperatorForm, OperatorPreview};
use crate::console::Console;
use crate::fields::Fields;
use crate::page::error::ErrorPage;
use crate::page::finish::finish_estimate;
use crate::page::flash::redirect_with_message;
use crate::page::form::{hidden, reason, synchronous_window};
use crate::page::format::{bytes, counted, span};
use crate::page::layout::Page;
use crate::session::Visitor;

/// The form for target and terms. It leads to a preview.
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
                    label for="move-window" { "Migration window (seconds)" }
                    input id="move-window" name="window" inputmode="numeric" pattern="[0-9]*"
                        placeholder=(console.plane.settings().moves.window_ms / 1_000);
                }
                div {
                    label for="move-pause" { "Maximum write pause (ms)" }
                    input id="move-pause" name="pause" inputmode="numeric" pattern="[0-9]*" placeholder="any";
                }
                div {
                    (synchronous_window())
                }
                div { button type="submit" class="primary" { "Preview the migration" } }
            }
        }
        br;
    }
}

fn parse_request(fields: &Fields, dry_run: bool) -> Result<NewMigration> {
    let window: Option<u64> = fields.optional("window")?;
    Ok(NewMigration {
        to: fields.required("to")?,
        from: fields.optional("from")?,
        slice: fields.optional("slice")?.unwrap_or(0),
        window_ms: window.map(|seconds| seconds.saturating_mul(1_000)),
        sync: fields.ticked("sync"),
        max_pause_ms: fields.optional("pause")?,
        passed_over: Vec::new(),
        now: false,
        dry_run,
    })
}

/// The preview of a migration.
pub(super) async fn plan(draft: OperatorPreview<TenantId>) -> Result<Response, ErrorPage> {
    let OperatorPreview {
        console,
        visitor,
        id,
        fields,
    } = draft;
    let plan = plan::plan(&console.plane, &id, &parse_request(&fields, true)?).await?;
    let title = format!("Move {id}");
    let main = html! {
        p class="crumb" { a href=(format!("/console/tenants/{id}")) { (id) } }
        div class="head" { h1 { "Move " (id) } span { (links::route(&plan.from, &plan.to)) } }
        div class="grid" {
            section class="card w7" aria-labelledby="does" {
                h2 id="does" { "Steps" }
                ol {
                    @for step in &plan.actions {
                        li { strong { (step.phase) } ": " (step.action) }
                    }
                }
            }
            section class="card w5" aria-labelledby="costs" {
                h2 id="costs" { "Estimated cost" }
                (cost_estimate(&plan))
                (finish_estimate(&plan.finish, console.plane.now()))
                br;
                (confirm(&visitor, &plan, &fields))
            }
        }
    };
    Ok(Page::new(&console, &visitor, &title).show(&main))
}

fn cost_estimate(plan: &MigrationPlan) -> Markup {
    let price = &plan.price;
    html! {
        dl class="kv" {
            dt { "Data to copy" } dd { (counted(price.rows, "row")) " in " (counted(price.polls, "poll")) ", about " (bytes(price.bytes)) }
            dt { "Copying" } dd { "about " (span(price.duration_ms)) }
            dt { "Write pause" } dd { "about " (price.pause_ms) " ms"
                @if let Some(most) = plan.terms.max_pause_ms { ", at most " (most) " ms" } }
            dt { "Migration window" } dd { (span(plan.terms.window_ms))
                @if plan.terms.sync { ", votes are acknowledged by both shards" } }
            dt { "Neighbours" } dd { (counted(price.neighbours, "other tenant")) " on the source and target shards" }
            dt { "Estimate based on" } dd {
                @if price.from_moves == 0 { "defaults: no migration has completed here yet" }
                @else { (counted(price.from_moves, "completed migration")) }
            }
        }
        @if plan.terms.needs_approval {
            p class="note warn" { "This migration is large and needs approval before it begins." }
        }
    }
}

fn confirm(visitor: &Visitor, plan: &MigrationPlan, fields: &Fields) -> Markup {
    html! {
        form method="post" action=(format!("/console/tenants/{}/move", plan.tenant_id)) {
            (hidden(visitor))
            // The source is fixed to what this page showed.
            input type="hidden" name="from" value=(plan.from);
            input type="hidden" name="to" value=(plan.to);
            input type="hidden" name="slice" value=(plan.slice);
            @for name in ["window", "pause"] {
                @if let Some(value) = fields.filled(name) { input type="hidden" name=(name) value=(value); }
            }
            @if fields.ticked("sync") { input type="hidden" name="sync" value="on"; }
            (reason("move"))
            div class="row" {
                button type="submit" class="primary" { "Start migration" }
                a class="button" href=(format!("/console/tenants/{}", plan.tenant_id)) { "Cancel" }
            }
        }
    }
}

/// Starts the migration.
pub(super) async fn begin(
    OperatorForm { console, id, act }: OperatorForm<TenantId>,
) -> Result<Response, ErrorPage> {
    let new = parse_request(&act.fields, false)?;
    if new.from.is_none() {
        return Err(Error::invalid_field("/from", "must not be empty").into());
    }
    let body = begin::begin(&console.plane, &act.intent()?, &id, &new).await?;
    let to = format!("/console/moves/{}", body.migration.value.migration_id);
    Ok(redirect_with_message(
        &console,
        &to,
        format!("{id} is moving to {}.", new.to),
    ))
}
