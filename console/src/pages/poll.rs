//! A poll's live results, and the links that share them.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::registry::typed::Versioned;
use ballast_control_plane::shares::{self, Share};
use ballast_domain::poll::{Poll, PollPhase};
use ballast_domain::token::AdminRole;
use ballast_domain::{PollId, Result, TenantId, Timestamp};
use maud::{Markup, html};

use super::links;
use super::polls::{self, PollListing};
use crate::console::Console;
use crate::live::{LiveUpdate, Source, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::form::{ActionForm, hidden, reason};
use crate::page::format::{counted, moment, nothing, number, to_f64};
use crate::page::layout::Page;
use crate::session::Visitor;

/// How often the counts are read.
const EVERY: Duration = Duration::from_millis(500);
/// Items shown.
const ITEMS: usize = 100;

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path((tenant, poll)): Path<(String, String)>,
) -> Result<Response, ErrorPage> {
    let (tenant, id): (TenantId, PollId) =
        (links::parse_path_id(&tenant)?, links::parse_path_id(&poll)?);
    let found = polls::one(&console, &tenant, id).await?;
    let shared = shares::list_active(&console.plane, &tenant, id).await?;
    let title = polls::title(&found.poll);
    let main = html! {
        p class="crumb" {
            a href="/console/polls" { "Polls" } " · " (links::tenant(&tenant))
        }
        div class="head" { h1 { bdi { (title) } } (polls::phase(&found.poll, console.plane.now())) }
        div class="grid" {
            section class="card w8" aria-labelledby="results" {
                h2 id="results" { "Results" }
                div id="poll-results" { (results(&found, console.plane.now(), true)) }
            }
            div class="stack w4" {
                section class="card" aria-labelledby="about" {
                    h2 id="about" { "About this poll" }
                    (about(&console, &found))
                }
                @if visitor.may(AdminRole::Operator) {
                    section class="card" aria-labelledby="share" {
                        h2 id="share" { "Share" }
                        form method="post" action=(format!("/console/polls/{tenant}/{id}/share")) {
                            (hidden(&visitor))
                            p class="muted small" {
                                "Creates a link that shows these results live, and nothing else, to anyone who has it."
                            }
                            label for="days" { "Expires after (days)" }
                            input id="days" name="days" inputmode="numeric" pattern="[0-9]*" value="30";
                            (reason("share"))
                            div class="row" { button type="submit" { "Create link" } }
                        }
                        (links(&console, &visitor, &shared))
                    }
                }
            }
        }
    };
    let page = Page::new(&console, &visitor, &title);
    Ok(page
        .live(format!("/console/live/polls/{tenant}/{id}"))
        .show(&main))
}

/// The valid links. The links themselves are not stored, only their records.
fn links(console: &Console, visitor: &Visitor, shared: &[Versioned<Share>]) -> Markup {
    let now = console.plane.now();
    html! {
        @if !shared.is_empty() {
            h3 { "Active links" }
            ul class="links" {
                @for Versioned { value: share, .. } in shared {
                    @let (tenant, poll, id) = (&share.tenant_id, share.poll_id, &share.share_id);
                    li {
                        p class="small" { "created " (moment(share.made_at, now)) ", expires " (moment(share.until, now)) }
                        (ActionForm { label: "Remove", action: &format!("/console/polls/{tenant}/{poll}/share/{id}/remove"),
                            version: None, grave: true, description: "The link stops working." }
                            .show(visitor, &html! {}))
                    }
                }
            }
        }
    }
}

fn about(console: &Console, found: &PollListing) -> Markup {
    let (poll, now) = (&found.poll, console.plane.now());
    let options = &poll.spec.options;
    html! {
        dl class="kv" {
            dt { "ID" } dd { code { (poll.poll_id) } }
            dt { "Shard" } dd { (links::shard(&found.shard)) }
            dt { "Created" } dd { (moment(poll.created_at, now)) }
            @if let Some(opens) = poll.spec.opening_time { dt { "Opens" } dd { (moment(opens, now)) } }
            dt { "Closes" } dd { (moment(poll.closed_at.unwrap_or(poll.spec.expiration_time), now)) }
            dt { "Choices" } dd { "up to " (options.choices_max) @if options.vote_changeable { ", may be changed" } }
            dt { "Lanes" } dd { (options.lanes) }
            @if options.results_hidden_until_closed { dt { "Results" } dd { "hidden from the public until it closes" } }
        }
    }
}

/// Whether the counts are hidden from the public.
fn is_hidden(poll: &Poll, now: Timestamp) -> bool {
    poll.spec.options.results_hidden_until_closed && poll.phase(now) != PollPhase::Closed
}

/// The counts as bars, highest first. `all` shows hidden results too, for operators.
pub(super) fn results(found: &PollListing, now: Timestamp, all: bool) -> Markup {
    let poll = &found.poll;
    if is_hidden(poll, now) && !all {
        return nothing("The results are shown when the poll has closed.", &html! {});
    }
    let Some(tally) = &found.tally else {
        return nothing("The counts cannot be read right now.", &html! {});
    };
    let total = tally.total();
    let mut items: Vec<(&str, u64)> = poll
        .spec
        .items
        .iter()
        .map(|item| item.item_name.as_str())
        .zip(tally.counts.iter().copied())
        .collect();
    items.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
    html! {
        p class="muted" { (counted(total, "vote")) " by " (counted(tally.voters, "voter")) }
        br;
        div class="results" {
            @for (name, votes) in items.iter().take(ITEMS) {
                @let share = if total == 0 { 0.0 } else { to_f64(*votes) * 100.0 / to_f64(total) };
                div class="result" {
                    strong { bdi { (name) } }
                    span class="nowrap" { (number(*votes)) " " span class="muted" { (format!("{share:.1} %")) } }
                    svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img"
                        aria-label=(format!("{share:.1} percent")) {
                        rect class="track" width="100" height="6" {}
                        rect class="fill" width=(format!("{share:.2}")) height="6" {}
                    }
                }
            }
        }
        @if items.len() > ITEMS { p class="muted" { "and " (counted((items.len() - ITEMS) as u64, "item")) " with fewer votes" } }
    }
}

/// Live updates of the page.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path((tenant, poll)): Path<(String, String)>,
) -> Result<Response, ErrorPage> {
    let source = PollResultsSource::new(
        &console,
        links::parse_path_id(&tenant)?,
        links::parse_path_id(&poll)?,
        true,
    );
    stream_updates(&console, ViewerAccess::Session(visitor.session), source)
}

/// A live source of a poll's counts.
pub(super) struct PollResultsSource {
    console: Console,
    tenant: TenantId,
    poll: PollId,
    all: bool,
    first: bool,
}

impl PollResultsSource {
    pub(super) fn new(console: &Console, tenant: TenantId, poll: PollId, all: bool) -> Self {
        Self {
            console: console.clone(),
            tenant,
            poll,
            all,
            first: true,
        }
    }
}

impl Source for PollResultsSource {
    async fn next(&mut self) -> Option<Vec<LiveUpdate>> {
        loop {
            if !std::mem::take(&mut self.first) {
                tokio::time::sleep(EVERY).await;
            }
            // An unreachable shard does not end the stream.
            if let Ok(found) = polls::one(&self.console, &self.tenant, self.poll).await {
                let shown = results(&found, self.console.plane.now(), self.all);
                return Some(vec![LiveUpdate::Parts(vec![("poll-results", shown)])]);
            }
        }
    }
}
