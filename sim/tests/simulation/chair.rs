//! Chairs: they make polls while things go wrong, have them voted in, close
//! them, and see that nothing changes afterwards.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request};
use ballast_domain::TenantId;
use serde_json::json;
use tokio::time::sleep;

use crate::book::{Booth, Choice, Expected, Rules, Voter};
use crate::chance;
use crate::clients::{Client, Told, ballot, check, request};
use crate::trace::note;

/// A poll that was held, and its voters.
pub(crate) type Held = (Booth, Vec<Voter>);

pub(crate) struct Chair {
    pub(crate) tenant: TenantId,
    pub(crate) key: String,
    /// Whom it has vote.
    pub(crate) client: Client,
}

/// What makes a poll; one that names itself is made once.
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

/// The poll that was made.
pub(crate) fn made(tenant: &TenantId, key: &str, rules: Rules, told: &Told) -> Booth {
    assert_eq!(told.status, 201, "{}", told.body);
    let items = told.body["items"].as_array().unwrap().iter();
    Booth {
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

impl Chair {
    /// Holds so many polls, one after the other.
    pub(crate) async fn hold(self, polls: u64) -> Vec<Held> {
        let mut held = Vec::new();
        for number in 0..polls {
            sleep(chance::ms(0, 3_000)).await;
            held.push(self.one(number).await);
        }
        held
    }

    async fn one(&self, number: u64) -> Held {
        let rules = Rules {
            changeable: chance::happens(500),
            choices: 1,
        };
        let name = format!("{} poll {number}", self.tenant);
        note!("{name} is to be made");
        let make = || new_poll(&self.key, rules, Some(&name));
        let told = self.client.settled(&name, make).await;
        let mut booth = made(&self.tenant, &self.key, rules, &told);
        // The same again is the same.
        if chance::happens(500) {
            let again = self.client.settled(&name, make).await;
            assert_eq!(again.body["pollID"], told.body["pollID"], "{name}");
        }
        let client = Client {
            booths: Arc::new(vec![booth.clone()]),
            ..self.client.clone()
        };
        let voters = (0..chance::within(1, 4)).map(|voter| Voter::new(0, format!("p{voter}")));
        let mut voters = client.clone().vote(voters.collect()).await;
        let path = format!("/polls/{}/close", booth.poll);
        let close = || request(&booth, Method::POST, &path, None);
        let closed = self.client.settled(&format!("close {name}"), close).await;
        assert_eq!(closed.status, 200, "{name}: {}", closed.body);
        booth.is_closed = true;
        // Too late for a new voter; the others' votes stay as they are.
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
            let vote = || ballot(&booth, voter, choice, &late);
            check(&late, &expected, &self.client.settled(&late, vote).await);
            client.read(voter).await;
        }
        (booth, voters)
    }
}
