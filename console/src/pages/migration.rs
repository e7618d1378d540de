//! A migration: its state machine with the current state, its figures, its actions, and
//! its certificate.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_control_plane::migrations;
use ballast_control_plane::migrations::WAIT_FOR_MAINTENANCE;
use ballast_control_plane::migrations::body::{MigrationBody, parse_migration_id};
use ballast_control_plane::migrations::commands::{self, MigrationCommand};
use ballast_control_plane::workflows::executions;
use ballast_domain::certificate::{SignedCertificate, VoteProof};
use ballast_domain::migration::{Migration, MigrationFinding, MigrationStage, OperatorRequest};
use ballast_domain::moving::MigrationId;
use ballast_domain::token::AdminRole;
use ballast_domain::{Error, ErrorCode, Result, Timestamp};
use ballast_state_machines::core::HistoryEvent;
use ballast_state_machines::store::HistoryQuery;
use maud::{Markup, html};

use super::machine::progress_text;
use super::{links, machine};
use crate::console::Console;
use crate::form_submission::FormSubmission;
use crate::live::{LiveUpdate, Source, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form::ActionForm;
use crate::page::format::{bytes, counted, moment, number, progress, span, status};
use crate::page::layout::Page;
use crate::session::Visitor;
use crate::story::Story;

/// History events read.
const HISTORY: usize = 1_000;
/// How often the page is rendered again while the registry does not change.
const EVERY: Duration = Duration::from_millis(300);

/// Everything the page shows.
struct MigrationPage {
    body: MigrationBody,
    history: Vec<HistoryEvent>,
    story: Option<Story>,
    now: Timestamp,
}

async fn load_page(console: &Console, id: &MigrationId) -> Result<MigrationPage> {
    let body = migrations::show(&console.plane, id).await?;
    let query = HistoryQuery {
        after: None,
        newest_first: false,
        limit: HISTORY,
    };
    // The history of an old execution may have been deleted; the migration's record is kept.
    let history = executions::history(&console.plane, &body.execution_id, &query).await;
    Ok(MigrationPage {
        history: history.map(|page| page.events).unwrap_or_default(),
        story: console.story(),
        now: console.plane.now(),
        body,
    })
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let data = load_page(&console, &parse_migration_id(&id)?).await?;
    let moved = &data.body.migration.value;
    let title = format!("{}: {} → {}", moved.tenant_id, moved.from, moved.to);
    let parts = data.parts(visitor.may(AdminRole::Operator).then_some(&visitor));
    let part = |wanted: &str| {
        parts
            .iter()
            .find(|(id, _)| *id == wanted)
            .map(|(_, part)| part)
    };
    let main = html! {
        p class="crumb" { a href="/console/moves" { "Migrations" } }
        div id="move-story" { (part("move-story").cloned().unwrap_or_default()) }
        div id="move-head" { (part("move-head").cloned().unwrap_or_default()) }
        div class="grid" {
            section class="card w5" aria-label="State machine" id="move-machine" {
                (part("move-machine").cloned().unwrap_or_default())
            }
            div class="stack w7" {
                @for id in ["move-phase", "move-verbs", "move-figures", "move-certificate"] {
                    div id=(id) { (part(id).cloned().unwrap_or_default()) }
                }
            }
            div id="move-history" { (part("move-history").cloned().unwrap_or_default()) }
        }
    };
    let page = Page::new(&console, &visitor, &title);
    let page = match data.is_over() {
        true => page,
        false => page.live(format!("/console/live/moves/{id}")),
    };
    Ok(page.show(&main))
}

/// Live updates of the page.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let id = parse_migration_id(&id)?;
    // An unknown ID is rejected before the stream starts.
    migrations::show(&console.plane, &id).await?;
    let right = ViewerAccess::Session(visitor.session.clone());
    let source = MigrationSource {
        console: console.clone(),
        visitor,
        id,
        first: true,
        over: false,
    };
    stream_updates(&console, right, source)
}

struct MigrationSource {
    console: Console,
    visitor: Visitor,
    id: MigrationId,
    first: bool,
    over: bool,
}

