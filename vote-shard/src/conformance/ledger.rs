//! Checks that all answers to clients can be true.
//!
//! A voter's row is one register: its revisions count the changes, so they give
//! the order of the changes without guessing. The ledger records which request
//! made which revision, from every answer and every row that is read, and
//! panics at the first contradiction:
//!
//! - two requests made the same revision, or one made two while the first was
//!   remembered;
//! - an answer is older than one that was given before its request;
//! - a row holds something that no request made, or not what its requests made;
//! - a refused request made a revision.
//!
//! [`audit`] reads all stored data and compares it with the ledger, and
//! compares the counts, lanes and digests with the rows.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::bounds::REQUESTS_REMEMBERED;
use ballast_domain::poll::{Ballot, BallotOutcome, BallotRefusal, Poll, RequestId, VoteChoice};
use ballast_domain::{PollId, VoterId};

use super::SharedShard;
use super::snapshot::{digest, expected_digest, poll_row};
use crate::shard::{FencedSlice, RowVersion, Tally, VoterRow};

const REMEMBERED: u32 = REQUESTS_REMEMBERED as u32;

type RegisterKey = (PollId, VoterId);

/// All requests and answers.
#[derive(Debug)]
pub struct BallotLedger {
    polls: BTreeMap<PollId, Poll>,
    registers: BTreeMap<RegisterKey, Register>,
    /// Polls with a close request, and closed ones.
    closing: BTreeSet<PollId>,
    closed: BTreeSet<PollId>,
}

#[derive(Debug, Default)]
struct Register {
    requests: BTreeMap<RequestId, Request>,
    made: BTreeMap<u32, RequestId>,
    /// The highest revision in any answer.
    answer: u32,
    /// Revisions that were reported to hold an item.
    holds: Vec<(u32, u16)>,
    /// Items that were reported as complete, at this revision or later.
    held: Vec<(u32, Vec<u16>)>,
}

#[derive(Debug)]
struct Request {
    ballot: Ballot,
    /// The highest revision in any answer when it was first sent.
    answer: u32,
    /// Whether its poll was closed then.
    after_closing: bool,
    /// Running attempts.
    open: usize,
    /// Whether it may have made an unreported revision.
    may_count: bool,
    made: BTreeSet<u32>,
}

/// A running request.
#[derive(Debug)]
pub struct PendingBallot {
    place: RegisterKey,
    request: Option<RequestId>,
    answer: u32,
}

impl BallotLedger {
    /// An empty ledger about these polls.
    pub fn new(polls: &[Poll]) -> Self {
        let polls = polls.iter().map(|poll| (poll.poll_id, poll.clone()));
        Self {
            polls: polls.collect(),
            registers: BTreeMap::new(),
            closing: BTreeSet::new(),
            closed: BTreeSet::new(),
        }
    }

    /// Call before sending a ballot.
    pub fn start(&mut self, ballot: &Ballot) -> PendingBallot {
        let place = (ballot.poll, ballot.voter.clone());
        let after_closing = self.closed.contains(&ballot.poll);
        let register = self.registers.entry(place.clone()).or_default();
        let answer = register.answer;
        let fresh = || Request {
            ballot: ballot.clone(),
            answer,
            after_closing,
            open: 0,
            may_count: true,
            made: BTreeSet::new(),
        };
        let request = register.requests.entry(ballot.request);
        let request = request.or_insert_with(fresh);
        request.open += 1;
        request.may_count = true;
        PendingBallot {
            place,
            request: Some(ballot.request),
            answer,
        }
    }

    /// Call with the answer; `None` if the outcome is unknown.
    pub fn finish(&mut self, started: PendingBallot, verdict: Option<&BallotOutcome>) {
        let Self {
            registers,
            closing,
            polls,
            ..
        } = self;
        let (Some(register), Some(id)) = (registers.get_mut(&started.place), started.request)
        else {
            return;
        };
        let Some(request) = register.requests.get_mut(&id) else {
            return;
        };
        request.open -= 1;
        let answer = started.answer;
        match verdict {
            None => {}
            Some(BallotOutcome::Counted { revision }) => register.record_revision(id, *revision),
            Some(BallotOutcome::Already { revision }) => {
                assert!(*revision >= answer, "already at {revision}, after {answer}");
                let item = item_index(&polls[&started.place.0], &request.ballot);
                register.holds.push((*revision, item));
                register.answer = register.answer.max(*revision);
                register.assert_not_remembered(id, *revision);
            }
            Some(BallotOutcome::Refused(refusal)) => {
                request.may_count = request.open > 0;
                let poll = &polls[&started.place.0];
                let is_closing = closing.contains(&poll.poll_id);
                register.refused(poll, id, answer, refusal, is_closing);
            }
        }
    }

    /// Call before reading a voter's row.
    pub fn start_reading(&mut self, poll: PollId, voter: &VoterId) -> PendingBallot {
        let place = (poll, voter.clone());
        let answer = self.registers.entry(place.clone()).or_default().answer;
        PendingBallot {
            place,
            request: None,
            answer,
        }
    }

