//! What all clients share: how a vote is sent, how its answer is read, and
//! what an answer may be at all.
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

use super::book::{Ask, Book, Said};
use super::chance::Chance;
use super::world::Kind;
use crate::support::polls::Application;
use crate::support::{Answer, Call};

/// Nobody waits longer than this for an answer of a process that runs.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many requests may stay without an answer though the process runs: the
/// clients' library may wait for a connection in vain, if the process died while it
/// connected and nobody else needs one.
const RARELY: u64 = 2;

/// What clients have in common.
pub struct Common {
    /// The book.
    pub book: Book,
    /// One application per tenant.
    pub applications: Vec<Application>,
    /// Whether it is time to come to an end.
    pub ending: AtomicBool,
    /// Requests answered with "come back later".
    pub sent_away: AtomicU64,
    /// Requests that were not answered in time.
    pub late: AtomicU64,
    /// What the first of those that were sent away was told.
    pub first_away: OnceLock<String>,
    /// How long a client thinks before a vote, on average.
    pub think: Duration,
}

/// A client.
pub struct Client {
    /// What it shares.
    pub common: Arc<Common>,
    /// Its number.
    pub number: usize,
    /// Its chance.
    pub chance: Chance,
    voters: usize,
}

impl Client {
    /// The client of this number.
    pub fn new(common: &Arc<Common>, seed: u64, number: usize) -> Self {
        Self {
            common: common.clone(),
            number,
            chance: Chance::new(seed, 1_000 + number as u64),
            voters: 0,
        }
    }

    /// Whether to go on.
    pub fn goes_on(&self) -> bool {
        !self.common.ending.load(Ordering::SeqCst) && !self.common.book.has_findings()
    }

    /// A voter that nobody else is; some have awkward names.
    pub fn voter(&mut self) -> String {
        self.voters += 1;
        let awkward = match self.chance.below(20) {
            0 => " \u{eb}",
            1 => "\\\"/",
            2 => "%2F?&",
            _ => "",
        };
        format!("c{}-{}{awkward}", self.number, self.voters)
    }

    /// Some poll of a tenant; one that has ended only now and then.
    pub fn poll(&mut self, tenant: usize) -> usize {
        loop {
            let kinds = [0, 0, 0, 0, 1, 1, 2, 2, 3, 4];
            let kind = kinds[self.chance.below(kinds.len())];
            let poll = tenant * 5 + kind;
            let book = &self.common.book.polls[poll];
            let over = match book.kind {
                Kind::Expiring(at) => self.common.book.now().ms > at,
                Kind::Closing => book.closing.lock().unwrap().1.is_some(),
                _ => false,
            };
            if !over || self.chance.one_in(8) {
                return poll;
            }
        }
    }