impl Source for MigrationSource {
    async fn next(&mut self) -> Option<Vec<LiveUpdate>> {
        if self.over {
            return None;
        }
        if !self.first {
            let registry = self.console.plane.registry();
            let revision = registry.revision().await.ok()?;
            let _ = tokio::time::timeout(EVERY, registry.wait_past(revision)).await;
        }
        self.first = false;
        let data = load_page(&self.console, &self.id).await.ok()?;
        self.over = data.is_over();
        let may = self.visitor.may(AdminRole::Operator);
        let mut updates = vec![LiveUpdate::Parts(data.parts(may.then_some(&self.visitor)))];
        if self.over {
            updates.push(LiveUpdate::End);
        }
        Some(updates)
    }
}

/// The certificate as a file.
pub(super) async fn certificate(
    State(console): State<Console>,
    _: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let id = parse_migration_id(&id)?;
    let found = migrations::get(&console.plane, &id).await?;
    let Some(signed) = found.value.certificate else {
        let detail = format!("migration {id} has no certificate yet: it has not ended");
        return Err(Error::new(ErrorCode::NotFound, detail).into());
    };
    let text = serde_json::to_string(&signed)
        .map_err(|source| Error::internal("write the certificate", source))?;
    let name = format!("attachment; filename=\"certificate-{id}.json\"");
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, text).into_response())
}

/// The actions on a migration: path segment, label, description, and whether the action
/// cannot be undone.
const ACTIONS: [(MigrationCommand, &str, &str, &str, bool); 9] = [
    (
        MigrationCommand::Approve,
        "approve",
        "Approve",
        "Allows this large migration to begin.",
        false,
    ),
    (
        MigrationCommand::StartNow,
        "start-now",
        "Start now",
        "Starts the migration without waiting for a maintenance window. A reason is required.",
        true,
    ),
    (
        MigrationCommand::Pause,
        "pause",
        "Pause",
        "Pauses the migration. Voting continues.",
        false,
    ),
    (
        MigrationCommand::Resume,
        "resume",
        "Resume",
        "Resumes the migration.",
        false,
    ),
    (
        MigrationCommand::Complete,
        "complete",
        "Complete",
        "Ends the migration window now: the source's copy is removed, and the migration can no longer be reversed.",
        true,
    ),
    (
        MigrationCommand::WithoutSource,
        "complete-without-source",
        "Complete without source",
        "Ends the migration window although the source is unreachable: its copy is removed when it is back, \
         and the migration can no longer be reversed.",
        true,
    ),
    (
        MigrationCommand::Reverse,
        "reverse",
        "Reverse",
        "Moves the tenant back to the source shard, with all votes.",
        true,
    ),
    (
        MigrationCommand::AcceptLoss,
        "accept-loss",
        "Accept loss",
        "Moves the tenant back without the target, which is lost for good: votes that only \
         the target has are lost. A reason is required.",
        true,
    ),
    (
        MigrationCommand::Cancel,
        "cancel",
        "Cancel",
        "Cancels the migration: the tenant stays on the source shard.",
        true,
    ),
];

/// The role that an action needs.
fn role_for(ask: MigrationCommand) -> AdminRole {
    match ask {
        MigrationCommand::AcceptLoss => AdminRole::Admin,
        _ => AdminRole::Operator,
    }
}