    /// Call with the row.
    pub fn read(&mut self, started: PendingBallot, row: Option<&VoterRow>) {
        let poll = &self.polls[&started.place.0];
        let Some(register) = self.registers.get_mut(&started.place) else {
            return;
        };
        match row {
            None => assert_eq!(started.answer, 0, "a row is gone: {register:?}"),
            Some(row) => {
                let revision = row.version.revision;
                let answer = started.answer;
                assert!(revision >= answer, "revision {revision}, after {answer}");
                register.read(poll, row);
            }
        }
    }

    /// Call before closing a poll.
    pub fn start_closing(&mut self, poll: PollId) {
        self.closing.insert(poll);
    }

    /// Call after closing a poll.
    pub fn closed(&mut self, poll: PollId) {
        self.closed.insert(poll);
    }

    /// The minimum number of voters of a poll from now on: confirmed ones,
    /// where votes cannot be withdrawn.
    pub fn voters_at_least(&self, poll: PollId) -> u64 {
        if self.polls[&poll].spec.options.vote_changeable {
            return 0;
        }
        let own = self.registers.iter().filter(|((of, _), _)| *of == poll);
        own.filter(|(_, register)| register.answer > 0).count() as u64
    }

    /// Checks a tally that was requested when there were at least `at_least`
    /// voters.
    pub fn tally(&self, at_least: u64, tally: &Tally) {
        let voters = tally.voters;
        assert!(voters >= at_least, "{voters} voters, after {at_least}");
        let sent = self.registers.keys().filter(|(of, _)| *of == tally.poll);
        assert!(voters <= sent.count() as u64, "more voters than were sent");
    }

    /// Checks reported items against what is known now.
    fn check(&self) {
        for ((id, _), register) in &self.registers {
            let poll = &self.polls[id];
            for (revision, item) in &register.holds {
                if let Some(items) = register.items_at(poll, *revision) {
                    assert!(items.contains(item), "already: {item}, has {items:?}");
                }
            }
            for (answer, items) in &register.held {
                let mut later = (*answer).max(1)..=register.answer.max(1);
                let fits = later.any(|revision| {
                    let then = register.items_at(poll, revision);
                    then.is_none_or(|then| then == *items)
                });
                assert!(fits, "reported {items:?}: {register:?}");
            }
        }
    }
}

impl Register {
    /// Records that a request made a revision.
    fn record_revision(&mut self, id: RequestId, revision: u32) {
        let first = self.made.entry(revision).or_insert(id);
        assert_eq!(*first, id, "two requests made revision {revision}");
        self.answer = self.answer.max(revision);
        let Some(request) = self.requests.get_mut(&id) else {
            panic!("unknown request {id:?} made revision {revision}");
        };
        if request.made.contains(&revision) {
            return;
        }
        let answer = request.answer;
        assert!(
            revision > answer,
            "{id:?} made {revision}, sent after {answer}"
        );
        assert!(!request.after_closing, "{id:?} was sent after the closing");
        let near = |made: &u32| made.abs_diff(revision) <= REMEMBERED;
        let twice = request.made.iter().find(|made| near(made));
        assert_eq!(twice, None, "{id:?} made {revision} and is counted twice");
        request.made.insert(revision);
    }

    /// Asserts that this request was not among the ones that the row remembers.
    fn assert_not_remembered(&self, id: RequestId, revision: u32) {
        let made = self.requests.get(&id).map(|request| &request.made);
        let known = made.into_iter().flatten();
        let mut remembered =
            known.filter(|made| **made <= revision && **made + REMEMBERED > revision);
        assert_eq!(
            remembered.next(),
            None,
            "{id:?} was forgotten at {revision}"
        );
    }

    fn refused(
        &mut self,
        poll: &Poll,
        id: RequestId,
        answer: u32,
        refusal: &BallotRefusal,
        is_closing: bool,
    ) {
        let options = &poll.spec.options;
        match refusal {
            BallotRefusal::Changed { revision } => {
                assert!(*revision >= answer, "revision {revision}, after {answer}");
                self.answer = self.answer.max(*revision);
                self.assert_not_remembered(id, *revision);
            }
            BallotRefusal::AlreadyVoted { items } => {
                let places = items.iter().filter_map(|item| place_in(poll, *item));
                let places: Vec<u16> = places.collect();
                assert_eq!(places.len(), items.len(), "items of another poll");
                self.held.push((answer, places));
            }
            BallotRefusal::Closed => assert!(is_closing, "closed without a close request"),
            BallotRefusal::NotChangeable => assert!(!options.vote_changeable),
            BallotRefusal::NotChosen => assert!(options.vote_changeable),
            other => panic!("unexpected refusal of {id:?}: {other:?}"),
        }
        if !options.vote_changeable {
            let made = self.requests.get(&id).map(|request| &request.made);
            assert!(made.is_none_or(BTreeSet::is_empty), "{id:?} was counted");
        }
    }

