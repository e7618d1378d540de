//! The audit: what is there at the end, against the book.

use std::collections::BTreeMap;

use serde_json::Value;

use super::book::{Attempt, Book, PollBook, Said};
use super::chance::Chance;
use super::register::{Rules, Step, explains};
use super::world::Kind;
use crate::support::polls::Application;

/// Voters that are looked up one by one, of each poll.
const LOOKED_UP: usize = 100;
/// Findings of one poll that are told.
const TOLD: usize = 5;

/// A voter's row as it was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    items: Vec<usize>,
    revision: u32,
}

/// What of the book is to be there: everything, or what a copy has of it that
/// was made meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// What was answered before is there as it was answered.
    pub answered_before: u64,
    /// What was sent before may be there.
    pub sent_before: u64,
}

impl Extent {
    /// All of it.
    pub const WHOLE: Self = Self {
        answered_before: u64::MAX,
        sent_before: u64::MAX,
    };

    /// An attempt as the copy knows it, if it does.
    fn of(self, mut step: Step) -> Option<Step> {
        let answered = step.attempt.answered.map(|answered| answered.tick);
        if answered.is_none_or(|answered| answered >= self.answered_before) {
            step.attempt.said = match step.attempt.said {
                Said::NeverSent => Said::NeverSent,
                _ => Said::Unknown,
            };
            step.until = u64::MAX;
            (step.may_be_open, step.may_be_closed) = (true, true);
        }
        (step.attempt.sent.tick < self.sent_before).then_some(step)
    }
}

/// Compares everything that is there with what the book allows; returns how
/// many voters and votes there are.
pub async fn audit(
    book: &Book,
    applications: &[Application],
    extent: Extent,
    chance: &mut Chance,
) -> (u64, u64) {
    let (mut voters, mut votes) = (0, 0);
    for poll in &book.polls {
        let application = &applications[poll.tenant];
        let mut findings = Vec::new();
        let rows = rows(application, poll, &mut findings).await;
        voters += rows.len() as u64;
        votes += rows.values().map(|row| row.items.len() as u64).sum::<u64>();
        let now = book.now().ms;
        tallies(application, poll, now, &rows, &mut findings).await;
        looked_up(application, poll, &rows, chance, &mut findings).await;
        histories(book, poll, &rows, extent, &mut findings);
        let more = findings.len().saturating_sub(TOLD);
        for finding in findings.into_iter().take(TOLD) {
            let (id, kind) = (&poll.poll.id, poll.kind);
            book.found(format!("{id} ({kind:?}): {finding} (and {more} more)"));
        }
    }
    (voters, votes)
}

fn places(poll: &PollBook, ids: &Value) -> Vec<usize> {
    let ids = ids.as_array().into_iter().flatten();
    let place = |id: &Value| poll.poll.items.iter().position(|item| *item == *id);
    let mut places: Vec<_> = ids.map(|id| place(id).unwrap_or(usize::MAX)).collect();
    places.sort_unstable();
    places
}

/// The rows of the export, each voter's once.
async fn rows(
    application: &Application,
    poll: &PollBook,
    findings: &mut Vec<String>,
) -> BTreeMap<String, Row> {
    let answer = application.call("GET", &poll.poll.path("/export"));
    let answer = answer.send().await;
    let mut rows = BTreeMap::new();
    if answer.status != 200 {
        findings.push(format!("it cannot be exported: {}", answer.text));
        return rows;
    }
    for line in answer.text.lines() {
        let exported: Value = serde_json::from_str(line).unwrap();
        let voter = exported["voterID"].as_str().unwrap_or_default().to_owned();
        let row = Row {
            items: places(poll, &exported["itemIDs"]),
            revision: exported["revision"].as_u64().unwrap_or_default() as u32,
        };
        if rows.insert(voter, row).is_some() {
            findings.push(format!("exported twice: {exported}"));
        }
    }
    rows
}

