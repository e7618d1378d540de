//! Clients that vote one by one: as people and their applications do, with
//! everything that goes wrong between them.

use std::time::Duration;

use serde_json::json;

use super::book::Ask;
use super::chance::Chance;
use super::clients::Client;
use super::world::Kind;
use crate::support::{Answer, Call};

/// Votes that are sent once more much later.
const LATER_MAX: usize = 12;

/// A vote that was sent before.
type Old = (usize, String, Ask);

/// Votes until told to end.
pub async fn vote(mut client: Client) {
    let mut later: Vec<Old> = Vec::new();
    while client.goes_on() {
        if client.chance.one_in(60) {
            nonsense(&mut client).await;
        }
        if later.len() > LATER_MAX || (!later.is_empty() && client.chance.one_in(8)) {
            // An old request arrives once more: it must change nothing.
            let (poll, voter, ask) = later.swap_remove(client.chance.below(later.len()));
            client.settle(poll, &voter, ask).await;
        }
        let sent = one_voter(&mut client).await;
        if client.chance.one_in(4) {
            later.push(sent);
        }
    }
}

fn choose(item: usize, request: Option<u32>) -> Ask {
    Ask {
        item,
        withdraw: false,
        request,
    }
}

/// One voter, from the first vote on; says what was sent first.
async fn one_voter(client: &mut Client) -> Old {
    let tenant = client.chance.below(client.common.applications.len());
    let poll = client.poll(tenant);
    let voter = client.voter();
    let item = client.chance.below(4);
    let other = (item + client.chance.between(1, 3)) % 4;
    let kind = client.common.book.polls[poll].kind;
    let named = kind == Kind::Changeable || !client.chance.one_in(10);
    let first = choose(item, named.then_some(1));
    match client.chance.below(12) {
        // Twice, on purpose.
        0 => {
            client.settle(poll, &voter, first).await;
            client.settle(poll, &voter, choose(item, Some(2))).await;
        }
        // Twice at once: the same, or two that exclude each other.
        1 => {
            let second = match client.chance.one_in(2) {
                true => first,
                false => choose(other, Some(2)),
            };
            let mut twin = client.twin();
            let both = (
                client.settle(poll, &voter, first),
                twin.settle(poll, &voter, second),
            );
            tokio::join!(both.0, both.1);
        }
        // The answer is lost, and some never ask again.
        2 | 3 => {
            let patience = Duration::from_millis(client.chance.between(1, 40) as u64);
            client.send(poll, &voter, first, Some(patience)).await;
            if !client.chance.one_in(3) {
                client.settle(poll, &voter, first).await;
            }
        }
        // Another item, and one more.
        4 | 5 => {
            client.settle(poll, &voter, first).await;
            client.settle(poll, &voter, choose(other, Some(2))).await;
            let third = (0..4).find(|third| ![item, other].contains(third));
            client
                .settle(poll, &voter, choose(third.unwrap_or(0), Some(3)))
                .await;
        }
        6 if kind == Kind::Changeable => {
            changes(client, poll, &voter, first, other).await;
        }
        _ => {
            client.settle(poll, &voter, first).await;
        }
    }
    (poll, voter, first)
}

/// Changes, withdraws, and sends the first request again.
async fn changes(client: &mut Client, poll: usize, voter: &str, first: Ask, other: usize) {
    client.settle(poll, voter, first).await;
    let withdraw = Ask {
        withdraw: true,
        ..choose(first.item, Some(2))
    };
    let next = [choose(other, Some(3)), withdraw, choose(other, Some(4))];
    for ask in next {
        if client.chance.one_in(3) {
            continue;
        }
        match client.chance.one_in(3) {
            true => {
                let patience = Duration::from_millis(client.chance.between(1, 40) as u64);
                client.send(poll, voter, ask, Some(patience)).await;
            }
            false => {
                client.settle(poll, voter, ask).await;
            }
        }
    }
    client.settle(poll, voter, first).await;
}

impl Client {
    /// Another client on behalf of the same person.
    fn twin(&mut self) -> Self {
        let mut twin = Self::new(&self.common, 0, self.number);
        twin.chance = Chance::new(self.chance.number(), 0);
        twin
    }
}

/// What is no vote is refused with the right words, or with "come back later",
/// and leaves nothing behind: the audit knows of no voter called `nobody`.
async fn nonsense(client: &mut Client) {
    let application = &client.common.applications[0];
    let poll = &client.common.book.polls[0].poll;
    let stranger = poll.vote(0).replace("item-", "item-0");
    let call = |path: &str| application.call("PATCH", path);
    let json = "application/json";
    let (call, expected) = match client.chance.below(5) {
        0 => (call(&stranger).header("voter-id", "nobody"), 404),
        1 => (call(&poll.vote(0)).json(&json!({ "voterID": "" })), 422),
        2 => (
            call(&poll.vote(0)).raw(json, "{\"voterID\": \"nobody\""),
            400,
        ),
        3 => (call(&poll.vote(0)), 400),
        _ => {
            let url = format!("{}{}", application.router, poll.vote(0));
            let mistyped = format!("{}x", application.key);
            let call = Call::new(&application.http, "PATCH", &url);
            let call = call.header("x-api-key", &mistyped);
            (call.header("voter-id", "nobody"), 401)
        }
    };
    if let Ok(answer) = call.outcome().await
        && answer.status != expected
    {
        let told: &Answer = &answer;
        client.expect_away("nonsense", told);
    }
}
