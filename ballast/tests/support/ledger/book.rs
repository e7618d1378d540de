//! The book: what was sent, what was answered, and when, by one clock that
//! orders all of it. It judges nothing but what every answer must keep to.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::world::Kind;
use crate::support::in_ms;
use crate::support::polls::Poll;

/// A moment: its place in the order of all moments, and the clock's time.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Its place.
    pub tick: u64,
    /// Milliseconds since 1970.
    pub ms: i64,
}

/// What is asked of a voter's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The item's place in its poll.
    pub item: usize,
    /// Given up instead of chosen.
    pub withdraw: bool,
    /// The request's name among the voter's; `None`: it has none.
    pub request: Option<u32>,
}

/// What was said to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Counted, or given up, with the revision if it was told.
    Done(Option<u32>),
    /// It was so before, with the revision if it was told.
    Already(Option<u32>),
    /// The poll had ended.
    Closed,
    /// The voter had voted.
    AlreadyVoted,
    /// There was nothing to give up.
    NotChosen,
    /// Nothing, or "come back later": it may have happened or not.
    Unknown,
    /// Nothing, and it never reached anybody.
    NeverSent,
}

/// One attempt of one request.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// What was asked.
    pub ask: Ask,
    /// When it was sent.
    pub sent: Moment,
    /// When it was answered, or given up.
    pub answered: Option<Moment>,
    /// The answer.
    pub said: Said,
}

/// A voter's page.
#[derive(Debug, Default)]
pub struct Page {
    /// All attempts, in the order they were sent.
    pub attempts: Vec<Attempt>,
    /// Items acknowledged at least once.
    acknowledged: BTreeSet<usize>,
}

/// What is known of one poll.
#[derive(Debug)]
pub struct PollBook {
    /// Whose it is.
    pub tenant: usize,
    /// What it allows.
    pub kind: Kind,
    /// The poll.
    pub poll: Poll,
    /// When its closing was first asked for, and when it was acknowledged.
    pub closing: Mutex<(Option<Moment>, Option<Moment>)>,
    pages: Mutex<HashMap<String, Page>>,
    /// Votes acknowledged; of polls whose votes stay, no result may be lower.
    floor: AtomicU64,
    /// The floor when the process was killed last.
    floor_at_kill: AtomicU64,
    /// The highest total that anybody was shown.
    shown: AtomicU64,
}

/// An attempt that waits for its answer.
#[must_use]
pub struct Ticket {
    poll: usize,
    voter: String,
    place: usize,
}

/// Everything.
#[derive(Debug, Default)]
pub struct Book {
    /// The polls.
    pub polls: Vec<PollBook>,
    clock: AtomicU64,
    acknowledged: AtomicU64,
    answers: AtomicU64,
    restarts: Mutex<Vec<u64>>,
    findings: Mutex<Vec<String>>,
}

impl PollBook {
    /// An empty one.
    pub fn new(tenant: usize, kind: Kind, poll: Poll) -> Self {
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

    /// Votes acknowledged so far.
    pub fn floor(&self) -> u64 {
        self.floor.load(Ordering::SeqCst)
    }

    /// Votes acknowledged before the process was killed last.
    pub fn floor_at_kill(&self) -> u64 {
        self.floor_at_kill.load(Ordering::SeqCst)
    }

    /// The highest total that was shown so far.
    pub fn shown(&self) -> u64 {
        self.shown.load(Ordering::SeqCst)
    }

    /// Somebody was shown this total.
    pub fn show(&self, total: u64) {
        self.shown.fetch_max(total, Ordering::SeqCst);
    }

    /// All pages, when nobody writes any more.
    pub fn pages(&self) -> std::sync::MutexGuard<'_, HashMap<String, Page>> {
        self.pages.lock().unwrap()
    }
}

impl Book {
    /// Now.
    pub fn now(&self) -> Moment {
        Moment {
            tick: self.clock.fetch_add(1, Ordering::SeqCst),
            ms: in_ms(0).unix_ms(),
        }
    }

    /// A vote is about to be sent.
    pub fn sent(&self, poll: usize, voter: &str, ask: Ask) -> Ticket {
        let attempt = Attempt {
            ask,
            sent: self.now(),
            answered: None,
            said: Said::Unknown,
        };
        let mut pages = self.polls[poll].pages.lock().unwrap();
        let page = pages.entry(voter.to_owned()).or_default();
        page.attempts.push(attempt);
        Ticket {
            poll,
            voter: voter.to_owned(),
            place: page.attempts.len() - 1,
        }
    }

    /// It was answered, or will not be.
    pub fn answered(&self, ticket: &Ticket, said: Said) {
        let now = self.now();
        let book = &self.polls[ticket.poll];
        let mut pages = book.pages.lock().unwrap();
        let page = pages.get_mut(&ticket.voter).unwrap();
        let attempt = &mut page.attempts[ticket.place];
        (attempt.answered, attempt.said) = (Some(now), said);
        let counts = matches!(said, Said::Done(_) | Said::Already(_)) && !attempt.ask.withdraw;
        if said != Said::Unknown && said != Said::NeverSent {
            self.answers.fetch_add(1, Ordering::SeqCst);
        }
        if counts && page.acknowledged.insert(attempt.ask.item) {
            book.floor.fetch_add(1, Ordering::SeqCst);
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The process has been killed.
    pub fn killed(&self) {
        for poll in &self.polls {
            poll.floor_at_kill.store(poll.floor(), Ordering::SeqCst);
        }
    }

    /// The process is about to be started again: what was under way before is
    /// over now.
    pub fn restarted(&self) {
        let tick = self.now().tick;
        self.restarts.lock().unwrap().push(tick);
    }

    /// When an attempt whose answer was lost at `tick` had happened at the
    /// latest, if at all.
    pub fn over_by(&self, tick: u64) -> u64 {
        let restarts = self.restarts.lock().unwrap();
        let next = restarts.partition_point(|restart| *restart < tick);
        restarts.get(next).copied().unwrap_or(u64::MAX)
    }

    /// Distinct votes that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Votes that got an answer, refusals too.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }

    /// Something that must not be.
    pub fn found(&self, finding: impl Into<String>) {
        self.findings.lock().unwrap().push(finding.into());
    }

    /// Whether something was found.
    pub fn has_findings(&self) -> bool {
        !self.findings.lock().unwrap().is_empty()
    }

    /// All that was found.
    pub fn findings(&self) -> Vec<String> {
        self.findings.lock().unwrap().clone()
    }
}