/// Whether an action is offered in the current state. The control plane decides whether
/// it is allowed.
fn is_offered(moved: &Migration, ask: MigrationCommand) -> bool {
    let before = matches!(
        moved.stage,
        MigrationStage::Asked | MigrationStage::Admitted
    );
    let window = moved.stage == MigrationStage::CutOver;
    let going_back = moved.asked.back.is_some();
    let paused = moved.asked.paused.is_some();
    match ask {
        MigrationCommand::Approve => {
            moved.terms.needs_approval && before && moved.asked.approved.is_none()
        }
        MigrationCommand::StartNow => {
            let waits = moved.waiting_for.as_deref().unwrap_or_default();
            moved.asked.start_now.is_none() && waits.starts_with(WAIT_FOR_MAINTENANCE)
        }
        MigrationCommand::Pause => (before || window) && !paused && !going_back,
        MigrationCommand::Resume => !moved.is_over() && paused,
        MigrationCommand::Complete => window && !going_back && moved.asked.complete.is_none(),
        MigrationCommand::Reverse => window && !going_back,
        // Only while the migration waits for the target: accepting loss must not be the easy way.
        MigrationCommand::AcceptLoss => {
            window && moved.waiting_for.is_some() && moved.asked.accept_loss.is_none()
        }
        MigrationCommand::Cancel => before && !going_back,
        MigrationCommand::WithoutSource => {
            window
                && !going_back
                && moved.waiting_for.is_some()
                && moved.asked.without_source.is_none()
        }
        // Only offered on the command line.
        MigrationCommand::Discard => false,
    }
}

/// Requests an action on a migration.
pub(super) async fn ask(
    State(console): State<Console>,
    Path((id, verb)): Path<(String, String)>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    let id = parse_migration_id(&id)?;
    let Some((what, _, label, ..)) = ACTIONS.into_iter().find(|(_, name, ..)| *name == verb) else {
        act.visitor.at_least(AdminRole::Operator)?;
        return Err(Error::new(ErrorCode::NotFound, "no such page").into());
    };
    act.visitor.at_least(role_for(what))?;
    // The control plane checks the action against the current state, so no version is needed.
    let any = ballast_control_plane::change::IfMatch::Any;
    commands::apply_command(&console.plane, &act.intent()?, &id, &any, what).await?;
    let to = format!("/console/moves/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("{label}: requested."),
    ))
}

impl MigrationPage {
    /// Whether the page no longer changes. A demonstration may continue after its migration.
    fn is_over(&self) -> bool {
        let story_is_over = self.story.as_ref().is_none_or(Story::is_over);
        self.body.status.is_end() && story_is_over
    }

    /// The parts of the page; `visitor` is set if actions are allowed.
    fn parts(&self, visitor: Option<&Visitor>) -> Vec<(&'static str, Markup)> {
        let moved = &self.body.migration.value;
        vec![
            (
                "move-story",
                self.story
                    .as_ref()
                    .map(|story| story.show(self.now))
                    .unwrap_or_default(),
            ),
            ("move-head", self.head()),
            (
                "move-machine",
                machine::diagram(&self.body, &self.entered()),
            ),
            ("move-phase", self.phase()),
            (
                "move-verbs",
                visitor
                    .map(|visitor| self.verbs(visitor))
                    .unwrap_or_default(),
            ),
            ("move-figures", self.figures()),
            ("move-certificate", certificate_card(moved)),
            ("move-history", self.history_table()),
        ]
    }

    fn entered(&self) -> Vec<String> {
        let entered = self.history.iter().filter(|event| is_entry(event));
        entered
            .filter_map(|event| event.name())
            .map(str::to_owned)
            .collect()
    }

    fn head(&self) -> Markup {
        let moved = &self.body.migration.value;
        html! {
            div class="head" {
                h1 { (links::tenant(&moved.tenant_id)) @if moved.slice > 0 { " slice " (moved.slice) } }
                span { (links::route(&moved.from, &moved.to)) }
                span id="move-status" { (status(self.body.status)) }
                span class="muted mono small" { (moved.migration_id) }
            }
        }
    }

    fn phase(&self) -> Markup {
        let moved = &self.body.migration.value;
        let step_progress = &self.body.progress;
        let total = step_progress.total.unwrap_or(0);
        html! {
            section class="card" aria-labelledby="phase" {
                h2 id="phase" { @if self.body.status.is_end() { "Ended in " } @else { "Now: " } span id="phase-name" { (self.body.phase) } }
                @if !self.body.status.is_end() {
                    (progress(step_progress.done, total, "Progress of this step"))
                    p class="small" {
                        @if let Some(text) = progress_text(&self.body) { strong { (text) } " · " }
                        (number(step_progress.done)) @if total > 0 { " of " (number(total)) } " " (step_progress.unit)
                        @if let Some(rate) = step_progress.per_second { " · " (number(rate)) " per second" }
                    }
                    @if let Some(note) = &step_progress.note { p class="muted" { (note) } }
                }
                @if let Some(ended) = &moved.ended {
                    p { (moment(ended.at, self.now)) @if let Some(why) = &ended.why { ": " (why) } }
                }
                (requests_so_far(moved, self.now))
            }
        }
    }

