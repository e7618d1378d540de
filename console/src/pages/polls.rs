//! Polls: the busiest of the fleet, or those of one tenant.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::tenants;
use ballast_domain::poll::{Poll, PollPhase};
use ballast_domain::tenant::{SliceId, Tenant, find_slice};
use ballast_domain::{Error, ErrorCode, PollId, Result, ShardId, TenantId, Timestamp};
use ballast_vote_shard::{Tally, VoteShard};
use maud::{Markup, html};
use tokio::sync::watch;

use super::links;
use crate::census::{FleetFigures, PollFigure};
use crate::console::Console;
use crate::fields::Fields;
use crate::live::{LiveUpdate, Source, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::format::{badge, listing, moment, nothing, number};
use crate::page::layout::Page;
use crate::session::Visitor;
use crate::titles::load_titles;

/// Polls listed for a tenant.
const LISTED: usize = 200;

/// A poll with its counts.
pub(super) struct PollListing {
    pub(super) tenant: TenantId,
    pub(super) shard: ShardId,
    pub(super) poll: Poll,
    pub(super) tally: Option<Tally>,
}

/// The client of a shard.
pub(super) fn shard_client(console: &Console, id: &ShardId) -> Result<Arc<dyn VoteShard>> {
    let movers = console.plane.migration_backends().ok_or_else(|| {
        let error = Error::new(ErrorCode::Unavailable, "the shards are not ready yet");
        error.retry_after(1)
    })?;
    movers.shards.shard(id).map_err(Error::from)
}

/// A tenant's newest polls, from the shards that can be read.
pub(super) struct TenantPolls {
    pub(super) polls: Vec<PollListing>,
    /// The shards that could not be read, and why.
    pub(super) away: Vec<(ShardId, String)>,
}

/// A tenant's newest polls.
pub(super) async fn tenant_polls(console: &Console, tenant: &Tenant, most: usize) -> TenantPolls {
    let mut found = Vec::new();
    let mut away = Vec::new();
    for slice in &tenant.slices {
        let id = SliceId {
            tenant_id: tenant.tenant_id.clone(),
            slice: slice.slice,
        };
        let listing = match shard_client(console, &slice.shard_id) {
            Ok(shard) => shard.polls(&id, None, LISTED).await.map_err(Error::from),
            Err(error) => Err(error),
        };
        match listing {
            Ok(polls) => {
                let polls = polls.into_iter();
                found.extend(polls.map(|poll| (id.clone(), slice.shard_id.clone(), poll)));
            }
            Err(error) => away.push((slice.shard_id.clone(), error.to_string())),
        }
    }
    found.sort_by_key(|(_, _, poll)| std::cmp::Reverse(poll.created_at));
    found.truncate(most);
    let mut listed = Vec::new();
    for (slice, shard_id, poll) in found {
        let tally = match shard_client(console, &shard_id) {
            Ok(shard) => shard.tally(&slice, poll.poll_id).await.ok(),
            Err(_) => None,
        };
        listed.push(PollListing {
            tenant: slice.tenant_id,
            shard: shard_id,
            poll,
            tally,
        });
    }
    TenantPolls {
        polls: listed,
        away,
    }
}

/// One poll of a tenant, with its counts.
pub(super) async fn one(console: &Console, tenant: &TenantId, poll: PollId) -> Result<PollListing> {
    let found = tenants::get(&console.plane, tenant).await?;
    let slice = find_slice(&found.value.slices, poll).ok_or_else(|| {
        let detail = format!("tenant {tenant} has no slice for {poll}");
        Error::new(ErrorCode::PollNotFound, detail)
    })?;
    let id = SliceId {
        tenant_id: tenant.clone(),
        slice: slice.slice,
    };
    let shard = shard_client(console, &slice.shard_id)?;
    let known = shard.poll(&id, poll).await.map_err(Error::from)?;
    let tally = shard.tally(&id, poll).await.map_err(Error::from)?;
    Ok(PollListing {
        tenant: tenant.clone(),
        shard: slice.shard_id.clone(),
        poll: known,
        tally: Some(tally),
    })
}

/// A poll's title, or its ID.
pub(super) fn title(poll: &Poll) -> String {
    let title = poll.spec.title.clone();
    title.unwrap_or_else(|| poll.poll_id.to_string())
}

/// The badge of a poll's phase.
pub(super) fn phase(poll: &Poll, now: Timestamp) -> Markup {
    match poll.phase(now) {
        PollPhase::Open => badge("good", "open"),
        PollPhase::Scheduled => badge("info", "scheduled"),
        PollPhase::Closed => badge("calm", "closed"),
    }
}

/// Polls as a table.
pub(super) fn table(console: &Console, found: &TenantPolls, empty: &str) -> Markup {
    html! {
        @for (shard, why) in &found.away {
            p class="note bad" { (links::shard(shard)) " cannot be read right now; its polls are missing from this list: " (why) }
        }
        @if !found.polls.is_empty() || found.away.is_empty() { (rows(console, &found.polls, empty)) }
    }
}

fn rows(console: &Console, polls: &[PollListing], empty: &str) -> Markup {
    if polls.is_empty() {
        return nothing(
            empty,
            &html! { "Tenants create polls with their API keys: " code { "POST /polls" } "." },
        );
    }
    let now = console.plane.now();
    let head = html! {
        th { "Poll" } th { "State" } th { "Shard" } th class="num" { "Items" }
        th class="num" { "Votes" } th { "Created" } th { "Closes" }
    };
    let rows = html! {
        @for PollListing { tenant, shard, poll, tally } in polls {
            tr {
                td { a href=(format!("/console/polls/{tenant}/{}", poll.poll_id)) { bdi { (title(poll)) } } }
                td { (phase(poll, now)) }
                td { (links::shard(shard)) }
                td class="num" { (poll.spec.items.len()) }
                td class="num" { @match tally { Some(tally) => { (number(tally.total())) } None => { "—" } } }
                td class="nowrap" { (moment(poll.created_at, now)) }
                td class="nowrap" { (moment(poll.closed_at.unwrap_or(poll.spec.expiration_time), now)) }
            }
        }
    };
    listing("Polls", &head, &rows)
}

/// The page.
pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let tenant: Option<TenantId> = params.optional("tenant")?;
    let main = html! {
        div class="head" { h1 { "Polls" } }
        form class="filter" method="get" action="/console/polls" role="search" {
            div class="search" {
                label for="tenant" { "Polls of tenant" }
                input id="tenant" name="tenant" type="search" value=[params.filled("tenant")] spellcheck="false" autocapitalize="none";
            }
            button type="submit" { "Show" }
            @if tenant.is_some() { a class="button" href="/console/polls" { "Busiest polls" } }
        }
        @if let Some(tenant) = &tenant {
            @let found = tenants::get(&console.plane, tenant).await?;
            section class="card tight" {
                h2 { "Newest polls of " (links::tenant(tenant)) }
                (table(&console, &tenant_polls(&console, &found.value, LISTED).await, "This tenant has no polls."))
            }
        } @else {
            section class="card tight" {
                h2 { "Busiest open polls" }
                div id="polls-live" { (busiest_table(&load_titles(&console, &console.census.newest().polls).await)) }
            }
        }
    };
    let page = Page::new(&console, &visitor, "Polls");
    let page = match tenant {
        None => page.live("/console/live/polls"),
        Some(_) => page,
    };
    Ok(page.show(&main))
}