/// The counts are what the rows say, however they are asked for.
async fn tallies(
    application: &Application,
    poll: &PollBook,
    now: i64,
    rows: &BTreeMap<String, Row>,
    findings: &mut Vec<String>,
) {
    let newest = application.newest(&poll.poll).await;
    let known = application.get(&poll.poll.path("/votes")).await;
    for results in [newest, known] {
        let voters = results["voters"].as_u64().unwrap_or_default();
        if voters != rows.len() as u64 {
            findings.push(format!("{voters} voters counted, {} rows", rows.len()));
        }
        let mut total = 0;
        for (place, id) in poll.poll.items.iter().enumerate() {
            let has = rows.values().filter(|row| row.items.contains(&place));
            let has = has.count() as u64;
            total += has;
            let items = results["items"].as_array().unwrap();
            let shown = items.iter().find(|item| item["itemID"] == **id);
            let shown = shown.and_then(|item| item["votesCount"].as_u64());
            if shown != Some(has) {
                findings.push(format!("item {place}: {shown:?} counted, {has} in rows"));
            }
        }
        if results["total"].as_u64() != Some(total) {
            findings.push(format!(
                "{} votes in all, {total} in rows",
                results["total"]
            ));
        }
        let (asked, done) = *poll.closing.lock().unwrap();
        let (may_be_open, may_be_closed) = match poll.kind {
            Kind::Single | Kind::Changeable | Kind::Several => (true, false),
            Kind::Expiring(at) => (now <= at, now >= at),
            Kind::Closing => (done.is_none(), asked.is_some()),
        };
        let fits = match results["state"].as_str() {
            Some("open") => may_be_open,
            Some("closed") => may_be_closed,
            _ => false,
        };
        if !fits {
            findings.push(format!("its state is {}", results["state"]));
        }
    }
}

/// Some voters, by name: as exported.
async fn looked_up(
    application: &Application,
    poll: &PollBook,
    rows: &BTreeMap<String, Row>,
    chance: &mut Chance,
    findings: &mut Vec<String>,
) {
    let voters: Vec<String> = poll.pages().keys().cloned().collect();
    for _ in 0..LOOKED_UP.min(voters.len()) {
        let voter = &voters[chance.below(voters.len())];
        let path = poll.poll.path(&format!("/voters/{}", escaped(voter)));
        let answer = application.call("GET", &path).send().await;
        let found = match answer.status {
            200 => Some(places(poll, &answer.body["itemIDs"])),
            404 if answer.body["code"] == "vote-not-found" => None,
            _ => {
                findings.push(format!("{voter}: {} {}", answer.status, answer.text));
                continue;
            }
        };
        let exported = rows.get(voter).map(|row| row.items.clone());
        if found != exported {
            findings.push(format!("{voter}: {found:?}, but exported {exported:?}"));
        }
    }
}

/// A voter's name in a path.
fn escaped(voter: &str) -> String {
    let escape = |byte: u8| match byte.is_ascii_alphanumeric() || byte == b'-' {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    voter.bytes().map(escape).collect()
}

/// Each voter's history explains the row, and there is no row without one.
fn histories(
    book: &Book,
    poll: &PollBook,
    rows: &BTreeMap<String, Row>,
    extent: Extent,
    findings: &mut Vec<String>,
) {
    let pages = poll.pages();
    let strangers = rows.keys().filter(|voter| !pages.contains_key(*voter));
    findings.extend(strangers.map(|voter| format!("nobody sent a vote of {voter}")));
    let rules = Rules {
        choices: if poll.kind == Kind::Several { 2 } else { 1 },
        changeable: poll.kind == Kind::Changeable,
    };
    for (voter, page) in pages.iter() {
        let steps: Vec<_> = page
            .attempts
            .iter()
            .filter_map(|attempt| extent.of(step(book, poll, *attempt)))
            .collect();
        let row = rows.get(voter);
        let end = row.map(|row| (&row.items[..], row.revision));
        if !explains(rules, &steps, end) {
            let told = page.attempts.iter().map(|attempt| {
                let (ask, said) = (attempt.ask, attempt.said);
                let answered = attempt.answered.map(|answered| answered.tick);
                format!(
                    "\n    {}..{answered:?} {ask:?}: {said:?}",
                    attempt.sent.tick
                )
            });
            let told: String = told.collect();
            findings.push(format!(
                "{voter} has {row:?}, which nothing explains:{told}"
            ));
        }
    }
}

fn step(book: &Book, poll: &PollBook, attempt: Attempt) -> Step {
    let until = match (attempt.said, attempt.answered) {
        (Said::Unknown, Some(lost)) => book.over_by(lost.tick),
        (_, Some(answered)) => answered.tick,
        (_, None) => u64::MAX,
    };
    let (may_be_open, may_be_closed) = match poll.kind {
        Kind::Single | Kind::Changeable | Kind::Several => (true, false),
        Kind::Expiring(at) => {
            let over = attempt.answered.is_none_or(|answered| answered.ms >= at);
            (attempt.sent.ms <= at, over)
        }
        Kind::Closing => {
            let (asked, done) = *poll.closing.lock().unwrap();
            (
                done.is_none_or(|done| attempt.sent.tick < done.tick),
                asked.is_some_and(|asked| asked.tick < until),
            )
        }
    };
    Step {
        attempt,
        until,
        may_be_open,
        may_be_closed,
    }
}
