//! The shared part of all clients: sends a vote, parses the answer, and rejects answers that no
//! client may get.
//!
//! ```text
//!   voters.rs   one vote per request: retried, repeated, changed, withdrawn
//!   streams.rs  many votes per request
//!   readers.rs  results, live results, exports
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};

use super::history::{History, VoteOutcome, VoteRequest};
use super::random::SeededRandom;
use super::world::PollKind;
use crate::support::polls::Application;
use crate::support::{Call, HttpAnswer};

/// A running process answers within this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many requests may time out while the process runs: the HTTP library may wait for a
/// connection that never comes if the process died while it connected.
const TIMEOUTS_ALLOWED: u64 = 2;

/// The state that clients share.
pub struct SharedState {
    /// The history of the run.
    pub history: History,
    /// One application per tenant.
    pub applications: Vec<Application>,
    /// Whether clients should stop.
    pub ending: AtomicBool,
    /// How many requests were answered with "unavailable".
    pub unavailable_answers: AtomicU64,
    /// How many requests timed out.
    pub late: AtomicU64,
    /// The first "unavailable" answer.
    pub first_unavailable: OnceLock<String>,
    /// How long a client pauses before a vote, on average.
    pub think: Duration,
}

/// A client.
pub struct Client {
    /// The state shared with other clients.
    pub shared: Arc<SharedState>,
    /// Its number.
    pub number: usize,
    /// Its random numbers.
    pub random: SeededRandom,
    voters: usize,
}

impl Client {
    /// The client of this number.
    pub fn new(shared: &Arc<SharedState>, seed: u64, number: usize) -> Self {
        Self {
            shared: shared.clone(),
            number,
            random: SeededRandom::new(seed, 1_000 + number as u64),
            voters: 0,
        }
    }

    /// Whether to continue.
    pub fn should_continue(&self) -> bool {
        !self.shared.ending.load(Ordering::SeqCst) && !self.shared.history.has_findings()
    }

    /// A new voter name that no other client uses; some are awkward to encode.
    pub fn voter(&mut self) -> String {
        self.voters += 1;
        let awkward = match self.random.below(20) {
            0 => " \u{eb}",
            1 => "\\\"/",
            2 => "%2F?&",
            _ => "",
        };
        format!("c{}-{}{awkward}", self.number, self.voters)
    }

    /// A random poll of a tenant, seldom one that has ended.
    pub fn poll(&mut self, tenant: usize) -> usize {
        loop {
            let kinds = [0, 0, 0, 0, 1, 1, 2, 2, 3, 4];
            let kind = kinds[self.random.below(kinds.len())];
            let poll = tenant * 5 + kind;
            let history = &self.shared.history.polls[poll];
            let over = match history.kind {
                PollKind::Expiring(at) => self.shared.history.now().ms > at,
                PollKind::Closing => history.closing.lock().unwrap().1.is_some(),
                _ => false,
            };
            if !over || self.random.one_in(8) {
                return poll;
            }
        }
    }

