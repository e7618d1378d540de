//! Clients that send single votes, as people and their applications do, with everything that goes
//! wrong between them.

use std::time::Duration;

use serde_json::json;

use super::clients::Client;
use super::history::VoteRequest;
use super::random::SeededRandom;
use super::world::PollKind;
use crate::support::Call;

/// The maximum number of votes kept for a late repeat.
const LATER_MAX: usize = 12;

/// A vote sent before.
type Old = (usize, String, VoteRequest);

/// Votes until the run ends.
pub async fn vote(mut client: Client) {
    let mut later: Vec<Old> = Vec::new();
    while client.should_continue() {
        if client.random.one_in(60) {
            send_invalid_request(&mut client).await;
        }
        if later.len() > LATER_MAX || (!later.is_empty() && client.random.one_in(8)) {
            // Repeat an old request: it must change nothing.
            let (poll, voter, ask) = later.swap_remove(client.random.below(later.len()));
            client.vote_until_answered(poll, &voter, ask).await;
        }
        let sent = act_as_voter(&mut client).await;
        if client.random.one_in(4) {
            later.push(sent);
        }
    }
}

fn choose(item: usize, request: Option<u32>) -> VoteRequest {
    VoteRequest {
        item,
        withdraw: false,
        request,
    }
}

/// Acts as one voter; returns the first vote sent.
async fn act_as_voter(client: &mut Client) -> Old {
    let tenant = client.random.below(client.shared.applications.len());
    let poll = client.poll(tenant);
    let voter = client.voter();
    let item = client.random.below(4);
    let other = (item + client.random.between(1, 3)) % 4;
    let kind = client.shared.history.polls[poll].kind;
    let named = kind == PollKind::Changeable || !client.random.one_in(10);
    let first = choose(item, named.then_some(1));
    match client.random.below(12) {
        // Vote twice on purpose.
        0 => {
            client.vote_until_answered(poll, &voter, first).await;
            client
                .vote_until_answered(poll, &voter, choose(item, Some(2)))
                .await;
        }
        // Vote twice concurrently: the same item, or two that exclude each other.
        1 => {
            let second = match client.random.one_in(2) {
                true => first,
                false => choose(other, Some(2)),
            };
            let mut twin = client.twin();
            let both = (
                client.vote_until_answered(poll, &voter, first),
                twin.vote_until_answered(poll, &voter, second),
            );
            tokio::join!(both.0, both.1);
        }
        // Lose the answer; some voters never retry.
        2 | 3 => {
            let patience = Duration::from_millis(client.random.between(1, 40) as u64);
            client.send(poll, &voter, first, Some(patience)).await;
            if !client.random.one_in(3) {
                client.vote_until_answered(poll, &voter, first).await;
            }
        }
        // Vote for another item, and one more.
        4 | 5 => {
            client.vote_until_answered(poll, &voter, first).await;
            client
                .vote_until_answered(poll, &voter, choose(other, Some(2)))
                .await;
            let third = (0..4).find(|third| ![item, other].contains(third));
            client
                .vote_until_answered(poll, &voter, choose(third.unwrap_or(0), Some(3)))
                .await;
        }
        6 if kind == PollKind::Changeable => {
            change_votes(client, poll, &voter, first, other).await;
        }
        _ => {
            client.vote_until_answered(poll, &voter, first).await;
        }
    }
    (poll, voter, first)
}

/// Changes and withdraws the vote, and repeats the first request.
async fn change_votes(
    client: &mut Client,
    poll: usize,
    voter: &str,
    first: VoteRequest,
    other: usize,
) {
    client.vote_until_answered(poll, voter, first).await;
    let withdraw = VoteRequest {
        withdraw: true,
        ..choose(first.item, Some(2))
    };
    let next = [choose(other, Some(3)), withdraw, choose(other, Some(4))];
    for ask in next {
        if client.random.one_in(3) {
            continue;
        }
        match client.random.one_in(3) {
            true => {
                let patience = Duration::from_millis(client.random.between(1, 40) as u64);
                client.send(poll, voter, ask, Some(patience)).await;
            }
            false => {
                client.vote_until_answered(poll, voter, ask).await;
            }
        }
    }
    client.vote_until_answered(poll, voter, first).await;
}

impl Client {
    /// Another client of the same voter.
    fn twin(&mut self) -> Self {
        let mut twin = Self::new(&self.shared, 0, self.number);
        twin.random = SeededRandom::new(self.random.number(), 0);
        twin
    }
}

/// Sends an invalid request. It must be refused with the right status, or with "unavailable", and
/// leave nothing behind: the audit fails if it finds a voter that only these requests name.
async fn send_invalid_request(client: &mut Client) {
    let application = &client.shared.applications[0];
    let poll = &client.shared.history.polls[0].poll;
    let stranger = poll.vote(0).replace("item-", "item-0");
    let call = |path: &str| application.call("PATCH", path);
    let json = "application/json";
    let (call, expected) = match client.random.below(5) {
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
        client.expect_unavailable("an invalid request", &answer);
    }
}