    /// Rests for a moment before something is tried again.
    pub async fn rest(&mut self) {
        let ms = self.chance.between(5, 60) as u64;
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Thinks before so many votes.
    pub async fn think(&mut self, votes: u32) {
        let think = self.common.think * votes;
        if !think.is_zero() {
            let part = self.chance.between(0, 200) as u32;
            tokio::time::sleep(think * part / 100).await;
        }
    }

    /// Sends one vote and says what was said. `patience` makes it give up
    /// early: an answer that is lost.
    pub async fn send(
        &mut self,
        poll: usize,
        voter: &str,
        ask: Ask,
        patience: Option<Duration>,
    ) -> Said {
        self.think(1).await;
        let call = self.call(poll, voter, ask);
        let book = &self.common.book;
        let ticket = book.sent(poll, voter, ask);
        let patience_or_most = patience.unwrap_or(PATIENCE);
        let said = match tokio::time::timeout(patience_or_most, call.outcome()).await {
            Ok(Ok(answer)) => self.read(&answer, ask),
            Ok(Err(error)) if error.is_connect() => Said::NeverSent,
            Ok(Err(_)) => Said::Unknown,
            Err(_) if patience.is_some() => Said::Unknown,
            Err(_) => {
                self.late(&format!("the vote of {voter}, {ask:?},"));
                Said::Unknown
            }
        };
        book.answered(&ticket, said);
        said
    }

    /// Sends one vote until it is known what became of it.
    pub async fn settle(&mut self, poll: usize, voter: &str, ask: Ask) -> Said {
        loop {
            let said = self.send(poll, voter, ask, None).await;
            if !matches!(said, Said::Unknown | Said::NeverSent) || !self.goes_on() {
                return said;
            }
            self.rest().await;
        }
    }

    fn call(&mut self, poll: usize, voter: &str, ask: Ask) -> Call {
        let book = &self.common.book.polls[poll];
        let path = book.poll.vote(ask.item);
        let method = match (ask.withdraw, self.chance.one_in(4)) {
            (true, _) => "DELETE",
            (false, true) => "POST",
            (false, false) => "PATCH",
        };
        let mut call = self.common.applications[book.tenant].call(method, &path);
        if let Some(request) = ask.request {
            call = call.header("idempotency-key", &name_of(voter, request));
        }
        match voter.is_ascii() && self.chance.one_in(2) {
            true => call.header("voter-id", voter),
            false => call.json(&json!({ "voterID": voter })),
        }
    }

    fn read(&self, answer: &Answer, ask: Ask) -> Said {
        let tag = answer.header("etag").trim_matches('"').parse().ok();
        let code = answer.body["code"].as_str().unwrap_or_default();
        match (
            answer.status,
            answer.body["outcome"].as_str().unwrap_or(code),
        ) {
            (200, "counted") if !ask.withdraw && tag.is_some() => Said::Done(tag),
            (200, "withdrawn") if ask.withdraw && tag.is_some() => Said::Done(tag),
            (200, "already") if !ask.withdraw && tag.is_some() => Said::Already(tag),
            (409, "poll-closed") => Said::Closed,
            (409, "already-voted") => Said::AlreadyVoted,
            (404, "vote-not-found") if ask.withdraw => Said::NotChosen,
            _ => {
                self.expect_away("a vote", answer);
                Said::Unknown
            }
        }
    }

    /// No answer came, and why.
    pub fn unanswered(&self, what: &str, error: &reqwest::Error) {
        if error.is_timeout() {
            self.late(what);
        }
    }

    /// No answer came in time.
    fn late(&self, what: &str) {
        if self.common.late.fetch_add(1, Ordering::SeqCst) >= RARELY {
            self.common.book.found(format!("{what} is never answered"));
        }
    }

    /// Nothing else may be said: come back later, and when.
    pub fn expect_away(&self, what: &str, answer: &Answer) {
        if answer.status == 503 && !answer.header("retry-after").is_empty() {
            self.common.sent_away.fetch_add(1, Ordering::SeqCst);
            let told = || format!("{what}: {}", answer.text);
            self.common.first_away.get_or_init(told);
            return;
        }
        let told = format!(
            "{what} was answered with {}: {}",
            answer.status, answer.text
        );
        self.common.book.found(told);
    }
}

/// The name of a voter's request: visible ASCII.
pub fn name_of(voter: &str, request: u32) -> String {
    let voter = voter.split(' ').next().unwrap_or(voter);
    format!("{voter}/{request}")
}

/// A vote as a line of a stream.
pub fn line(book: &Book, poll: usize, voter: &str, ask: Ask) -> String {
    let poll = &book.polls[poll].poll;
    let mut line = json!({
        "pollID": poll.id, "itemID": poll.items[ask.item], "voterID": voter,
    });
    if let Some(request) = ask.request {
        line["requestID"] = name_of(voter, request).into();
    }
    format!("{line}\n")
}

/// What a line of a stream's answer says. `None`: something that must not be.
pub fn outcome(line: &Value) -> Option<Said> {
    let code = line["code"].as_str().unwrap_or_default();
    Some(match (line["outcome"].as_str()?, code) {
        ("counted", _) => Said::Done(None),
        ("already", _) => Said::Already(None),
        ("refused", "poll-closed") => Said::Closed,
        ("refused", "already-voted") => Said::AlreadyVoted,
        ("refused", "unavailable" | "busy") => Said::Unknown,
        _ => return None,
    })
}
