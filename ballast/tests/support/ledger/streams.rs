//! Clients that send streams of votes. When a stream breaks off, the lines
//! that got no outcome are sent again under the same names.

use serde_json::Value;

use super::book::{Ask, Said, Ticket};
use super::clients::{Client, line, outcome};
use super::world::Kind;
use crate::support::call::ANSWERED_WITHIN;

/// A line of a stream.
#[derive(Clone)]
enum Line {
    /// A vote.
    Vote(usize, String, Ask),
    /// Something else, and the code it is refused with.
    Nonsense(&'static str, &'static str),
}

/// A vote on its way.
struct Sent {
    line: Line,
    ticket: Option<Ticket>,
    said: Option<Said>,
}

/// Sends streams until told to end.
pub async fn stream(mut client: Client) {
    while client.goes_on() {
        let mut lines = lines(&mut client);
        client.think(THINK).await;
        let patient = !client.chance.one_in(10);
        while !lines.is_empty() {
            lines = send(&client, lines).await;
            if !patient || !client.goes_on() {
                break;
            }
            if !lines.is_empty() {
                client.rest().await;
            }
        }
    }
}

/// Whoever sends a stream thinks as long as for so many votes.
const THINK: u32 = 40;

/// The lines of a stream: new voters, some of them more than once.
fn lines(client: &mut Client) -> Vec<Line> {
    let tenant = client.chance.below(client.common.applications.len());
    let count = client.chance.between(10, 250);
    let mut lines = Vec::with_capacity(count);
    let mut poll = client.poll(tenant);
    while lines.len() < count {
        if client.chance.one_in(20) {
            poll = client.poll(tenant);
        }
        let ask = Ask {
            item: client.chance.below(4),
            withdraw: false,
            request: Some(1),
        };
        let voter = client.voter();
        lines.push(Line::Vote(poll, voter.clone(), ask));
        match client.chance.below(30) {
            0 => lines.push(Line::Vote(poll, voter, ask)),
            1 => {
                let (item, request) = ((ask.item + 1) % 4, Some(2));
                let other = Ask {
                    item,
                    request,
                    ..ask
                };
                lines.push(Line::Vote(poll, voter, other));
            }
            2 if client.common.book.polls[poll].kind != Kind::Changeable => {
                let nameless = Ask {
                    request: None,
                    ..ask
                };
                lines.push(Line::Vote(poll, voter, nameless));
            }
            3 => lines.push(Line::Nonsense("{", "malformed-request")),
            4 => lines.push(Line::Nonsense(
                r#"{"pollID":"poll-1","itemID":"item-1","voterID":"nobody"}"#,
                "poll-not-found",
            )),
            _ => {}
        }
    }
    lines
}

/// Sends lines; returns those votes whose outcome is not known.
async fn send(client: &Client, lines: Vec<Line>) -> Vec<Line> {
    let book = &client.common.book;
    let mut text = String::new();
    let mut sent = Vec::with_capacity(lines.len());
    let mut tenant = 0;
    for one in lines {
        let ticket = match &one {
            Line::Vote(poll, voter, ask) => {
                text.push_str(&line(book, *poll, voter, *ask));
                tenant = book.polls[*poll].tenant;
                Some(book.sent(*poll, voter, *ask))
            }
            Line::Nonsense(nonsense, _) => {
                text.push_str(nonsense);
                text.push('\n');
                None
            }
        };
        sent.push(Sent {
            line: one,
            ticket,
            said: None,
        });
    }
    let lost = exchange(client, tenant, text, &mut sent).await;
    let mut left = Vec::new();
    for one in sent {
        let Some(ticket) = &one.ticket else { continue };
        let said = one.said.unwrap_or(lost);
        if one.said.is_none() {
            book.answered(ticket, lost);
        }
        if matches!(said, Said::Unknown | Said::NeverSent) {
            left.push(one.line);
        }
    }
    left
}

/// Sends the text and notes every outcome as it comes; says what is to be
/// thought of the lines that got none.
async fn exchange(client: &Client, tenant: usize, text: String, sent: &mut [Sent]) -> Said {
    let application = &client.common.applications[tenant];
    let request = application
        .http
        .post(format!("{}/votes", application.router))
        .header("x-api-key", &application.key)
        .header("content-type", "application/x-ndjson")
        .timeout(ANSWERED_WITHIN)
        .body(text);
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => return Said::NeverSent,
        Err(_) => return Said::Unknown,
    };
    let status = response.status().as_u16();
    if status != 200 {
        let told = response.headers().contains_key("retry-after");
        if status != 503 || !told {
            client.common.book.found(format!("a stream got {status}"));
        }
        return Said::Unknown;
    }
    let (mut begun, mut next) = (Vec::new(), 0);
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                begun.extend_from_slice(&chunk);
                let whole = begun.iter().rposition(|byte| *byte == b'\n');
                let rest = begun.split_off(whole.map_or(0, |end| end + 1));
                for line in begun.split(|byte| *byte == b'\n') {
                    if !line.is_empty() {
                        note(client, line, &mut next, sent);
                    }
                }
                begun = rest;
            }
            Ok(None) if next < sent.len() => {
                let told = format!("a stream ended after {next} of {} lines", sent.len());
                client.common.book.found(told);
                return Said::Unknown;
            }
            Ok(None) | Err(_) => return Said::Unknown,
        }
    }
}

/// Notes the outcome of the next line.
fn note(client: &Client, text: &[u8], next: &mut usize, sent: &mut [Sent]) {
    let book = &client.common.book;
    let line: Value = serde_json::from_slice(text).unwrap_or_default();
    let place = *next;
    *next += 1;
    if line["line"].as_u64() != Some(*next as u64) || place >= sent.len() {
        book.found(format!("where line {next} belongs came {line}"));
        return;
    }
    let one = &mut sent[place];
    if let Line::Nonsense(_, code) = one.line {
        if line["code"] != code {
            book.found(format!(
                "nonsense was answered with {line}, not with {code}"
            ));
        }
        return;
    }
    let Some(said) = outcome(&line) else {
        book.found(format!("a vote in a stream was answered with {line}"));
        return;
    };
    one.said = Some(said);
    if let Some(ticket) = &one.ticket {
        book.answered(ticket, said);
    }
}
