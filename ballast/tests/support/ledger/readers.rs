//! Clients that read results: results include every vote acknowledged before the request, and
//! never go back, even across kills.
//!
//! ```text
//!   with no-cache      not less than acknowledged or shown before
//!   without            not less than shown before, or acknowledged before the last kill: they may
//!                      be seconds old, not older than the process
//!   live               the same, for each viewer
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::clients::Client;
use super::history::PollHistory;
use super::world::PollKind;
use crate::support::call::REQUEST_TIMEOUT;

/// How often a viewer that receives nothing checks whether to stop.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

impl Client {
    /// A random poll whose votes cannot be withdrawn.
    fn pick_append_only_poll(&mut self) -> usize {
        loop {
            let poll = self.random.below(self.shared.history.polls.len());
            if self.shared.history.polls[poll].kind != PollKind::Changeable {
                return poll;
            }
        }
    }

    fn check_total(&self, what: &str, poll: &PollHistory, results: &Value, floor: u64) -> u64 {
        let total = results["total"].as_u64().unwrap_or_default();
        if total < floor {
            let (id, kind) = (&poll.poll.id, poll.kind);
            let finding =
                format!("{what}: {id} ({kind:?}) has {total} votes, expected at least {floor}");
            self.shared.history.record_finding(finding);
        }
        total
    }
}

/// Reads results until the run ends.
pub async fn read(mut client: Client) {
    while client.should_continue() {
        let poll = client.pick_append_only_poll();
        let newest = client.random.one_in(2);
        let history = &client.shared.history.polls[poll];
        let acknowledged = match newest {
            true => history.floor(),
            false => history.floor_at_kill(),
        };
        let floor = acknowledged.max(history.highest_total_shown());
        let application = &client.shared.applications[history.tenant];
        let mut call = application.call("GET", &history.poll.path("/votes"));
        if newest {
            call = call.header("cache-control", "no-cache");
        }
        match call.outcome().await {
            Ok(answer) if answer.status == 200 => {
                let what = if newest { "newest results" } else { "results" };
                let total = client.check_total(what, history, &answer.body, floor);
                history.record_shown_total(total);
                check_consistency(&client, history, &answer.body);
            }
            Ok(answer) => client.expect_unavailable("results", &answer),
            Err(error) => client.record_no_answer("results", &error),
        }
        client.back_off().await;
    }
}

/// Checks that the parts of one answer agree.
fn check_consistency(client: &Client, poll: &PollHistory, results: &Value) {
    let items = results["items"].as_array().into_iter().flatten();
    let sum: u64 = items.filter_map(|item| item["votesCount"].as_u64()).sum();
    let (total, voters) = (results["total"].as_u64(), results["voters"].as_u64());
    let fits = match poll.kind {
        PollKind::Several => voters <= total && total <= voters.map(|voters| voters * 2),
        _ => voters == total,
    };
    if total != Some(sum) || !fits {
        client
            .shared
            .history
            .record_finding(format!("inconsistent results: {results}"));
    }
}

/// Watches live results until the run ends.
pub async fn watch(mut client: Client) {
    let poll = client.pick_append_only_poll();
    let mut last = 0;
    let mut seen: Option<String> = None;
    while client.should_continue() {
        let history = &client.shared.history.polls[poll];
        let floor = history.floor_at_kill().max(last);
        let application = &client.shared.applications[history.tenant];
        let watching = application.try_watch(&history.poll, seen.as_deref());
        let watching = tokio::time::timeout(REQUEST_TIMEOUT, watching).await;
        if let Ok(Ok(mut watcher)) = watching {
            match watcher.status {
                200 => {
                    let mut floor = floor;
                    while client.should_continue() {
                        // Check now and then whether to stop.
                        let event = tokio::time::timeout(WATCH_INTERVAL, watcher.try_event()).await;
                        let Ok(event) = event else { continue };
                        let Ok(Some(event)) = event else { break };
                        if event.name == "results" {
                            floor = client.check_total("live results", history, &event.data, floor);
                            last = last.max(floor);
                        }
                        seen = Some(event.id);
                    }
                }
                // The poll has closed and its end was received.
                204 => return,
                503 => {}
                status => client
                    .shared
                    .history
                    .record_finding(format!("a viewer got {status}")),
            }
        }
        client.back_off().await;
    }
}

/// Exports polls until the run ends; each export is a checkpoint, too.
pub async fn export(mut client: Client) {
    while client.should_continue() {
        let poll = client.random.below(client.shared.history.polls.len());
        let history = &client.shared.history.polls[poll];
        let floor = match history.kind {
            PollKind::Changeable => 0,
            _ => history.floor(),
        };
        let application = &client.shared.applications[history.tenant];
        let call = application.call("GET", &history.poll.path("/export"));
        match call.outcome().await {
            Ok(answer) if answer.status == 200 => {
                let (mut voters, mut votes) = (BTreeSet::new(), 0);
                for line in answer.text.lines() {
                    let row: Value = serde_json::from_str(line).unwrap_or_default();
                    votes += row["itemIDs"].as_array().map_or(0, Vec::len) as u64;
                    if !voters.insert(row["voterID"].as_str().unwrap_or_default().to_owned()) {
                        client
                            .shared
                            .history
                            .record_finding(format!("exported twice: {row}"));
                    }
                }
                if votes < floor {
                    let finding = format!("an export has {votes} votes, expected at least {floor}");
                    client.shared.history.record_finding(finding);
                }
            }
            Ok(answer) => client.expect_unavailable("an export", &answer),
            Err(error) => client.record_no_answer("an export", &error),
        }
        for _ in 0..10 {
            client.back_off().await;
        }
    }
}
