//! Clients that send streams of votes. When a stream breaks off, they send the lines without an
//! outcome again with the same request ids.

use serde_json::Value;

use super::clients::{Client, line, parse_outcome};
use super::history::{PendingAttempt, VoteOutcome, VoteRequest};
use super::world::PollKind;
use crate::support::call::REQUEST_TIMEOUT;

/// A line of a stream.
#[derive(Clone)]
enum Line {
    /// A vote.
    Vote(usize, String, VoteRequest),
    /// An invalid line, and the expected error code.
    Invalid(&'static str, &'static str),
}

/// A line in flight.
struct Sent {
    line: Line,
    ticket: Option<PendingAttempt>,
    outcome: Option<VoteOutcome>,
}

/// Sends streams until the run ends.
pub async fn stream(mut client: Client) {
    while client.should_continue() {
        let mut lines = lines(&mut client);
        client.think(THINK).await;
        let patient = !client.random.one_in(10);
        while !lines.is_empty() {
            lines = send(&client, lines).await;
            if !patient || !client.should_continue() {
                break;
            }
            if !lines.is_empty() {
                client.back_off().await;
            }
        }
    }
}

/// A client pauses before a stream as long as before this many single votes.
const THINK: u32 = 40;

/// The lines of a stream: new voters, some of them repeated.
fn lines(client: &mut Client) -> Vec<Line> {
    let tenant = client.random.below(client.shared.applications.len());
    let count = client.random.between(10, 250);
    let mut lines = Vec::with_capacity(count);
    let mut poll = client.poll(tenant);
    while lines.len() < count {
        if client.random.one_in(20) {
            poll = client.poll(tenant);
        }
        let ask = VoteRequest {
            item: client.random.below(4),
            withdraw: false,
            request: Some(1),
        };
        let voter = client.voter();
        lines.push(Line::Vote(poll, voter.clone(), ask));
        match client.random.below(30) {
            0 => lines.push(Line::Vote(poll, voter, ask)),
            1 => {
                let (item, request) = ((ask.item + 1) % 4, Some(2));
                let other = VoteRequest {
                    item,
                    request,
                    ..ask
                };
                lines.push(Line::Vote(poll, voter, other));
            }
            2 if client.shared.history.polls[poll].kind != PollKind::Changeable => {
                let nameless = VoteRequest {
                    request: None,
                    ..ask
                };
                lines.push(Line::Vote(poll, voter, nameless));
            }
            3 => lines.push(Line::Invalid("{", "malformed-request")),
            4 => lines.push(Line::Invalid(
                r#"{"pollID":"poll-1","itemID":"item-1","voterID":"nobody"}"#,
                "poll-not-found",
            )),
            _ => {}
        }
    }
    lines
}

/// Sends lines; returns the votes with an unknown outcome.
async fn send(client: &Client, lines: Vec<Line>) -> Vec<Line> {
    let history = &client.shared.history;
    let mut text = String::new();
    let mut sent = Vec::with_capacity(lines.len());
    let mut tenant = 0;
    for one in lines {
        let ticket = match &one {
            Line::Vote(poll, voter, ask) => {
                text.push_str(&line(history, *poll, voter, *ask));
                tenant = history.polls[*poll].tenant;
                Some(history.record_attempt(*poll, voter, *ask))
            }
            Line::Invalid(invalid, _) => {
                text.push_str(invalid);
                text.push('\n');
                None
            }
        };
        sent.push(Sent {
            line: one,
            ticket,
            outcome: None,
        });
    }
    let lost = exchange(client, tenant, text, &mut sent).await;
    let mut left = Vec::new();
    for one in sent {
        let Some(ticket) = &one.ticket else { continue };
        let outcome = one.outcome.unwrap_or(lost);
        if one.outcome.is_none() {
            history.record_answer(ticket, lost);
        }
        if matches!(outcome, VoteOutcome::Unknown | VoteOutcome::NeverSent) {
            left.push(one.line);
        }
    }
    left
}

/// Sends the text and records every outcome as it arrives; returns the outcome of the lines that
/// got none.
async fn exchange(client: &Client, tenant: usize, text: String, sent: &mut [Sent]) -> VoteOutcome {
    let application = &client.shared.applications[tenant];
    let request = application
        .http
        .post(format!("{}/votes", application.router))
        .header("x-api-key", &application.key)
        .header("content-type", "application/x-ndjson")
        .timeout(REQUEST_TIMEOUT)
        .body(text);
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => return VoteOutcome::NeverSent,
        Err(_) => return VoteOutcome::Unknown,
    };
    let status = response.status().as_u16();
    if status != 200 {
        let finding = response.headers().contains_key("retry-after");
        if status != 503 || !finding {
            client
                .shared
                .history
                .record_finding(format!("a stream got {status}"));
        }
        return VoteOutcome::Unknown;
    }
    let (mut buffer, mut next) = (Vec::new(), 0);
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                buffer.extend_from_slice(&chunk);
                let whole = buffer.iter().rposition(|byte| *byte == b'\n');
                let rest = buffer.split_off(whole.map_or(0, |end| end + 1));
                for line in buffer.split(|byte| *byte == b'\n') {
                    if !line.is_empty() {
                        record_line(client, line, &mut next, sent);
                    }
                }
                buffer = rest;
            }
            Ok(None) if next < sent.len() => {
                let finding = format!("a stream ended after {next} of {} lines", sent.len());
                client.shared.history.record_finding(finding);
                return VoteOutcome::Unknown;
            }
            Ok(None) | Err(_) => return VoteOutcome::Unknown,
        }
    }
}

/// Records the outcome of the next line.
fn record_line(client: &Client, text: &[u8], next: &mut usize, sent: &mut [Sent]) {
    let history = &client.shared.history;
    let line: Value = serde_json::from_slice(text).unwrap_or_default();
    let place = *next;
    *next += 1;
    if line["line"].as_u64() != Some(*next as u64) || place >= sent.len() {
        history.record_finding(format!("expected line {next}, got {line}"));
        return;
    }
    let one = &mut sent[place];
    if let Line::Invalid(_, code) = one.line {
        if line["code"] != code {
            history.record_finding(format!(
                "an invalid line was answered with {line}, not with {code}"
            ));
        }
        return;
    }
    let Some(outcome) = parse_outcome(&line) else {
        history.record_finding(format!("a vote in a stream was answered with {line}"));
        return;
    };
    one.outcome = Some(outcome);
    if let Some(ticket) = &one.ticket {
        history.record_answer(ticket, outcome);
    }
}
