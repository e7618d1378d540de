//! Clients vote, change their choice, give up, retry through another router with the same
//! idempotency key, and read what they wrote. Every response is compared with the book.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::book::{Choice, Expected, ExpectedRow, TestPoll, Voter};
use crate::chance;
use crate::routers::RouterProcess;
use crate::scheduler;
use crate::trace::{self, note, now_ms};
use crate::weather;

/// A client.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) test_polls: Arc<Vec<TestPoll>>,
    pub(crate) routers: Vec<Arc<RouterProcess>>,
    /// The longest wait between two choices.
    pub(crate) rest_ms: u64,
}

/// A response.
pub(crate) struct ClientResponse {
    pub(crate) status: u16,
    pub(crate) revision: Option<u32>,
    pub(crate) body: Value,
}

impl Client {
    /// Votes until all its voters are done.
    pub(crate) async fn vote(self, mut voters: Vec<Voter>) -> Vec<Voter> {
        loop {
            let open: Vec<usize> = (0..voters.len()).filter(|n| !voters[*n].is_done).collect();
            if open.is_empty() {
                return voters;
            }
            sleep(chance::ms(0, self.rest_ms)).await;
            let voter = &mut voters[*chance::pick(&open)];
            match chance::below(10) {
                0 | 1 => self.read(voter).await,
                _ => self.choose(voter).await,
            }
        }
    }

    async fn choose(&self, voter: &mut Voter) {
        trace::count(|counts| counts.operations += 1);
        let test_poll = &self.test_polls[voter.test_poll];
        let (choice, row, expected) = voter.next(test_poll);
        let name = format!("{}-{}-{}", self.number, voter.name, voter.made);
        note!("client {} {name}: {choice:?}", self.number);
        let given_up = Arc::new(AtomicBool::new(false));
        // Sometimes two requests at once, like an impatient client.
        if chance::happens(80) {
            let (client, voter, given_up) = (self.clone(), voter.clone(), given_up.clone());
            let (name, expected) = (name.clone(), expected.clone());
            scheduler::spawn(scheduler::WORLD, async move {
                let request = ballot(&client.test_polls[voter.test_poll], &voter, choice, &name);
                if let Some(told) = client.once(request, &name).await {
                    // It may be the only one to arrive, after the poll was closed, if
                    // the client has given up on the other one.
                    let is_late = told.body["code"] == "poll-closed";
                    if !(is_late && given_up.load(Ordering::Relaxed)) {
                        check(&name, &expected, &told);
                    }
                }
            });
        }
        let gives_up = weather::is_stormy() && chance::happens(60);
        loop {
            let request = ballot(test_poll, voter, choice, &name);
            if let Some(told) = self.once(request, &name).await {
                check(&name, &expected, &told);
                voter.record_answer(row);
                return;
            }
            if gives_up {
                note!("client {} gives {name} up", self.number);
                given_up.store(true, Ordering::Relaxed);
                voter.gave_up(row);
                return;
            }
            sleep(chance::ms(20, 500)).await;
        }
    }

    /// Repeats a request until it gets an answer below 500.
    pub(crate) async fn ask_until_answered(
        &self,
        name: &str,
        request: impl Fn() -> Request<Body>,
    ) -> ClientResponse {
        loop {
            if let Some(told) = self.once(request(), name).await {
                return told;
            }
            sleep(chance::ms(20, 500)).await;
        }
    }

    pub(crate) async fn read(&self, voter: &Voter) {
        let test_poll = &self.test_polls[voter.test_poll];
        let name = format!("read {}", voter.name);
        let path = format!("/polls/{}/voters/{}", test_poll.poll, voter.name);
        let look = || request(test_poll, Method::GET, &path, None);
        let told = self.ask_until_answered(&name, look).await;
        let found = match told.status {
            404 => ExpectedRow::default().items,
            200 => {
                let ids = told.body["itemIDs"].as_array().unwrap().iter();
                let place = |id: &Value| {
                    let mut items = test_poll.items.iter();
                    items.position(|item| item.to_string() == id.as_str().unwrap())
                };
                ids.map(|id| place(id).unwrap()).collect()
            }
            other => panic!("{name}: {other} {}", told.body),
        };
        let is_known =
            found == voter.row.items || voter.or.as_ref().is_some_and(|or| found == or.items);
        assert!(is_known, "{name} reads {found:?}, not {:?}", voter.row);
    }

    /// Asks one router, and returns an answer below 500, if there is one.
    async fn once(&self, request: Request<Body>, name: &str) -> Option<ClientResponse> {
        let sent = now_ms();
        let router = chance::pick(&self.routers);
        let patience = match weather::is_stormy() && chance::happens(300) {
            true => chance::ms(5, 2_000),
            false => Duration::from_secs(25),
        };
        let answer = timeout(patience, router.ask(request)).await.ok().flatten();
        let told = match answer {
            Some(answer) => Some(read_response(answer).await),
            None => None,
        };
        match &told {
            Some(told) => note!("{name}: {} {}", told.status, told.body["outcome"]),
            None => note!("{name}: no answer"),
        }
        let settled = told.filter(|told| told.status < 500);
        if settled.is_none() {
            trace::count(|counts| counts.held_back += 1);
            assert!(
                weather::excuses(sent),
                "{name}, sent at {sent}, was not answered, and nothing was wrong"
            );
        }
        settled
    }
}

pub(crate) fn ballot(
    test_poll: &TestPoll,
    voter: &Voter,
    choice: Choice,
    name: &str,
) -> Request<Body> {
    let (method, item) = match choice {
        Choice::For(item) => (Method::PATCH, item),
        Choice::Withdraw(item) => (Method::DELETE, item),
    };
    let path = format!("/polls/{}/votes/{}", test_poll.poll, test_poll.items[item]);
    request(test_poll, method, &path, Some((&voter.name, name)))
}

/// Builds a request. A write has the voter and an idempotency key.
pub(crate) fn request(
    test_poll: &TestPoll,
    method: Method,
    path: &str,
    writes: Option<(&str, &str)>,
) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-api-key", &test_poll.key);
    if let Some((voter, name)) = writes {
        request = request
            .header("voter-id", voter)
            .header("idempotency-key", name);
    }
    request.body(Body::empty()).unwrap()
}

pub(crate) async fn read_response(answer: Response<Body>) -> ClientResponse {
    let (parts, body) = answer.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let tag = parts.headers.get("etag").and_then(|tag| tag.to_str().ok());
    ClientResponse {
        status: parts.status.as_u16(),
        revision: tag.and_then(|tag| tag.trim_matches('"').parse().ok()),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    }
}

pub(crate) fn check(name: &str, expected: &Expected, told: &ClientResponse) {
    let outcome = told.body["outcome"].as_str().unwrap_or("refused");
    assert_eq!(
        (told.status, outcome, told.revision),
        (expected.status, expected.outcome, expected.revision),
        "{name} was told {}",
        told.body
    );
}
