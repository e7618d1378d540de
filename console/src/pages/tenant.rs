//! A tenant: identity, placement, keys, limits, polls and migrations.

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::keys::KeyBody;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::registry::typed::Versioned;
use ballast_control_plane::{keys as all_keys, placements, tenants as all_tenants};
use ballast_domain::migration::MigrationStatus;
use ballast_domain::placement::Explanation;
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::token::AdminRole;
use ballast_domain::{Result, TenantId};
use maud::{Markup, html};

use super::moving::{WindowEnds, describe_moving, read_window_ends};
use super::{
    keys, limits, links, moves, new_move, placement, polls, split_merge, tenant_status, tenants,
};
use crate::console::Console;
use crate::page::error::ErrorPage;
use crate::page::format::{counted, moment, span};
use crate::page::layout::Page;
use crate::page::part::later;
use crate::session::Visitor;

/// Keys and migrations shown.
const KEYS: u32 = 100;
const MOVES: u32 = 10;

/// Everything the page shows.
pub(super) struct TenantPage {
    pub(super) tenant: Versioned<Tenant>,
    pub(super) explanation: Explanation,
    pub(super) keys: Vec<KeyBody>,
    pub(super) moves: Vec<MigrationBody>,
    pub(super) polls: polls::TenantPolls,
    /// When the windows end that its slices are in.
    pub(super) ends: WindowEnds,
}

async fn load_page(console: &Console, id: &TenantId) -> Result<TenantPage, ErrorPage> {
    let plane = &console.plane;
    let tenant = all_tenants::get(plane, id).await?;
    let filter = MigrationFilter {
        tenant: Some(id.clone()),
        ..MigrationFilter::default()
    };
    Ok(TenantPage {
        explanation: placements::explain_placement(plane, id, 0, None).await?,
        keys: all_keys::list(plane, Some(id), None, KEYS).await?,
        moves: migrations::list(plane, &filter, None, MOVES).await?,
        polls: polls::tenant_polls(console, &tenant.value, 8).await,
        ends: read_window_ends(plane, std::iter::once(&tenant.value)).await,
        tenant,
    })
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let data = load_page(&console, &links::parse_path_id(&id)?).await?;
    Ok(page(&console, &visitor, &data))
}

fn page(console: &Console, visitor: &Visitor, data: &TenantPage) -> Response {
    let tenant = &data.tenant.value;
    let may = visitor.may(AdminRole::Operator) && tenant.status != TenantStatus::Closed;
    let main = html! {
        p class="crumb" { a href="/console/tenants" { "Tenants" } }
        div class="head" {
            h1 { (tenant.tenant_id) }
            (tenants::status(tenant.status))
            @if tenant.name != tenant.tenant_id.as_str() { bdi class="muted name" { (tenant.name) } }
        }
        div class="grid" {
            section class="card w5" aria-labelledby="who" {
                h2 id="who" { "Identity and route" }
                (identity(console, data))
            }
            section class="card w7" aria-labelledby="why" {
                h2 id="why" { "Why it is on this shard" }
                (arrival(console, data))
                (placement::why(&data.explanation))
            }
            @if may {
                section class="card" aria-labelledby="acts" {
                    h2 id="acts" { "Move, split, pin, suspend" }
                    (new_move::form(console, tenant))
                    div class="verbs" {
                        (split_merge::form(tenant))
                        (placement::pin_form(console, visitor, &data.tenant))
                        (tenant_status::forms(visitor, &data.tenant))
                    }
                }
            }
            section class="card tight w7" aria-labelledby="keys" {
                (keys::part(console, visitor, data, may))
            }
            section class="card w5" aria-labelledby="limits" {
                (limits::part(visitor, &data.tenant, may))
            }
            section class="card w7" aria-labelledby="load" {
                h2 id="load" { "Load" }
                (later(&format!("/console/tenants/{}/load", tenant.tenant_id), "Show the load of the last hour"))
            }
            section class="card tight w5" aria-labelledby="usage" {
                h2 id="usage" { "Usage by day" }
                (later(&format!("/console/tenants/{}/usage", tenant.tenant_id), "Show the usage by day"))
            }
            section class="card tight" aria-labelledby="moves" {
                h2 id="moves" { "Migrations" }
                (moves::table(console, &data.moves, "This tenant has never been moved."))
            }
            section class="card tight" aria-labelledby="polls" {
                div class="head" {
                    h2 id="polls" { "Polls" }
                    a class="small" href=(format!("/console/polls?tenant={}", tenant.tenant_id)) { "All polls of this tenant" }
                }
                (polls::table(console, &data.polls, "This tenant has no polls."))
            }
        }
    };
    let page = Page::new(console, visitor, tenant.tenant_id.as_str());
    page.with_charts().show(&main)
}

