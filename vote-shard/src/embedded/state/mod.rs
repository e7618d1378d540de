//! All that an embedded shard knows, derived from its log.
//!
//! [`State::apply`] is the only way it changes: the same for a record that has
//! just been decided and for one that is read back after a crash. So what is
//! remembered after a restart is what was remembered before it.

mod lanes;
mod poll;
mod recut;
mod sums;
mod tables;
mod voters;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use ballast_domain::poll::RequestId;
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, Timestamp};

use super::faults::{self, Fault};
use super::record::{PollNo, PollRecord, Record, RowRecord, SliceRecord, Unreadable, VoteRecord};
use super::runs::Key;
use crate::shard::{Fence, Fenced, Holding, SliceKey, VoterPrint};

use self::poll::Number;
pub(super) use self::poll::{PollState, SharedPoll};
pub(super) use self::voters::{Row, Seen, Voters, remember};

/// A slice in memory.
#[derive(Debug)]
pub(super) struct SliceState {
    pub(super) fence: Fence,
    pub(super) key: SliceKey,
    /// Which polls it holds.
    pub(super) range: HashRange,
    pub(super) polls: BTreeMap<PollId, PollNo>,
    /// For quick look-ups while voting.
    numbers: HashMap<PollId, PollNo, BuildHasherDefault<Number>>,
    /// Which request created which poll.
    pub(super) requests: HashMap<RequestId, PollId>,
    /// The last group that changed it.
    pub(super) changed_in: u64,
    sum: sums::Sum,
    /// Its polls by their numbers, for those who export it; made when it is
    /// first needed, and kept up to date from then on.
    by_number: OnceCell<Arc<BTreeMap<PollNo, PollId>>>,
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) slices: HashMap<SliceId, SliceState>,
    pub(super) polls: HashMap<PollNo, PollState, BuildHasherDefault<Number>>,
    /// Open polls by when they expire.
    pub(super) expiring: BTreeSet<(Timestamp, PollNo)>,
    /// Of these, the ones that expect voters.
    pub(super) awaited: BTreeSet<(Timestamp, PollNo)>,
    /// Rows in memory.
    pub(super) voters: u64,
    /// Rows that are no longer needed. To give their memory back takes long
    /// when they are many, and votes wait for the lock: so they are left here
    /// for somebody to take away.
    pub(super) left_over: Vec<Voters>,
    /// The number of the next poll.
    pub(super) next_poll: PollNo,
    /// The latest time that was written: time never runs backwards.
    pub(super) time: i64,
}

impl SliceState {
    /// The number of a poll.
    pub(super) fn poll_no(&self, poll: PollId) -> Option<PollNo> {
        self.numbers.get(&poll).copied()
    }

    /// Its polls in the order of their numbers.
    pub(super) fn by_number(&self) -> Arc<BTreeMap<PollNo, PollId>> {
        let made = self.by_number.get_or_init(|| {
            let polls = self.polls.iter().map(|(id, number)| (*number, *id));
            Arc::new(polls.collect())
        });
        Arc::clone(made)
    }

    /// Copied only while somebody reads a page by it.
    fn came(&mut self, number: PollNo, id: PollId) {
        if let Some(polls) = self.by_number.get_mut() {
            Arc::make_mut(polls).insert(number, id);
        }
    }

    /// All its polls are another's.
    fn forget_sum(&mut self) {
        self.sum = sums::Sum::default();
        self.by_number = OnceCell::new();
    }

    fn went(&mut self, number: PollNo) {
        if let Some(polls) = self.by_number.get_mut() {
            Arc::make_mut(polls).remove(&number);
        }
    }

    /// Whether all these polls are the slice's.
    pub(super) fn admits_polls(&self, polls: impl Iterator<Item = PollId>) -> Result<(), Fenced> {
        // Nearly every slice holds all polls of its tenant, and a poll that is
        // known here needs no hash.
        let mut others = polls.filter(|poll| self.poll_no(*poll).is_none());
        if self.range.is_whole()
            || others.all(|poll| self.range.contains(poll))
            || faults::has(Fault::FenceIgnored)
        {
            return Ok(());
        }
        Err(Fenced::Moved {
            epoch: Some(self.fence.epoch),
        })
    }
}

