//! Clients that look: results never lack what was acknowledged before they
//! were asked for, and never go back, whatever happens to the process.
//!
//! ```text
//!   asked with no-cache   not less than acknowledged or shown before
//!   asked without         not less than shown before, or acknowledged before
//!                         the last kill: they may be seconds old, not older
//!                         than the process
//!   live                  the same, for each viewer
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::book::PollBook;
use super::clients::Client;
use super::world::Kind;
use crate::support::call::ANSWERED_WITHIN;

/// How often a viewer to whom nothing is shown looks up.
const LOOK_UP: Duration = Duration::from_millis(500);

impl Client {
    /// Some poll whose votes stay.
    fn steady(&mut self) -> usize {
        loop {
            let poll = self.chance.below(self.common.book.polls.len());
            if self.common.book.polls[poll].kind != Kind::Changeable {
                return poll;
            }
        }
    }

    fn check_total(&self, what: &str, poll: &PollBook, results: &Value, floor: u64) -> u64 {
        let total = results["total"].as_u64().unwrap_or_default();
        if total < floor {
            let (id, kind) = (&poll.poll.id, poll.kind);
            let told = format!("{what}: {id} ({kind:?}) has {total} votes; {floor} were there");
            self.common.book.found(told);
        }
        total
    }
}

/// Reads results until told to end.
pub async fn read(mut client: Client) {
    while client.goes_on() {
        let poll = client.steady();
        let newest = client.chance.one_in(2);
        let book = &client.common.book.polls[poll];
        let acknowledged = match newest {
            true => book.floor(),
            false => book.floor_at_kill(),
        };
        let floor = acknowledged.max(book.shown());
        let application = &client.common.applications[book.tenant];
        let mut call = application.call("GET", &book.poll.path("/votes"));
        if newest {
            call = call.header("cache-control", "no-cache");
        }
        match call.outcome().await {
            Ok(answer) if answer.status == 200 => {
                let what = if newest { "newest results" } else { "results" };
                let total = client.check_total(what, book, &answer.body, floor);
                book.show(total);
                consistent(&client, book, &answer.body);
            }
            Ok(answer) => client.expect_away("results", &answer),
            Err(error) => client.unanswered("results", &error),
        }
        client.rest().await;
    }
}

/// The parts of one answer fit each other.
fn consistent(client: &Client, poll: &PollBook, results: &Value) {
    let items = results["items"].as_array().into_iter().flatten();
    let sum: u64 = items.filter_map(|item| item["votesCount"].as_u64()).sum();
    let (total, voters) = (results["total"].as_u64(), results["voters"].as_u64());
    let fits = match poll.kind {
        Kind::Several => voters <= total && total <= voters.map(|voters| voters * 2),
        _ => voters == total,
    };
    if total != Some(sum) || !fits {
        client
            .common
            .book
            .found(format!("results that do not fit: {results}"));
    }
}

/// Watches live results until told to end.
pub async fn watch(mut client: Client) {
    let poll = client.steady();
    let mut last = 0;
    let mut seen: Option<String> = None;
    while client.goes_on() {
        let book = &client.common.book.polls[poll];
        let floor = book.floor_at_kill().max(last);
        let application = &client.common.applications[book.tenant];
        let watching = application.try_watch(&book.poll, seen.as_deref());
        let watching = tokio::time::timeout(ANSWERED_WITHIN, watching).await;
        if let Ok(Ok(mut watcher)) = watching {
            match watcher.status {
                200 => {
                    let mut floor = floor;
                    while client.goes_on() {
                        // Looks up now and then whether it is time to go.
                        let event = tokio::time::timeout(LOOK_UP, watcher.try_event()).await;
                        let Ok(event) = event else { continue };
                        let Ok(Some(event)) = event else { break };
                        if event.name == "results" {
                            floor = client.check_total("live results", book, &event.data, floor);
                            last = last.max(floor);
                        }
                        seen = Some(event.id);
                    }
                }
                // It has closed, and the end was seen.
                204 => return,
                503 => {}
                status => client.common.book.found(format!("a viewer got {status}")),
            }
        }
        client.rest().await;
    }
}

/// Exports polls until told to end: each export is a checkpoint, too.
pub async fn export(mut client: Client) {
    while client.goes_on() {
        let poll = client.chance.below(client.common.book.polls.len());
        let book = &client.common.book.polls[poll];
        let floor = match book.kind {
            Kind::Changeable => 0,
            _ => book.floor(),
        };
        let application = &client.common.applications[book.tenant];
        let call = application.call("GET", &book.poll.path("/export"));
        match call.outcome().await {
            Ok(answer) if answer.status == 200 => {
                let (mut voters, mut votes) = (BTreeSet::new(), 0);
                for line in answer.text.lines() {
                    let row: Value = serde_json::from_str(line).unwrap_or_default();
                    votes += row["itemIDs"].as_array().map_or(0, Vec::len) as u64;
                    if !voters.insert(row["voterID"].as_str().unwrap_or_default().to_owned()) {
                        client.common.book.found(format!("exported twice: {row}"));
                    }
                }
                if votes < floor {
                    let told = format!("an export has {votes} votes; {floor} were there");
                    client.common.book.found(told);
                }
            }
            Ok(answer) => client.expect_away("an export", &answer),
            Err(error) => client.unanswered("an export", &error),
        }
        for _ in 0..10 {
            client.rest().await;
        }
    }
}