fn busiest_table(polls: &[(&PollFigure, String)]) -> Markup {
    if polls.is_empty() {
        return nothing(
            "No polls are open.",
            &html! { "Tenants create polls with their API keys: " code { "POST /polls" } "." },
        );
    }
    html! {
        div class="scroll" role="region" aria-label="Busiest open polls" tabindex="0" {
            table {
                thead { tr {
                    th { "Poll" } th { "Tenant" } th { "Shard" }
                    th class="num" { "Votes/s" } th class="num" { "Votes" }
                } }
                tbody {
                    @for (poll, title) in polls {
                        tr {
                            td { a href=(format!("/console/polls/{}/{}", poll.slice.tenant_id, poll.poll)) { bdi { (title) } } }
                            td { (links::tenant(&poll.slice.tenant_id)) }
                            td { (links::shard(&poll.shard)) }
                            td class="num" { (number(poll.rate)) }
                            td class="num" { (number(poll.votes)) }
                        }
                    }
                }
            }
        }
    }
}

/// Live updates of the page.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
) -> Result<Response, ErrorPage> {
    let source = BusiestPollsSource(console.clone(), console.census.follow());
    stream_updates(&console, ViewerAccess::Session(visitor.session), source)
}

struct BusiestPollsSource(Console, watch::Receiver<Arc<FleetFigures>>);

impl Source for BusiestPollsSource {
    async fn next(&mut self) -> Option<Vec<LiveUpdate>> {
        self.1.changed().await.ok()?;
        let fleet = self.1.borrow_and_update().clone();
        let shown = busiest_table(&load_titles(&self.0, &fleet.polls).await);
        Some(vec![LiveUpdate::Parts(vec![("polls-live", shown)])])
    }
}
