//! The history of a run: every attempt, its outcome, and their order by one logical clock. It
//! records; the audit judges.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::world::PollKind;
use crate::support::in_ms;
use crate::support::polls::TestPoll;

/// A moment: its position in the order of all moments, and the wall clock's time.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Its position.
    pub tick: u64,
    /// Milliseconds since 1970.
    pub ms: i64,
}

/// A requested change of a voter's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoteRequest {
    /// The item's index in its poll.
    pub item: usize,
    /// Whether the vote is withdrawn instead of cast.
    pub withdraw: bool,
    /// The number for the request's idempotency key; `None`: it has no key.
    pub request: Option<u32>,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteOutcome {
    /// Counted, or withdrawn, with the revision if the answer has it.
    Applied(Option<u32>),
    /// The vote was there already, with the revision if the answer has it.
    Already(Option<u32>),
    /// The poll had ended.
    Closed,
    /// The voter had voted.
    AlreadyVoted,
    /// There was no vote to withdraw.
    NotChosen,
    /// No answer, or "unavailable": the vote may have been counted or not.
    Unknown,
    /// The request never reached the process.
    NeverSent,
}

/// One attempt of one request.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// The request.
    pub ask: VoteRequest,
    /// When the client sent it.
    pub sent: Moment,
    /// When it was answered, or the client gave up.
    pub answered: Option<Moment>,
    /// The outcome.
    pub outcome: VoteOutcome,
}

/// The history of one voter.
#[derive(Debug, Default)]
pub struct VoterHistory {
    /// All attempts, in sending order.
    pub attempts: Vec<Attempt>,
    /// Items acknowledged at least once.
    acknowledged: BTreeSet<usize>,
}

/// The history of one poll.
#[derive(Debug)]
pub struct PollHistory {
    /// The index of its tenant.
    pub tenant: usize,
    /// What it allows.
    pub kind: PollKind,
    /// The poll.
    pub poll: TestPoll,
    /// When a client first requested to close it, and when that was acknowledged.
    pub closing: Mutex<(Option<Moment>, Option<Moment>)>,
    pages: Mutex<HashMap<String, VoterHistory>>,
    /// Acknowledged votes. If votes cannot be withdrawn, no later result may be lower.
    floor: AtomicU64,
    /// The floor at the last kill.
    floor_at_kill: AtomicU64,
    /// The highest total that any reader got.
    shown: AtomicU64,
}

/// An attempt without an answer yet.
#[must_use]
pub struct PendingAttempt {
    poll: usize,
    voter: String,
    place: usize,
}

/// The history of a run.
#[derive(Debug, Default)]
pub struct History {
    /// The polls.
    pub polls: Vec<PollHistory>,
    clock: AtomicU64,
    acknowledged: AtomicU64,
    answers: AtomicU64,
    restarts: Mutex<Vec<u64>>,
    findings: Mutex<Vec<String>>,
}

impl PollHistory {
    /// An empty history.
    pub fn new(tenant: usize, kind: PollKind, poll: TestPoll) -> Self {
        Self {
            tenant,
            kind,
            poll,
            closing: Mutex::default(),
            pages: Mutex::default(),
            floor: 0.into(),
            floor_at_kill: 0.into(),
            shown: 0.into(),
        }
    }

    /// The votes acknowledged so far.
    pub fn floor(&self) -> u64 {
        self.floor.load(Ordering::SeqCst)
    }

    /// The votes acknowledged before the last kill.
    pub fn floor_at_kill(&self) -> u64 {
        self.floor_at_kill.load(Ordering::SeqCst)
    }

    /// The highest total that any reader got so far.
    pub fn highest_total_shown(&self) -> u64 {
        self.shown.load(Ordering::SeqCst)
    }

    /// Records a total that a reader got.
    pub fn record_shown_total(&self, total: u64) {
        self.shown.fetch_max(total, Ordering::SeqCst);
    }

    /// All voters' histories. Call it when no client votes any more.
    pub fn pages(&self) -> std::sync::MutexGuard<'_, HashMap<String, VoterHistory>> {
        self.pages.lock().unwrap()
    }
}

impl History {
    /// Now.
    pub fn now(&self) -> Moment {
        Moment {
            tick: self.clock.fetch_add(1, Ordering::SeqCst),
            ms: in_ms(0).unix_ms(),
        }
    }

    /// Records a vote before it is sent.
    pub fn record_attempt(&self, poll: usize, voter: &str, ask: VoteRequest) -> PendingAttempt {
        let attempt = Attempt {
            ask,
            sent: self.now(),
            answered: None,
            outcome: VoteOutcome::Unknown,
        };
        let mut pages = self.polls[poll].pages.lock().unwrap();
        let page = pages.entry(voter.to_owned()).or_default();
        page.attempts.push(attempt);
        PendingAttempt {
            poll,
            voter: voter.to_owned(),
            place: page.attempts.len() - 1,
        }
    }

    /// Records the outcome of an attempt, or that there is no answer.
    pub fn record_answer(&self, ticket: &PendingAttempt, outcome: VoteOutcome) {
        let now = self.now();
        let history = &self.polls[ticket.poll];
        let mut pages = history.pages.lock().unwrap();
        let page = pages.get_mut(&ticket.voter).unwrap();
        let attempt = &mut page.attempts[ticket.place];
        (attempt.answered, attempt.outcome) = (Some(now), outcome);
        let counts = matches!(outcome, VoteOutcome::Applied(_) | VoteOutcome::Already(_))
            && !attempt.ask.withdraw;
        if outcome != VoteOutcome::Unknown && outcome != VoteOutcome::NeverSent {
            self.answers.fetch_add(1, Ordering::SeqCst);
        }
        if counts && page.acknowledged.insert(attempt.ask.item) {
            history.floor.fetch_add(1, Ordering::SeqCst);
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Records that the process was killed.
    pub fn record_kill(&self) {
        for poll in &self.polls {
            poll.floor_at_kill.store(poll.floor(), Ordering::SeqCst);
        }
    }

    /// Records a restart: attempts in flight before it cannot take effect any more.
    pub fn record_restart(&self) {
        let tick = self.now().tick;
        self.restarts.lock().unwrap().push(tick);
    }

    /// The latest moment at which an attempt with an answer lost at `tick` can have taken
    /// effect.
    pub fn end_of_attempts(&self, tick: u64) -> u64 {
        let restarts = self.restarts.lock().unwrap();
        let next = restarts.partition_point(|restart| *restart < tick);
        restarts.get(next).copied().unwrap_or(u64::MAX)
    }

    /// The number of distinct acknowledged votes.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// The number of answered votes, refusals included.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }

    /// Records a violation.
    pub fn record_finding(&self, finding: impl Into<String>) {
        self.findings.lock().unwrap().push(finding.into());
    }

    /// Whether there are violations.
    pub fn has_findings(&self) -> bool {
        !self.findings.lock().unwrap().is_empty()
    }

    /// All violations.
    pub fn findings(&self) -> Vec<String> {
        self.findings.lock().unwrap().clone()
    }
}