/// The migration that brought the tenant to its current shard, and its reason.
fn arrival(console: &Console, data: &TenantPage) -> Markup {
    let here = data.tenant.value.slices.first();
    let came = |body: &&MigrationBody| {
        let moved = &body.migration.value;
        let there =
            here.is_some_and(|slice| slice.shard_id == moved.to && slice.slice == moved.slice);
        there
            && moved.figures.cut_over_at.is_some()
            && !matches!(
                body.status,
                MigrationStatus::Reversed | MigrationStatus::RolledBack
            )
    };
    // Newest first.
    let Some(body) = data.moves.iter().find(came) else {
        return html! {};
    };
    let moved = &body.migration.value;
    let at = moved.figures.cut_over_at.unwrap_or(moved.requested_at);
    html! {
        p { "Moved here from " (links::shard(&moved.from)) " " (moment(at, console.plane.now()))
            " by migration " (links::migration(&moved.migration_id.to_string())) ", requested by " (moved.actor)
            @if let Some(reason) = &moved.reason { ": " (reason) } "." }
        br;
    }
}

fn identity(console: &Console, data: &TenantPage) -> Markup {
    let tenant = &data.tenant.value;
    let now = console.plane.now();
    let secondary: Vec<_> = tenant
        .residency
        .secondary_regions()
        .iter()
        .map(|r| r.as_str())
        .collect();
    html! {
        dl class="kv" {
            @if let Some(organisation) = &tenant.organisation {
                dt { "Organisation" } dd { bdi { (organisation) } }
            }
            dt { "Home region" } dd { (tenant.home_region) }
            dt { "Residency" }
            dd {
                (tenant.residency.name())
                @if !secondary.is_empty() { ": also " (secondary.join(", ")) }
            }
            @if !tenant.zones.is_empty() {
                dt { "Zones" }
                dd { (tenant.zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) }
            }
            dt { "Created" } dd { (moment(tenant.created_at, now)) }
            @if !tenant.cors_origins.is_empty() {
                dt { "Browser origins" } dd { (tenant.cors_origins.join(", ")) }
            }
            @if let Some(pin) = &tenant.pin {
                dt { "Pinned" }
                dd {
                    "to " (links::shard(&pin.shard_id)) " by " (pin.actor) ", " (moment(pin.at, now))
                    @if let Some(reason) = &pin.reason { ": " (reason) }
                }
            }
            @for slice in &tenant.slices {
                dt { @if tenant.slices.len() == 1 { "Route" } @else { "Slice " (slice.slice) } }
                dd {
                    (links::shard(&slice.shard_id)) ", epoch " (slice.epoch.0)
                    ", for " (span(u64::try_from(now.unix_ms() - slice.placed_at.unix_ms()).unwrap_or(0)))
                    @if let Some(moving) = &slice.moving {
                        " · " a href=(format!("/console/moves/{}", moving.migration_id)) { (describe_moving(moving, &data.ends)) }
                    }
                    @if slice.sealing_since.is_some() { " · sealing" }
                }
            }
            @if let Some(slicing) = &tenant.slicing {
                dt { @if slicing.is_merge(tenant.slices.len()) { "Being merged" } @else { "Being split" } }
                dd { "into " (counted(u64::from(slicing.into), "slice")) }
            }
        }
    }
}
