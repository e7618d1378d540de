//! The paged tenant list with search, and tenant creation.

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::registry::typed::Versioned;
use ballast_control_plane::tenants::{self, NewTenant, TenantFilter};
use ballast_domain::limits::TenantLimits;
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::token::AdminRole;
use ballast_domain::{Error, Result};
use maud::{Markup, html};

use super::links;
use super::moving::{WindowEnds, describe_moving, read_window_ends};
use crate::console::Console;
use crate::fields::Fields;
use crate::form_submission::FormSubmission;
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form;
use crate::page::format::{badge, moment, nothing};
use crate::page::layout::Page;
use crate::session::Visitor;

/// Tenants per page.
const PAGE: u32 = 50;

/// The list.
pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let filter = filter(&params)?;
    let after = params.filled("after").map(str::to_owned);
    let mut found = tenants::list(&console.plane, &filter, after, PAGE + 1).await?;
    let more = found.len() > PAGE as usize;
    found.truncate(PAGE as usize);
    let next = found
        .last()
        .filter(|_| more)
        .map(|last| last.value.tenant_id.to_string());
    let shown = found.iter().map(|tenant| &tenant.value);
    let ends = read_window_ends(&console.plane, shown).await;
    let main = html! {
        div class="head" { h1 { "Tenants" } }
        @if visitor.may(AdminRole::Operator) { (new(&visitor)) }
        (search(&console, &params))
        section class="card tight" {
            (table(&console, &found, &ends, &params))
            div class="pager" {
                @if params.filled("after").is_some() {
                    a class="button" href=(format!("/console/tenants?{}", params.query_with("after", None))) { "First page" }
                }
                @if let Some(next) = next {
                    a class="button" rel="next" href=(format!("/console/tenants?{}", params.query_with("after", Some(&next)))) { "Next page" }
                }
            }
        }
    };
    Ok(Page::new(&console, &visitor, "Tenants").show(&main))
}

fn filter(params: &Fields) -> Result<TenantFilter> {
    let status = match params.filled("status") {
        None => None,
        Some("active") => Some(TenantStatus::Active),
        Some("suspended") => Some(TenantStatus::Suspended),
        Some("closed") => Some(TenantStatus::Closed),
        Some(_) => return Err(Error::invalid_field("/status", "unknown status")),
    };
    Ok(TenantFilter {
        // Tenant IDs are lower case.
        prefix: params.filled("q").unwrap_or_default().to_lowercase(),
        status,
        region: params.optional("region")?,
        shard: params.optional("shard")?,
    })
}

fn search(console: &Console, params: &Fields) -> Markup {
    let snapshot = console.plane.fleet().snapshot();
    let chosen = |name: &str, value: &str| params.filled(name) == Some(value);
    html! {
        form class="filter" method="get" action="/console/tenants" role="search" {
            div class="search" {
                label for="q" { "ID begins with" }
                input id="q" name="q" type="search" value=[params.filled("q")] maxlength="64"
                    placeholder="acme" spellcheck="false" autocapitalize="none";
            }
            div {
                label for="shard" { "On shard" }
                select id="shard" name="shard" {
                    option value="" { "any" }
                    @for shard in snapshot.shards() {
                        @let id = shard.value.shard_id.as_str();
                        option value=(id) selected[chosen("shard", id)] { (id) }
                    }
                }
            }
            div {
                label for="region" { "Home region" }
                select id="region" name="region" {
                    option value="" { "any" }
                    @for region in snapshot.regions() {
                        option value=(region) selected[chosen("region", region.as_str())] { (region) }
                    }
                }
            }
            div {
                label for="status" { "Status" }
                select id="status" name="status" {
                    option value="" { "any" }
                    @for status in ["active", "suspended", "closed"] {
                        option value=(status) selected[chosen("status", status)] { (status) }
                    }
                }
            }
            button type="submit" { "Find" }
        }
    }
}

fn table(
    console: &Console,
    found: &[Versioned<Tenant>],
    ends: &WindowEnds,
    params: &Fields,
) -> Markup {
    if found.is_empty() {
        let filters = ["q", "shard", "region", "status"];
        let is_filtered = filters.iter().any(|name| params.filled(name).is_some());
        return nothing(
            if is_filtered {
                "No tenant matches."
            } else {
                "There are no tenants yet."
            },
            &html! {
                @if is_filtered { a href="/console/tenants" { "Show all" } "." }
                @else { "Create one here, or with " code { "ballast tenant create acme" } "." }
            },
        );
    }
    let now = console.plane.now();
    html! {
        div class="scroll" role="region" aria-label="Tenants" tabindex="0" {
            table {
                thead { tr {
                    th { "Tenant" } th { "Name" } th { "Status" } th { "Home" }
                    th { "Shard" } th class="num" { "Epoch" } th { "Created" }
                } }
                tbody {
                    @for Versioned { value: tenant, .. } in found {
                        tr {
                            td { (links::tenant(&tenant.tenant_id)) }
                            td { bdi { (tenant.name) } }
                            td { (status(tenant.status)) }
                            td { (tenant.home_region) }
                            td { (tenant_shards(tenant, ends)) }
                            td class="num" { (tenant.slices.iter().map(|slice| slice.epoch.0).max().unwrap_or(0)) }
                            td class="nowrap" { (moment(tenant.created_at, now)) }
                        }
                    }
                }
            }
        }
    }
}

/// The shards of a tenant's slices.
fn tenant_shards(tenant: &Tenant, ends: &WindowEnds) -> Markup {
    html! {
        @for (number, slice) in tenant.slices.iter().enumerate().take(4) {
            @if number > 0 { ", " }
            (links::shard(&slice.shard_id))
            @if let Some(moving) = &slice.moving {
                " " span class="badge info" { (describe_moving(moving, ends)) }
            }
        }
        @if tenant.slices.len() > 4 { " and " (tenant.slices.len() - 4) " more" }
    }
}

pub(super) fn status(status: TenantStatus) -> Markup {
    match status {
        TenantStatus::Active => badge("good", "active"),
        TenantStatus::Suspended => badge("warn", "suspended"),
        TenantStatus::Closed => badge("calm", "closed"),
    }
}

fn new(visitor: &Visitor) -> Markup {
    html! {
        details class="verb card" {
            summary class="button" { "Create a tenant…" }
            form method="post" action="/console/tenants" {
                (form::hidden(visitor))
                label for="new-id" { "ID: lower-case letters, digits and dashes; cannot be changed or reused" }
                input id="new-id" name="id" required maxlength="64" spellcheck="false" autocapitalize="none";
                label for="new-name" { "Name (default: the ID)" }
                input id="new-name" name="name" maxlength="200";
                label for="new-region" { "Home region (default: the fleet's default)" }
                input id="new-region" name="region" maxlength="64";
                (form::reason("new"))
                button type="submit" class="primary" { "Create" }
            }
        }
        br;
    }
}

/// Creates a tenant.
pub(super) async fn create(
    State(console): State<Console>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    act.visitor.at_least(AdminRole::Operator)?;
    let new = NewTenant {
        tenant_id: act.fields.required("id")?,
        name: act.fields.filled("name").map(str::to_owned),
        organisation: None,
        home_region: act.fields.optional("region")?,
        residency: None,
        zones: Vec::new(),
        limits: TenantLimits::default(),
        cors_origins: Vec::new(),
    };
    let made = tenants::create(&console.plane, &act.intent()?, new).await?;
    let id = &made.value.tenant_id;
    let to = format!("/console/tenants/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("Tenant {id} was created."),
    ))
}