    /// Waits for a moment before a retry.
    pub async fn back_off(&mut self) {
        let ms = self.random.between(5, 60) as u64;
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Pauses before sending this many votes.
    pub async fn think(&mut self, votes: u32) {
        let think = self.shared.think * votes;
        if !think.is_zero() {
            let part = self.random.between(0, 200) as u32;
            tokio::time::sleep(think * part / 100).await;
        }
    }

    /// Sends one vote and returns the outcome. With `patience` the client gives up early, which
    /// simulates a lost answer.
    pub async fn send(
        &mut self,
        poll: usize,
        voter: &str,
        ask: VoteRequest,
        patience: Option<Duration>,
    ) -> VoteOutcome {
        self.think(1).await;
        let call = self.call(poll, voter, ask);
        let history = &self.shared.history;
        let ticket = history.record_attempt(poll, voter, ask);
        let patience_or_most = patience.unwrap_or(PATIENCE);
        let outcome = match tokio::time::timeout(patience_or_most, call.outcome()).await {
            Ok(Ok(answer)) => self.read(&answer, ask),
            Ok(Err(error)) if error.is_connect() => VoteOutcome::NeverSent,
            Ok(Err(_)) => VoteOutcome::Unknown,
            Err(_) if patience.is_some() => VoteOutcome::Unknown,
            Err(_) => {
                self.record_timeout(&format!("the vote of {voter}, {ask:?},"));
                VoteOutcome::Unknown
            }
        };
        history.record_answer(&ticket, outcome);
        outcome
    }

    /// Retries one vote until its outcome is known.
    pub async fn vote_until_answered(
        &mut self,
        poll: usize,
        voter: &str,
        ask: VoteRequest,
    ) -> VoteOutcome {
        loop {
            let outcome = self.send(poll, voter, ask, None).await;
            if !matches!(outcome, VoteOutcome::Unknown | VoteOutcome::NeverSent)
                || !self.should_continue()
            {
                return outcome;
            }
            self.back_off().await;
        }
    }

    fn call(&mut self, poll: usize, voter: &str, ask: VoteRequest) -> Call {
        let history = &self.shared.history.polls[poll];
        let path = history.poll.vote(ask.item);
        let method = match (ask.withdraw, self.random.one_in(4)) {
            (true, _) => "DELETE",
            (false, true) => "POST",
            (false, false) => "PATCH",
        };
        let mut call = self.shared.applications[history.tenant].call(method, &path);
        if let Some(request) = ask.request {
            call = call.header("idempotency-key", &request_name(voter, request));
        }
        match voter.is_ascii() && self.random.one_in(2) {
            true => call.header("voter-id", voter),
            false => call.json(&json!({ "voterID": voter })),
        }
    }

    fn read(&self, answer: &HttpAnswer, ask: VoteRequest) -> VoteOutcome {
        let tag = answer.header("etag").trim_matches('"').parse().ok();
        let code = answer.body["code"].as_str().unwrap_or_default();
        match (
            answer.status,
            answer.body["outcome"].as_str().unwrap_or(code),
        ) {
            (200, "counted") if !ask.withdraw && tag.is_some() => VoteOutcome::Applied(tag),
            (200, "withdrawn") if ask.withdraw && tag.is_some() => VoteOutcome::Applied(tag),
            (200, "already") if !ask.withdraw && tag.is_some() => VoteOutcome::Already(tag),
            (409, "poll-closed") => VoteOutcome::Closed,
            (409, "already-voted") => VoteOutcome::AlreadyVoted,
            (404, "vote-not-found") if ask.withdraw => VoteOutcome::NotChosen,
            _ => {
                self.expect_unavailable("a vote", answer);
                VoteOutcome::Unknown
            }
        }
    }

    /// Records a request without an answer.
    pub fn record_no_answer(&self, what: &str, error: &reqwest::Error) {
        if error.is_timeout() {
            self.record_timeout(what);
        }
    }

    /// Records a request that timed out.
    fn record_timeout(&self, what: &str) {
        if self.shared.late.fetch_add(1, Ordering::SeqCst) >= TIMEOUTS_ALLOWED {
            self.shared
                .history
                .record_finding(format!("{what} timed out"));
        }
    }

    /// Checks that the answer is "unavailable" with `Retry-After`; anything else is a violation.
    pub fn expect_unavailable(&self, what: &str, answer: &HttpAnswer) {
        if answer.status == 503 && !answer.header("retry-after").is_empty() {
            self.shared
                .unavailable_answers
                .fetch_add(1, Ordering::SeqCst);
            let text = || format!("{what}: {}", answer.text);
            self.shared.first_unavailable.get_or_init(text);
            return;
        }
        let text = format!(
            "{what} was answered with {}: {}",
            answer.status, answer.text
        );
        self.shared.history.record_finding(text);
    }
}

/// The idempotency key of a voter's request: visible ASCII.
pub fn request_name(voter: &str, request: u32) -> String {
    let voter = voter.split(' ').next().unwrap_or(voter);
    format!("{voter}/{request}")
}

/// A vote as a line of a stream.
pub fn line(history: &History, poll: usize, voter: &str, ask: VoteRequest) -> String {
    let poll = &history.polls[poll].poll;
    let mut line = json!({
        "pollID": poll.id, "itemID": poll.items[ask.item], "voterID": voter,
    });
    if let Some(request) = ask.request {
        line["requestID"] = request_name(voter, request).into();
    }
    format!("{line}\n")
}

/// Parses a line of a stream's answer. `None`: no such outcome is allowed.
pub fn parse_outcome(line: &Value) -> Option<VoteOutcome> {
    let code = line["code"].as_str().unwrap_or_default();
    Some(match (line["outcome"].as_str()?, code) {
        ("counted", _) => VoteOutcome::Applied(None),
        ("already", _) => VoteOutcome::Already(None),
        ("refused", "poll-closed") => VoteOutcome::Closed,
        ("refused", "already-voted") => VoteOutcome::AlreadyVoted,
        ("refused", "unavailable" | "busy") => VoteOutcome::Unknown,
        _ => return None,
    })
}
