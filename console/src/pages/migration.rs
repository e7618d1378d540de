//! A move: its state machine with the live position, its figures, what can be
//! asked of it, and its certificate.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_control_plane::migrations;
use ballast_control_plane::migrations::ask::{self, Ask};
use ballast_control_plane::migrations::body::{MigrationBody, move_id};
use ballast_control_plane::workflows::executions;
use ballast_domain::certificate::{Signed, VotesProved};
use ballast_domain::migration::{Finding, Migration, Stage, Word};
use ballast_domain::moving::MoveId;
use ballast_domain::token::Role;
use ballast_domain::{Error, ErrorCode, Result, Timestamp};
use ballast_state_machines::core::HistoryEvent;
use ballast_state_machines::store::HistoryQuery;
use maud::{Markup, html};

use super::machine::how_far;
use super::{machine, names};
use crate::act::Act;
use crate::console::Console;
use crate::live::{Right, Source, Told, streamed};
use crate::page::error::Broken;
use crate::page::flash::done;
use crate::page::form::Verb;
use crate::page::layout::Page;
use crate::page::words::{bytes, moment, number, progress, span, status};
use crate::session::Visitor;
use crate::story::Story;

/// Events of the history that are looked at.
const HISTORY: usize = 1_000;
/// How often it is looked at a move while nothing is written of it.
const EVERY: Duration = Duration::from_millis(300);

/// All that the page shows.
struct Seen {
    body: MigrationBody,
    history: Vec<HistoryEvent>,
    story: Option<Story>,
    now: Timestamp,
}