impl State {
    /// Whether a write to this slice at this epoch may happen.
    pub(super) fn admit(&self, slice: &SliceId, epoch: Epoch) -> Result<&SliceState, Fenced> {
        let state = self.slices.get(slice);
        let admitted = Fence::admits(state.map(|state| &state.fence), epoch);
        if !faults::has(Fault::FenceIgnored) {
            admitted?;
        }
        state.ok_or(Fenced::Moved { epoch: None })
    }

    /// The same for a write about a poll, which must be one of the slice's: a
    /// router that sends it here knows an old route.
    pub(super) fn admit_poll(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        poll: PollId,
    ) -> Result<&SliceState, Fenced> {
        let state = self.admit(slice, epoch)?;
        state.admits_polls(std::iter::once(poll))?;
        Ok(state)
    }

    pub(super) fn poll(&self, slice: &SliceId, poll: PollId) -> Option<&PollState> {
        let number = self.slices.get(slice)?.poll_no(poll)?;
        self.polls.get(&number)
    }

    /// Applies a group that was read back.
    pub(super) fn replay(&mut self, sequence: u64, payload: &[u8]) -> Result<(), Unreadable> {
        let (time, records) = super::record::read(payload)?;
        self.time = self.time.max(time.unix_ms());
        for record in records {
            let mut record = match record {
                Err(_) if faults::has(Fault::TornAccepted) => break,
                record => record?,
            };
            if faults::has(Fault::RequestsForgotten) {
                forget_requests(&mut record);
            }
            self.apply(sequence, &record);
            if faults::has(Fault::VotersForgotten)
                && let Record::Vote(vote) = &record
                && let Some(poll) = self.polls.get_mut(&vote.poll)
            {
                self.voters -= poll.voters.len() as u64;
                poll.forget_voters();
            }
        }
        // Nobody waits while a log is read.
        self.left_over.clear();
        Ok(())
    }

    /// Applies a record of the group `sequence`.
    pub(super) fn apply(&mut self, sequence: u64, record: &Record<'_>) {
        match record {
            Record::Slice(record) => self.apply_slice(sequence, record),
            Record::Poll(number, record) => self.apply_poll(sequence, *number, record),
            Record::Vote(vote) => {
                // A group tells when it began; its votes may be later.
                self.time = self.time.max(vote.at.unix_ms());
                if let Some(poll) = self.polls.get(&vote.poll) {
                    self.apply_vote(sequence, poll.key.print(vote.voter), vote);
                }
            }
            Record::Row(row) => self.apply_row(sequence, row),
            Record::Gone(number) => self.apply_gone(sequence, *number),
            Record::Counters(number, counters) => {
                if let Some(poll) = self.polls.get_mut(number) {
                    poll.set_counters(counters);
                    sums::note(&mut self.slices, poll);
                }
            }
            Record::Recut(record) => self.apply_recut(sequence, record),
        }
    }

    /// Applies a vote whose voter has been hashed.
    pub(super) fn apply_vote(&mut self, sequence: u64, print: VoterPrint, vote: &VoteRecord<'_>) {
        if let Some(poll) = self.polls.get_mut(&vote.poll) {
            let before = poll.voters.len();
            poll.first_vote(print, vote);
            poll.changed_in = sequence;
            sums::note(&mut self.slices, poll);
            self.voters += (poll.voters.len() - before) as u64;
        }
    }

    /// Puts back a row whose votes are in the counters already.
    pub(super) fn load_row(&mut self, key: Key, row: Row) {
        if let Some(poll) = self.polls.get_mut(&key.poll) {
            let before = poll.voters.len();
            poll.voters.put(key.voter, row);
            self.voters += (poll.voters.len() - before) as u64;
        }
    }

    /// Slices that are owned here: a sealed one is, until it is retired.
    pub(super) fn owned(&self) -> u64 {
        let own =
            |slice: &&SliceState| matches!(slice.fence.holding, Holding::Owner | Holding::Sealed);
        self.slices.values().filter(own).count() as u64
    }

    /// Whether a poll's rows are needed in memory: while they can change, or
    /// more of them can come.
    pub(super) fn needs_rows(&self, poll: &PollState) -> bool {
        let fence = self.slices.get(&poll.slice).map(|slice| &slice.fence);
        let more_can_come = fence.is_some_and(|fence| match fence.holding {
            Holding::Importing => true,
            // What was closed before it was sealed here is whole; of what was
            // closed since, elsewhere, rows may still be brought back.
            Holding::Retired => poll.version.epoch >= fence.epoch,
            Holding::Owner | Holding::Sealed | Holding::Gone => false,
        });
        poll.archive.is_none() && (poll.poll.closed_at.is_none() || more_can_come)
    }