    fn read(&mut self, poll: &Poll, row: &VoterRow) {
        let revision = row.version.revision;
        let most = poll.spec.options.choices_max.into();
        assert!(poll.spec.options.vote_changeable || revision <= most);
        let oldest = revision.saturating_sub(REMEMBERED) + 1;
        let revisions: Vec<u32> = row.requests.iter().map(|(_, made)| *made).collect();
        assert_eq!(revisions, (oldest..=revision).collect::<Vec<_>>());
        for (id, made) in &row.requests {
            if let Some(request) = self.requests.get(id) {
                let allowed = request.may_count || request.made.contains(made);
                assert!(allowed, "{id:?} was refused and made {made}");
            }
            self.record_revision(*id, *made);
        }
        if let Some(items) = self.items_at(poll, revision) {
            assert_eq!(row.items, items, "not what its requests made");
        }
    }

    /// The row's items at a revision, if known.
    fn items_at(&self, poll: &Poll, revision: u32) -> Option<Vec<u16>> {
        let chosen = |id: &RequestId| {
            let ballot = &self.requests.get(id)?.ballot;
            let item = item_index(poll, ballot);
            Some((ballot.choice == VoteChoice::For).then_some(item))
        };
        if poll.spec.options.choices_max == 1 {
            let last = chosen(self.made.get(&revision)?)?;
            return Some(last.into_iter().collect());
        }
        if poll.spec.options.vote_changeable {
            return None;
        }
        let mut items = Vec::new();
        for revision in 1..=revision {
            items.extend(chosen(self.made.get(&revision)?)?);
        }
        items.sort_unstable();
        Some(items)
    }
}

fn place_in(poll: &Poll, item: ballast_domain::ItemId) -> Option<u16> {
    let places = poll.item_ids().zip(0..);
    places
        .into_iter()
        .find(|(id, _)| *id == item)
        .map(|(_, place)| place)
}

fn item_index(poll: &Poll, ballot: &Ballot) -> u16 {
    place_in(poll, ballot.item).unwrap_or(u16::MAX)
}

/// Reads all stored data: it must equal the ledger's, once, and counts, lanes
/// and digests must match the rows. Then repeats remembered requests, which
/// must get their answers and change nothing.
pub async fn audit(ledger: &mut BallotLedger, shard: &SharedShard, at: &FencedSlice) {
    let polls: Vec<Poll> = ledger.polls.values().cloned().collect();
    for poll in polls {
        audit_poll(ledger, shard, at, &poll).await;
    }
    ledger.check();
}

async fn audit_poll(ledger: &mut BallotLedger, shard: &SharedShard, at: &FencedSlice, poll: &Poll) {
    let (slice, id) = (&at.slice, poll.poll_id);
    let places: Vec<RegisterKey> = ledger.registers.keys().cloned().collect();
    let mut rows = Vec::new();
    let mut again = Vec::new();
    for (_, voter) in places.into_iter().filter(|(of, _)| *of == id) {
        let started = ledger.start_reading(id, &voter);
        let row = shard.voter(slice, id, &voter).await.unwrap();
        ledger.read(started, row.as_ref());
        let register = &ledger.registers[&(id, voter)];
        for (request, made) in row.iter().flat_map(|row| &row.requests) {
            again.push((register.requests[request].ballot.clone(), *made));
        }
        rows.extend(row);
    }
    let stored = shard.poll(slice, id).await.unwrap();
    if ledger.closed.contains(&id) {
        assert!(stored.closed_at.is_some(), "a closed poll is open");
    }
    let version = RowVersion {
        epoch: at.epoch,
        revision: 1 + u32::from(stored.closed_at.is_some()),
    };
    let key = shard.slice_key(slice).await.unwrap();
    let expected = expected_digest(&key, &poll_row(stored, version), &rows);
    assert_eq!(digest(shard, slice, id).await, expected);
    let of = |item: u16| rows.iter().filter(|row| row.items.contains(&item)).count() as u64;
    let counts: Vec<u64> = (0..poll.spec.items.len() as u16).map(of).collect();
    let voting = rows.iter().filter(|row| !row.items.is_empty()).count();
    let tally = shard.tally(slice, id).await.unwrap();
    assert_eq!((&tally.counts, tally.voters), (&counts, voting as u64));
    let lanes = shard.lanes(slice, id).await.unwrap();
    let sums: Vec<u64> = lanes.iter().map(|item| item.iter().sum()).collect();
    assert_eq!(sums, counts);
    let (ballots, revisions): (Vec<Ballot>, Vec<u32>) = again.into_iter().unzip();
    let verdicts = shard.cast(at, &ballots).await.unwrap();
    let first = revisions
        .into_iter()
        .map(|revision| BallotOutcome::Counted { revision });
    assert_eq!(verdicts, first.collect::<Vec<_>>());
    assert_eq!(digest(shard, slice, id).await, expected);
}

/// Pseudo-random numbers from a seed.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `most`.
    pub(super) fn below(&mut self, most: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 20) % most) as usize
    }
}