    fn verbs(&self, visitor: &Visitor) -> Markup {
        let moved = &self.body.migration.value;
        let fitting: Vec<_> = ACTIONS
            .into_iter()
            .filter(|(what, ..)| is_offered(moved, *what) && visitor.may(role_for(*what)))
            .collect();
        html! {
            @if !fitting.is_empty() {
                section class="card" aria-label="Actions" {
                    div class="verbs" {
                        @for (_, name, label, description, grave) in fitting {
                            (ActionForm { label, action: &format!("/console/moves/{}/{name}", moved.migration_id),
                                description, grave, version: None }.show(visitor, &html! {}))
                        }
                    }
                }
            }
        }
    }

    fn figures(&self) -> Markup {
        let moved = &self.body.migration.value;
        let figures = &moved.figures;
        let expected = moved.price.as_ref();
        html! {
            section class="card" aria-labelledby="figures" {
                h2 id="figures" { "Figures" }
                dl class="strip" {
                    div { dt { "Write pause" } dd id="move-pause" {
                        @match figures.pause_ms { Some(ms) => { (ms) " ms" } None => { "—" } }
                        @if let Some(price) = expected { " " small { "expected " (price.pause_ms) " ms" } }
                    } }
                    div { dt { "Rows copied" } dd { (number(figures.rows))
                        @if let Some(price) = expected { " " small { (expected_rows(figures.rows, price.rows)) } } } }
                    div { dt { "Bytes copied" } dd { (bytes(figures.bytes)) } }
                    div { dt { "Rows compared" } dd { (number(figures.compared)) } }
                    div { dt { "Differences" } dd { (number(figures.differences)) } }
                    div { dt { "Stragglers" } dd { (number(figures.stragglers)) } }
                }
                dl class="kv" {
                    dt { "Requested" } dd { (moment(moved.requested_at, self.now)) " by " (moved.actor)
                        @if let Some(reason) = &moved.reason { ": " (reason) } }
                    @if let Some(at) = figures.copying_since { dt { "Copying since" } dd { (moment(at, self.now)) } }
                    @if let Some(at) = figures.cut_over_at { dt { "Cut over" } dd { (moment(at, self.now)) } }
                    dt { "Migration window" } dd { (span(moved.terms.window_ms)) }
                    @if let Some(most) = moved.terms.max_pause_ms { dt { "Maximum write pause" } dd { (most) " ms"
                        @if figures.put_off > 0 { ", postponed " (counted(figures.put_off.into(), "time")) } } }
                    @if figures.repaired > 0 { dt { "Repaired" } dd { (counted(figures.repaired, "row")) } }
                }
                @if !moved.findings.is_empty() { (findings(&moved.findings, self.now)) }
            }
        }
    }