    /// Whether there are rows in memory that a checkpoint would let go.
    pub(super) fn has_evictable(&self) -> bool {
        let mut polls = self.polls.values();
        polls.any(|poll| !poll.cold && poll.voters.len() > 0 && !self.needs_rows(poll))
    }

    /// Drops the rows of closed polls, which are stored up to `position`.
    pub(super) fn evict(&mut self, position: u64) {
        let evictable: Vec<PollNo> = self
            .polls
            .values()
            .filter(|poll| !poll.cold && poll.changed_in <= position && !self.needs_rows(poll))
            .map(|poll| poll.number)
            .collect();
        for number in evictable {
            if let Some(poll) = self.polls.get_mut(&number) {
                self.voters -= poll.voters.len() as u64;
                self.left_over.push(poll.forget_rows());
            }
        }
    }

    fn apply_slice(&mut self, sequence: u64, record: &SliceRecord) {
        let slice = self
            .slices
            .entry(record.slice.clone())
            .or_insert_with(|| SliceState {
                fence: record.fence.clone(),
                key: record.key,
                range: record.range,
                polls: BTreeMap::new(),
                numbers: HashMap::default(),
                requests: HashMap::new(),
                changed_in: sequence,
                sum: sums::Sum::default(),
                by_number: OnceCell::new(),
            });
        slice.fence = record.fence.clone();
        slice.key = record.key;
        slice.range = record.range;
        slice.changed_in = sequence;
    }

    fn apply_poll(&mut self, sequence: u64, number: PollNo, record: &PollRecord) {
        let Some(slice) = self.slices.get_mut(&record.slice) else {
            return;
        };
        slice.changed_in = sequence;
        self.next_poll = self.next_poll.max(number + 1);
        let poll = match self.polls.entry(number) {
            std::collections::hash_map::Entry::Occupied(known) => {
                let poll = known.into_mut();
                if let Some(expires) = poll.expires() {
                    self.expiring.remove(&(expires, number));
                    self.awaited.remove(&(expires, number));
                }
                let before = poll.voters.len();
                self.left_over.extend(poll.change(record.row.clone()));
                self.voters -= (before - poll.voters.len()) as u64;
                poll
            }
            std::collections::hash_map::Entry::Vacant(free) => {
                let id = record.row.poll.poll_id;
                slice.came(number, id);
                slice.polls.insert(id, number);
                slice.numbers.insert(id, number);
                slice.requests.insert(record.row.poll.request, id);
                let row = record.row.clone();
                free.insert(PollState::new(number, record.slice.clone(), slice.key, row))
            }
        };
        poll.changed_in = sequence;
        if let Some(expires) = poll.expires() {
            self.expiring.insert((expires, number));
            if poll.poll.spec.expected_voters.is_some() {
                self.awaited.insert((expires, number));
            }
        }
        sums::note(&mut self.slices, poll);
    }

    fn apply_row(&mut self, sequence: u64, record: &RowRecord<'_>) {
        let Some(poll) = self.polls.get_mut(&record.poll) else {
            return;
        };
        let before = poll.voters.len();
        poll.replace(record.voter.print(&poll.key), Row::of(record));
        poll.changed_in = sequence;
        sums::note(&mut self.slices, poll);
        self.voters += (poll.voters.len() - before) as u64;
    }

    fn apply_gone(&mut self, sequence: u64, number: PollNo) {
        let Some(poll) = self.polls.remove(&number) else {
            return;
        };
        self.voters -= poll.voters.len() as u64;
        if let Some(expires) = poll.expires() {
            self.expiring.remove(&(expires, number));
            self.awaited.remove(&(expires, number));
        }
        if let Some(slice) = self.slices.get_mut(&poll.slice) {
            slice.changed_in = sequence;
            sums::leave(slice, &poll);
            slice.went(number);
            slice.polls.remove(&poll.poll.poll_id);
            slice.numbers.remove(&poll.poll.poll_id);
            slice.requests.remove(&poll.poll.request);
        }
        self.left_over.push(poll.voters);
    }
}

/// A fault: see [`Fault::RequestsForgotten`].
fn forget_requests(record: &mut Record<'_>) {
    match record {
        Record::Vote(vote) => vote.request = RequestId(0),
        Record::Row(row) => row.requests.clear(),
        _ => {}
    }
}
