//! Poll managers create polls during the storm, let clients vote in them, close them, and
//! check that nothing changes afterwards.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request};
use ballast_domain::TenantId;
use serde_json::json;
use tokio::time::sleep;

use crate::book::{Choice, Expected, Rules, TestPoll, Voter};
use crate::chance;
use crate::clients::{Client, ClientResponse, ballot, check, request};
use crate::trace::note;

/// A closed poll, and its voters.
pub(crate) type FinishedPoll = (TestPoll, Vec<Voter>);

pub(crate) struct PollManager {
    pub(crate) tenant: TenantId,
    pub(crate) key: String,
    /// The client that votes.
    pub(crate) client: Client,
}

/// Builds the request that creates a poll, optionally with an idempotency key.
pub(crate) fn new_poll(key: &str, rules: Rules, name: Option<&str>) -> Request<Body> {
    let body = json!({
        "items": ["a", "b", "c", "d"],
        "expirationTime": "2030-01-01T00:00:00Z",
        "voteChangeable": rules.changeable,
        "choicesMax": rules.choices,
    });
    let mut request = Request::builder()
        .method(Method::POST)
        .uri("/polls")
        .header("x-api-key", key)
        .header("content-type", "application/json");
    if let Some(name) = name {
        request = request.header("idempotency-key", name);
    }
    request.body(Body::from(body.to_string())).unwrap()
}

/// Reads the created poll from the response.
pub(crate) fn to_test_poll(
    tenant: &TenantId,
    key: &str,
    rules: Rules,
    told: &ClientResponse,
) -> TestPoll {
    assert_eq!(told.status, 201, "{}", told.body);
    let items = told.body["items"].as_array().unwrap().iter();
    TestPoll {
        tenant: tenant.clone(),
        key: key.to_owned(),
        poll: told.body["pollID"].as_str().unwrap().parse().unwrap(),
        items: items
            .map(|item| item["itemID"].as_str().unwrap().parse().unwrap())
            .collect(),
        rules,
        is_closed: false,
    }
}

impl PollManager {
    /// Runs this many polls, one after the other.
    pub(crate) async fn hold(self, polls: u64) -> Vec<FinishedPoll> {
        let mut held = Vec::new();
        for number in 0..polls {
            sleep(chance::ms(0, 3_000)).await;
            held.push(self.one(number).await);
        }
        held
    }

    async fn one(&self, number: u64) -> FinishedPoll {
        let rules = Rules {
            changeable: chance::happens(500),
            choices: 1,
        };
        let name = format!("{} poll {number}", self.tenant);
        note!("creating {name}");
        let make = || new_poll(&self.key, rules, Some(&name));
        let told = self.client.ask_until_answered(&name, make).await;
        let mut test_poll = to_test_poll(&self.tenant, &self.key, rules, &told);
        // A repeated request returns the same poll.
        if chance::happens(500) {
            let again = self.client.ask_until_answered(&name, make).await;
            assert_eq!(again.body["pollID"], told.body["pollID"], "{name}");
        }
        let client = Client {
            test_polls: Arc::new(vec![test_poll.clone()]),
            ..self.client.clone()
        };
        let voters = (0..chance::within(1, 4)).map(|voter| Voter::new(0, format!("p{voter}")));
        let mut voters = client.clone().vote(voters.collect()).await;
        let path = format!("/polls/{}/close", test_poll.poll);
        let close = || request(&test_poll, Method::POST, &path, None);
        let closed = self
            .client
            .ask_until_answered(&format!("close {name}"), close)
            .await;
        assert_eq!(closed.status, 200, "{name}: {}", closed.body);
        test_poll.is_closed = true;
        // A new voter is refused; the votes of the others stay as they are.
        voters.push(Voter::new(0, "late".to_owned()));
        for (place, voter) in voters.iter().enumerate() {
            if voter.or.is_some() {
                continue;
            }
            let (choice, expected) = match voter.row.items.first() {
                Some(item) => (
                    Choice::For(*item),
                    Expected {
                        status: 200,
                        outcome: "already",
                        revision: Some(voter.row.revision),
                    },
                ),
                None => (Choice::For(0), Expected::refused()),
            };
            let late = format!("{name} late {place}");
            let vote = || ballot(&test_poll, voter, choice, &late);
            check(
                &late,
                &expected,
                &self.client.ask_until_answered(&late, vote).await,
            );
            client.read(voter).await;
        }
        (test_poll, voters)
    }
}