async fn seen(console: &Console, id: &MoveId) -> Result<Seen> {
    let body = migrations::show(&console.plane, id).await?;
    let query = HistoryQuery {
        after: None,
        newest_first: false,
        limit: HISTORY,
    };
    // An execution that is long over is forgotten; its move is not.
    let told = executions::history(&console.plane, &body.execution_id, &query).await;
    Ok(Seen {
        history: told.map(|told| told.events).unwrap_or_default(),
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
) -> Result<Response, Broken> {
    let seen = seen(&console, &move_id(&id)?).await?;
    let moved = &seen.body.migration.value;
    let title = format!("{}: {} → {}", moved.tenant_id, moved.from, moved.to);
    let parts = seen.parts(visitor.may(Role::Operator).then_some(&visitor));
    let part = |wanted: &str| {
        parts
            .iter()
            .find(|(id, _)| *id == wanted)
            .map(|(_, part)| part)
    };
    let main = html! {
        p class="crumb" { a href="/console/moves" { "Moves" } }
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
    let page = match seen.is_over() {
        true => page,
        false => page.live(format!("/console/live/moves/{id}")),
    };
    Ok(page.show(&main))
}

/// The page as it changes.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    let id = move_id(&id)?;
    // It is refused before anything is sent if there is none.
    migrations::show(&console.plane, &id).await?;
    let right = Right::Session(visitor.session.clone());
    let source = Live {
        console: console.clone(),
        visitor,
        id,
        first: true,
        over: false,
    };
    streamed(&console, right, source)
}

struct Live {
    console: Console,
    visitor: Visitor,
    id: MoveId,
    first: bool,
    over: bool,
}

impl Source for Live {
    async fn next(&mut self) -> Option<Vec<Told>> {
        if self.over {
            return None;
        }
        if !self.first {
            let registry = self.console.plane.registry();
            let revision = registry.revision().await.ok()?;
            let _ = tokio::time::timeout(EVERY, registry.wait_past(revision)).await;
        }
        self.first = false;
        let seen = seen(&self.console, &self.id).await.ok()?;
        self.over = seen.is_over();
        let may = self.visitor.may(Role::Operator);
        let mut told = vec![Told::Parts(seen.parts(may.then_some(&self.visitor)))];
        if self.over {
            told.push(Told::End);
        }
        Some(told)
    }
}

/// The certificate as a file.
pub(super) async fn certificate(
    State(console): State<Console>,
    _: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    let id = move_id(&id)?;
    let found = migrations::get(&console.plane, &id).await?;
    let Some(signed) = found.value.certificate else {
        let detail = format!("move {id} has no certificate: it is not over");
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

/// What can be asked of a move: its word in paths, what is on the button, what
/// it does, and whether it cannot be undone.
const VERBS: [(Ask, &str, &str, &str, bool); 8] = [
    (
        Ask::Approve,
        "approve",
        "Approve",
        "It may begin, although it is large.",
        false,
    ),
    (
        Ask::Pause,
        "pause",
        "Pause",
        "It does not go on for now. Nothing that it holds keeps votes out.",
        false,
    ),
    (Ask::Resume, "resume", "Resume", "It goes on.", false),
    (
        Ask::Complete,
        "complete",
        "Complete",
        "The window ends now: the source's copy is removed, and there is no way back.",
        true,
    ),
    (
        Ask::WithoutSource,
        "complete-without-source",
        "Complete without source",
        "The window ends although the source is away: its copy is removed when it answers again, \
         and there is no way back.",
        true,
    ),
    (
        Ask::Reverse,
        "reverse",
        "Reverse",
        "The slice is brought back to where it was, with all votes.",
        true,
    ),
    (
        Ask::AcceptLoss,
        "accept-loss",
        "Accept loss",
        "The slice is brought back without its target, which is away for good: votes that only \
         the target has are given up. A reason is needed.",
        true,
    ),
    (
        Ask::Cancel,
        "cancel",
        "Cancel",
        "It is called off: everything is as it was.",
        true,
    ),
];

/// Who may ask this.
fn role_for(ask: Ask) -> Role {
    match ask {
        Ask::AcceptLoss => Role::Admin,
        _ => Role::Operator,
    }
}

/// Whether it makes sense to ask this now. The control plane decides.
fn makes_sense(moved: &Migration, ask: Ask) -> bool {
    let before = matches!(moved.stage, Stage::Asked | Stage::Admitted);
    let window = moved.stage == Stage::CutOver;
    let going_back = moved.asked.back.is_some();
    let paused = moved.asked.paused.is_some();
    match ask {
        Ask::Approve => moved.terms.needs_approval && before && moved.asked.approved.is_none(),
        Ask::Pause => (before || window) && !paused && !going_back,
        Ask::Resume => !moved.is_over() && paused,
        Ask::Complete => window && !going_back && moved.asked.complete.is_none(),
        Ask::Reverse => window && !going_back,
        // Only where it waits already: it must not be the easy way.
        Ask::AcceptLoss => {
            window && moved.waiting_for.is_some() && moved.asked.accept_loss.is_none()
        }
        Ask::Cancel => before && !going_back,
        Ask::WithoutSource => {
            window
                && !going_back
                && moved.waiting_for.is_some()
                && moved.asked.without_source.is_none()
        }
        // For the command line.
        Ask::Discard => false,
    }
}

/// Asks something of a move.
pub(super) async fn ask(
    State(console): State<Console>,
    Path((id, verb)): Path<(String, String)>,
    act: Act,
) -> Result<Response, Broken> {
    let id = move_id(&id)?;
    let Some((what, _, label, ..)) = VERBS.into_iter().find(|(_, name, ..)| *name == verb) else {
        act.visitor.at_least(Role::Operator)?;
        return Err(Error::new(ErrorCode::NotFound, "there is no such page").into());
    };
    act.visitor.at_least(role_for(what))?;
    // What is asked fits whatever has become of it meanwhile, or is refused.
    let any = ballast_control_plane::change::IfMatch::Any;
    ask::ask(&console.plane, &act.intent()?, &id, &any, what).await?;
    let to = format!("/console/moves/{id}");
    Ok(done(&console, &to, format!("{label}: asked for.")))
}

impl Seen {
    /// Whether the page changes no more: a story may go on after its move.
    fn is_over(&self) -> bool {
        let told = self.story.as_ref().is_none_or(Story::is_over);
        self.body.status.is_end() && told
    }

    /// The parts of the page; `visitor` when it may act.
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
            ("move-machine", machine::drawn(&self.body, &self.entered())),
            ("move-phase", self.phase()),
            (
                "move-verbs",
                visitor
                    .map(|visitor| self.verbs(visitor))
                    .unwrap_or_default(),
            ),
            ("move-figures", self.figures()),
            ("move-certificate", certified(moved)),
            ("move-history", self.told()),
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
                h1 { (names::tenant(&moved.tenant_id)) @if moved.slice > 0 { " slice " (moved.slice) } }
                span { (names::way(&moved.from, &moved.to)) }
                span id="move-status" { (status(self.body.status)) }
                span class="muted mono small" { (moved.migration_id) }
            }
        }
    }

    fn phase(&self) -> Markup {
        let moved = &self.body.migration.value;
        let told = &self.body.progress;
        let total = told.total.unwrap_or(0);
        html! {
            section class="card" aria-labelledby="phase" {
                h2 id="phase" { @if self.body.status.is_end() { "Ended in " } @else { "Now: " } span id="phase-name" { (self.body.phase) } }
                @if !self.body.status.is_end() {
                    (progress(told.done, total, "Progress of this step"))
                    p class="small" {
                        @if let Some(how_far) = how_far(&self.body) { strong { (how_far) } " · " }
                        (number(told.done)) @if total > 0 { " of " (number(total)) } " " (told.unit)
                        @if let Some(rate) = told.per_second { " · " (number(rate)) " per second" }
                    }
                    @if let Some(note) = &told.note { p class="muted" { (note) } }
                }
                @if let Some(ended) = &moved.ended {
                    p { (moment(ended.at, self.now)) @if let Some(why) = &ended.why { ": " (why) } }
                }
                (asked_so_far(moved, self.now))
            }
        }
    }

    fn verbs(&self, visitor: &Visitor) -> Markup {
        let moved = &self.body.migration.value;
        let fitting: Vec<_> = VERBS
            .into_iter()
            .filter(|(what, ..)| makes_sense(moved, *what) && visitor.may(role_for(*what)))
            .collect();
        html! {
            @if !fitting.is_empty() {
                section class="card" aria-label="What can be done" {
                    div class="verbs" {
                        @for (_, name, label, tells, grave) in fitting {
                            (Verb { label, action: &format!("/console/moves/{}/{name}", moved.migration_id),
                                tells, grave, version: None }.show(visitor, &html! {}))
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
                h2 id="figures" { "Measured" }
                dl class="strip" {
                    div { dt { "Nobody could vote for" } dd id="move-pause" {
                        @match figures.pause_ms { Some(ms) => { (ms) " ms" } None => { "—" } }
                        @if let Some(price) = expected { " " small { "expected " (price.pause_ms) " ms" } }
                    } }
                    div { dt { "Rows carried" } dd { (number(figures.rows))
                        @if let Some(price) = expected { " " small { (carried(figures.rows, price.rows)) } } } }
                    div { dt { "Bytes carried" } dd { (bytes(figures.bytes)) } }
                    div { dt { "Both sides compared" } dd { (number(figures.compared)) } }
                    div { dt { "Differences" } dd { (number(figures.differences)) } }
                    div { dt { "Stragglers" } dd { (number(figures.stragglers)) } }
                }
                dl class="kv" {
                    dt { "Asked for" } dd { (moment(moved.requested_at, self.now)) " by " (moved.actor)
                        @if let Some(reason) = &moved.reason { ": " (reason) } }
                    @if let Some(at) = figures.copying_since { dt { "Copies since" } dd { (moment(at, self.now)) } }
                    @if let Some(at) = figures.cut_over_at { dt { "Cut over" } dd { (moment(at, self.now)) } }
                    dt { "Window" } dd { (span(moved.terms.window_ms)) " with both sides" }
                    @if let Some(most) = moved.terms.max_pause_ms { dt { "Pause budget" } dd { (most) " ms"
                        @if figures.put_off > 0 { ", put off " (figures.put_off) " times" } } }
                    @if figures.repaired > 0 { dt { "Repaired" } dd { (number(figures.repaired)) " rows" } }
                }
                @if !moved.findings.is_empty() { (findings(&moved.findings, self.now)) }
            }
        }
    }

    fn told(&self) -> Markup {
        let told = self.history.iter().filter(|event| is_entry(event));
        let told: Vec<_> = told.collect();
        let skipped = told.len().saturating_sub(200);
        html! {
            @if !told.is_empty() {
                section class="card tight" aria-labelledby="history" {
                    details class="more" {
                        summary id="history" { "States entered so far: " (number(told.len() as u64)) }
                        div class="scroll" role="region" aria-label="History" tabindex="0" {
                            table {
                                thead { tr { th class="num" { "#" } th { "State" } th { "When" } } }
                                tbody {
                                    @for event in told.into_iter().skip(skipped) {
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

/// What was expected beside what was carried. Both ways are carried, and what
/// comes in meanwhile: it is often more.
fn carried(rows: u64, expected: u64) -> String {
    match rows > expected {
        true => format!(
            "{} expected; votes that came in since are carried too",
            number(expected)
        ),
        false => format!("of about {}", number(expected)),
    }
}

fn is_entry(event: &HistoryEvent) -> bool {
    event.details.contains_key("name") && event.details.contains_key("input")
}

fn asked_so_far(moved: &Migration, now: Timestamp) -> Markup {
    let asked = &moved.asked;
    let line = |what: &str, word: &Word| {
        html! {
            li { (what) " " (moment(word.at, now)) " by " (word.actor)
                @if let Some(reason) = &word.reason { ": " (reason) } }
        }
    };
    html! {
        @if !asked.is_nothing() {
            ul class="small muted" {
                @if let Some(word) = &asked.approved { (line("approved", word)) }
                @if let Some(word) = &asked.paused { (line("paused", word)) }
                @if let Some(back) = &asked.back { (line("asked to go back", &back.word)) }
                @if let Some(word) = &asked.accept_loss { (line("loss accepted", word)) }
                @if let Some(word) = &asked.complete { (line("asked to complete", word)) }
            }
        }
    }
}

fn findings(findings: &[Finding], now: Timestamp) -> Markup {
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

fn certified(moved: &Migration) -> Markup {
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
            (proof(signed))
        }
    }
}

fn proof(signed: &Signed) -> Markup {
    let told = &signed.certificate;
    html! {
        @if let Some(votes) = &told.votes { (proved("At the cutover", votes)) }
        @if let Some(votes) = &told.votes_back { (proved("On the way back", votes)) }
        @if let Some(lost) = &told.given_up {
            @let (class, what) = if lost.synced { ("note warn", "Without its target: ") } else { ("note bad", "Given up: ") };
            p class=(class) role="note" id="given-up" { strong { (what) } (lost.told())
                @if let Some(reason) = &lost.reason { ": " (reason) } }
        }
        dl class="kv" {
            dt { "Owner now" } dd { (names::shard(&told.owner)) ", epoch " (told.epoch.0) }
            dt { "Pause" } dd { @match told.pause_ms { Some(ms) => { (ms) " ms" } None => { "none" } } }
            dt { "Took" } dd { (span(told.duration_ms)) }
            @if let Some(why) = &told.why { dt { "Why" } dd { (why) } }
            dt { "Signature" } dd { code class="small" { (signed.signature) } }
            dt { "Public key" } dd { code class="small" { (signed.public_key) } }
            dt { "To verify" } dd { code class="small" { "ballast migration verify-certificate FILE" } }
        }
    }
}

fn proved(when: &str, votes: &VotesProved) -> Markup {
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
