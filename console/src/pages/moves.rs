//! The list of migrations, newest first.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::tenants;
use ballast_domain::migration::MigrationStatus;
use ballast_domain::{Error, ErrorCode, Result};
use maud::{Markup, html};

use super::links;
use crate::console::Console;
use crate::fields::Fields;
use crate::live::{LiveUpdate, Source, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::format::{listing, moment, nothing, number, progress, status};
use crate::page::layout::Page;
use crate::session::Visitor;

/// Migrations per page.
const PAGE: u32 = 50;
/// How often the list is rendered again.
const EVERY: Duration = Duration::from_secs(1);

const STATUSES: [MigrationStatus; 7] = [
    MigrationStatus::Running,
    MigrationStatus::Waiting,
    MigrationStatus::Completed,
    MigrationStatus::RolledBack,
    MigrationStatus::Reversed,
    MigrationStatus::Cancelled,
    MigrationStatus::Failed,
];

fn filter(params: &Fields) -> Result<MigrationFilter> {
    let status = match params.filled("status") {
        None => None,
        Some(name) => match STATUSES.into_iter().find(|status| status.name() == name) {
            Some(found) => Some(found),
            None => return Err(Error::invalid_field("/status", "unknown status")),
        },
    };
    Ok(MigrationFilter {
        tenant: params.optional("tenant")?,
        from: params.optional("from")?,
        to: params.optional("to")?,
        open: None,
        status,
    })
}

/// The list.
pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let listed = render_list(&console, &params).await?;
    let main = html! {
        div class="head" { h1 { "Migrations" } }
        form class="filter" method="get" action="/console/moves" {
            div class="search" {
                label for="tenant" { "Tenant" }
                input id="tenant" name="tenant" type="search" value=[params.filled("tenant")] spellcheck="false";
            }
            div {
                label for="status" { "Status" }
                select id="status" name="status" {
                    option value="" { "any" }
                    @for known in STATUSES {
                        option value=(known.name()) selected[params.filled("status") == Some(known.name())] { (known.name()) }
                    }
                }
            }
            button type="submit" { "Find" }
        }
        section class="card tight" id="moves-list" { (listed) }
    };
    let stream = format!("/console/live/moves?{}", params.query_with("x", None));
    Ok(Page::new(&console, &visitor, "Migrations")
        .live(stream)
        .show(&main))
}

async fn render_list(console: &Console, params: &Fields) -> Result<Markup, ErrorPage> {
    let after = params.filled("after").map(str::to_owned);
    let filter = filter(params)?;
    let mut found = migrations::list(&console.plane, &filter, after, PAGE + 1).await?;
    let more = found.len() > PAGE as usize;
    found.truncate(PAGE as usize);
    let next = found.last().filter(|_| more);
    let next = next.map(|last| last.migration.value.migration_id.to_string());
    Ok(html! {
        (table(console, &found, &empty_note(console, &filter).await?))
        div class="pager" {
            @if params.filled("after").is_some() {
                a class="button" href=(format!("/console/moves?{}", params.query_with("after", None))) { "Newest" }
            }
            @if let Some(next) = next {
                a class="button" rel="next" href=(format!("/console/moves?{}", params.query_with("after", Some(&next)))) { "Older" }
            }
        }
    })
}

/// The note for an empty list.
async fn empty_note(console: &Console, filter: &MigrationFilter) -> Result<String> {
    let Some(tenant) = &filter.tenant else {
        let narrowed = filter.status.is_some() || filter.from.is_some() || filter.to.is_some();
        return Ok(match narrowed {
            true => "No migration matches.".to_owned(),
            false => "No tenant has been moved yet.".to_owned(),
        });
    };
    match tenants::get(&console.plane, tenant).await {
        Ok(_) => Ok(format!("{tenant} has no matching migrations.")),
        Err(error) if error.code() == ErrorCode::TenantNotFound => {
            Ok(format!("There is no tenant {tenant}."))
        }
        Err(error) => Err(error),
    }
}

/// Live updates of the list.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let source = MigrationListSource {
        console: console.clone(),
        params,
        first: true,
    };
    stream_updates(&console, ViewerAccess::Session(visitor.session), source)
}

struct MigrationListSource {
    console: Console,
    params: Fields,
    first: bool,
}

impl Source for MigrationListSource {
    async fn next(&mut self) -> Option<Vec<LiveUpdate>> {
        if !self.first {
            tokio::time::sleep(EVERY).await;
        }
        self.first = false;
        let listed = render_list(&self.console, &self.params).await.ok()?;
        Some(vec![LiveUpdate::Parts(vec![("moves-list", listed)])])
    }
}

/// Migrations as a table.
pub(super) fn table(console: &Console, found: &[MigrationBody], empty: &str) -> Markup {
    if found.is_empty() {
        return nothing(
            empty,
            &html! { "Start one on a tenant's page, or with " code { "ballast tenant move" } "." },
        );
    }
    let now = console.plane.now();
    let head = html! {
        th { "Migration" } th { "Tenant" } th { "Route" } th { "Status" } th { "Phase" }
        th class="num" { "Rows" } th class="num" { "Write pause" } th { "Certificate" } th { "Requested" }
    };
    let rows = html! {
        @for body in found {
            @let moved = &body.migration.value;
            tr {
                td { (links::migration(&moved.migration_id.to_string())) }
                td { (links::tenant(&moved.tenant_id)) @if moved.slice > 0 { " slice " (moved.slice) } }
                td class="nowrap" { (links::route(&moved.from, &moved.to)) }
                td { (status(body.status)) }
                td { (phase(body)) }
                td class="num" { (number(moved.figures.rows)) }
                td class="num" { @match body.pause_ms { Some(ms) => { (ms) " ms" } None => { "—" } } }
                td {
                    @if moved.certificate.is_some() {
                        a href=(format!("/console/moves/{}#certificate", moved.migration_id)) { "signed" }
                    } @else { "—" }
                }
                td class="nowrap" { (moment(moved.requested_at, now)) }
            }
        }
    };
    listing("Migrations", &head, &rows)
}

fn phase(body: &MigrationBody) -> Markup {
    let step_progress = &body.progress;
    html! {
        (body.phase)
        @if !body.status.is_end() && let Some(total) = step_progress.total.filter(|total| *total > 0) {
            (progress(step_progress.done, total, &format!("{} of {} {}", step_progress.done, total, step_progress.unit)))
        }
    }
}