    fn history_table(&self) -> Markup {
        let entered = self.history.iter().filter(|event| is_entry(event));
        let entered: Vec<_> = entered.collect();
        let skipped = entered.len().saturating_sub(200);
        html! {
            @if !entered.is_empty() {
                section class="card tight" aria-labelledby="history" {
                    details class="more" {
                        summary id="history" { "States entered: " (number(entered.len() as u64)) }
                        div class="scroll" role="region" aria-label="History" tabindex="0" {
                            table {
                                thead { tr { th class="num" { "#" } th { "State" } th { "Time" } } }
                                tbody {
                                    @for event in entered.into_iter().skip(skipped) {
                                        tr {
                                            td class="num" { (event.id) }
                                            td { (event.name().unwrap_or("—")) }
                                            td class="nowrap mono small" { (Timestamp::from_unix_ms(event.at_ms)) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The expected number of rows. More rows are often copied: new votes, and the way back.
fn expected_rows(rows: u64, expected: u64) -> String {
    match rows > expected {
        true => format!("{} expected; new votes are copied too", number(expected)),
        false => format!("of about {}", number(expected)),
    }
}

fn is_entry(event: &HistoryEvent) -> bool {
    event.details.contains_key("name") && event.details.contains_key("input")
}

fn requests_so_far(moved: &Migration, now: Timestamp) -> Markup {
    let requests = &moved.asked;
    let line = |what: &str, request: &OperatorRequest| {
        html! {
            li { (what) " " (moment(request.at, now)) " by " (request.actor)
                @if let Some(reason) = &request.reason { ": " (reason) } }
        }
    };
    html! {
        @if !requests.is_empty() {
            ul class="small muted" {
                @if let Some(request) = &requests.approved { (line("approved", request)) }
                @if let Some(request) = &requests.paused { (line("paused", request)) }
                @if let Some(back) = &requests.back { (line("reversal requested", &back.word)) }
                @if let Some(request) = &requests.accept_loss { (line("loss accepted", request)) }
                @if let Some(request) = &requests.complete { (line("completion requested", request)) }
            }
        }
    }
}

fn findings(findings: &[MigrationFinding], now: Timestamp) -> Markup {
    html! {
        h3 { "Findings" }
        ul {
            @for finding in findings {
                li { (moment(finding.at, now)) ", " (finding.phase) " on " (finding.shard) ": "
                    (finding.what) "; " (finding.then) }
            }
        }
    }
}

fn certificate_card(moved: &Migration) -> Markup {
    let Some(signed) = &moved.certificate else {
        return html! {};
    };
    html! {
        section class="card" id="certificate" aria-labelledby="certificate-title" {
            div class="head" {
                h2 id="certificate-title" { "Certificate" }
                div class="grow" {}
                a class="button" href=(format!("/console/moves/{}/certificate", moved.migration_id)) download="" { "Download" }
            }
            (certificate_details(signed))
        }
    }
}

fn certificate_details(signed: &SignedCertificate) -> Markup {
    let certificate = &signed.certificate;
    html! {
        @if let Some(votes) = &certificate.votes { (vote_proof("At the cutover", votes)) }
        @if let Some(votes) = &certificate.votes_back { (vote_proof("On the way back", votes)) }
        @if let Some(lost) = &certificate.given_up {
            @let (class, what) = if lost.synced { ("note warn", "Abandoned: ") } else { ("note bad", "Votes lost: ") };
            p class=(class) role="note" id="given-up" { strong { (what) } (lost.describe())
                @if let Some(reason) = &lost.reason { ": " (reason) } }
        }
        dl class="kv" {
            dt { "Owner now" } dd { (links::shard(&certificate.owner)) ", epoch " (certificate.epoch.0) }
            dt { "Write pause" } dd { @match certificate.pause_ms { Some(ms) => { (ms) " ms" } None => { "none" } } }
            dt { "Duration" } dd { (span(certificate.duration_ms)) }
            @if let Some(why) = &certificate.why { dt { "Reason" } dd { (why) } }
            dt { "Signature" } dd { code class="small" { (signed.signature) } }
            dt { "Public key" } dd { code class="small" { (signed.public_key) } }
            dt { "To verify" } dd { code class="small" { "ballast migration verify-certificate FILE" } }
        }
    }
}

fn vote_proof(when: &str, votes: &VoteProof) -> Markup {
    let lost = votes.acknowledged.saturating_sub(votes.present);
    html! {
        h3 { (when) }
        dl class="strip" {
            div { dt { "Acknowledged" } dd { (number(votes.acknowledged)) } }
            div { dt { "Found" } dd { (number(votes.present)) } }
            div { dt { "Lost" } dd { (number(lost)) } }
            div { dt { "Doubled" } dd { (number(votes.duplicates)) } }
            div { dt { "Digests" } dd { @if votes.source_digest == votes.target_digest { "equal" } @else { "differ" } } }
        }
    }
}
