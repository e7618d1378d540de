//! The audit: compares what is stored at the end with the history.

use std::collections::BTreeMap;

use serde_json::Value;

use super::history::{Attempt, History, PollHistory, VoteOutcome};
use super::random::SeededRandom;
use super::register::{Rules, Step, explains};
use super::world::PollKind;
use crate::support::polls::Application;

/// How many voters of each poll are also read one by one.
const VOTERS_CHECKED: usize = 100;
/// How many findings of one poll are reported.
const FINDINGS_SHOWN: usize = 5;

/// A voter's exported row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    items: Vec<usize>,
    revision: u32,
}

/// Which part of the history must be stored: everything, or what a backup has that was made while
/// clients voted.
#[derive(Debug, Clone, Copy)]
pub struct AuditScope {
    /// Attempts answered before this tick are stored as answered.
    pub answered_before: u64,
    /// Attempts sent before this tick may be stored.
    pub sent_before: u64,
}

impl AuditScope {
    /// The whole history.
    pub const WHOLE: Self = Self {
        answered_before: u64::MAX,
        sent_before: u64::MAX,
    };

    /// An attempt as the backup may know it; `None` if it cannot.
    fn restrict_step(self, mut step: Step) -> Option<Step> {
        let answered = step.attempt.answered.map(|answered| answered.tick);
        if answered.is_none_or(|answered| answered >= self.answered_before) {
            step.attempt.outcome = match step.attempt.outcome {
                VoteOutcome::NeverSent => VoteOutcome::NeverSent,
                _ => VoteOutcome::Unknown,
            };
            step.until = u64::MAX;
            (step.may_be_open, step.may_be_closed) = (true, true);
        }
        (step.attempt.sent.tick < self.sent_before).then_some(step)
    }
}

/// Compares everything that is stored with what the history allows; returns the number of voters
/// and votes.
pub async fn audit(
    history: &History,
    applications: &[Application],
    scope: AuditScope,
    random: &mut SeededRandom,
) -> (u64, u64) {
    let (mut voters, mut votes) = (0, 0);
    for poll in &history.polls {
        let application = &applications[poll.tenant];
        let mut findings = Vec::new();
        let rows = export_rows(application, poll, &mut findings).await;
        voters += rows.len() as u64;
        votes += rows.values().map(|row| row.items.len() as u64).sum::<u64>();
        let now = history.now().ms;
        check_counts(application, poll, now, &rows, &mut findings).await;
        check_single_voters(application, poll, &rows, random, &mut findings).await;
        check_histories(history, poll, &rows, scope, &mut findings);
        let more = findings.len().saturating_sub(FINDINGS_SHOWN);
        for finding in findings.into_iter().take(FINDINGS_SHOWN) {
            let (id, kind) = (&poll.poll.id, poll.kind);
            history.record_finding(format!("{id} ({kind:?}): {finding} (and {more} more)"));
        }
    }
    (voters, votes)
}

fn places(poll: &PollHistory, ids: &Value) -> Vec<usize> {
    let ids = ids.as_array().into_iter().flatten();
    let place = |id: &Value| poll.poll.items.iter().position(|item| *item == *id);
    let mut places: Vec<_> = ids.map(|id| place(id).unwrap_or(usize::MAX)).collect();
    places.sort_unstable();
    places
}

/// Exports a poll's rows and checks that each voter has one.
async fn export_rows(
    application: &Application,
    poll: &PollHistory,
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

/// Checks that the results equal the counts of the rows, cached and uncached.
async fn check_counts(
    application: &Application,
    poll: &PollHistory,
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
            PollKind::Single | PollKind::Changeable | PollKind::Several => (true, false),
            PollKind::Expiring(at) => (now <= at, now >= at),
            PollKind::Closing => (done.is_none(), asked.is_some()),
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

/// Reads some voters by name and compares them with the export.
async fn check_single_voters(
    application: &Application,
    poll: &PollHistory,
    rows: &BTreeMap<String, Row>,
    random: &mut SeededRandom,
    findings: &mut Vec<String>,
) {
    let voters: Vec<String> = poll.pages().keys().cloned().collect();
    for _ in 0..VOTERS_CHECKED.min(voters.len()) {
        let voter = &voters[random.below(voters.len())];
        let path = poll.poll.path(&format!("/voters/{}", escape(voter)));
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

/// Percent-encodes a voter's name for a path.
fn escape(voter: &str) -> String {
    let escape = |byte: u8| match byte.is_ascii_alphanumeric() || byte == b'-' {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    voter.bytes().map(escape).collect()
}

/// Checks that each voter's history explains the voter's row, and that every row has a history.
fn check_histories(
    history: &History,
    poll: &PollHistory,
    rows: &BTreeMap<String, Row>,
    scope: AuditScope,
    findings: &mut Vec<String>,
) {
    let pages = poll.pages();
    let strangers = rows.keys().filter(|voter| !pages.contains_key(*voter));
    findings.extend(strangers.map(|voter| format!("no client sent a vote of {voter}")));
    let rules = Rules {
        choices: if poll.kind == PollKind::Several { 2 } else { 1 },
        changeable: poll.kind == PollKind::Changeable,
    };
    for (voter, page) in pages.iter() {
        let steps: Vec<_> = page
            .attempts
            .iter()
            .filter_map(|attempt| scope.restrict_step(step(history, poll, *attempt)))
            .collect();
        let row = rows.get(voter);
        let end = row.map(|row| (&row.items[..], row.revision));
        if !explains(rules, &steps, end) {
            let attempts = page.attempts.iter().map(|attempt| {
                let (ask, outcome) = (attempt.ask, attempt.outcome);
                let answered = attempt.answered.map(|answered| answered.tick);
                format!(
                    "\n    {}..{answered:?} {ask:?}: {outcome:?}",
                    attempt.sent.tick
                )
            });
            let attempts: String = attempts.collect();
            findings.push(format!(
                "{voter} has {row:?}, which nothing explains:{attempts}"
            ));
        }
    }
}

fn step(history: &History, poll: &PollHistory, attempt: Attempt) -> Step {
    let until = match (attempt.outcome, attempt.answered) {
        (VoteOutcome::Unknown, Some(lost)) => history.end_of_attempts(lost.tick),
        (_, Some(answered)) => answered.tick,
        (_, None) => u64::MAX,
    };
    let (may_be_open, may_be_closed) = match poll.kind {
        PollKind::Single | PollKind::Changeable | PollKind::Several => (true, false),
        PollKind::Expiring(at) => {
            let over = attempt.answered.is_none_or(|answered| answered.ms >= at);
            (attempt.sent.ms <= at, over)
        }
        PollKind::Closing => {
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
