//! The state of an embedded shard, derived from its log.
//!
//! [`EngineState::apply`] is the only way to change it, for a new record and on
//! replay. So the state after a restart equals the state before it.

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
use super::record::{PollNo, PollRecord, Record, RecordError, RowRecord, SliceRecord, VoteRecord};
use super::runs::RowKey;
use crate::shard::{Fence, FenceError, Holding, SliceKey, VoterPrint};

use self::poll::IdHasher;
pub(super) use self::poll::{PollHandle, PollState};
pub(super) use self::voters::{RowData, VoterTable, VoterView, remember};

/// A slice in memory.
#[derive(Debug)]
pub(super) struct SliceState {
    pub(super) fence: Fence,
    pub(super) key: SliceKey,
    /// The range of its polls.
    pub(super) range: HashRange,
    pub(super) polls: BTreeMap<PollId, PollNo>,
    /// Fast lookup by id, for votes.
    numbers: HashMap<PollId, PollNo, BuildHasherDefault<IdHasher>>,
    /// The polls by the request that created them.
    pub(super) requests: HashMap<RequestId, PollId>,
    /// The last group that changed it.
    pub(super) changed_in: u64,
    sum: sums::SliceSum,
    /// Its polls by number, for exports; built on first use, then maintained.
    by_number: OnceCell<Arc<BTreeMap<PollNo, PollId>>>,
}

/// The whole state.
#[derive(Debug, Default)]
pub(super) struct EngineState {
    pub(super) slices: HashMap<SliceId, SliceState>,
    pub(super) polls: HashMap<PollNo, PollState, BuildHasherDefault<IdHasher>>,
    /// Open polls by expiry.
    pub(super) expiring: BTreeSet<(Timestamp, PollNo)>,
    /// Those of them that expect voters.
    pub(super) awaited: BTreeSet<(Timestamp, PollNo)>,
    /// Number of rows in memory.
    pub(super) voters: u64,
    /// Rows that are no longer needed. Freeing many takes long, and votes wait
    /// for the lock, so the compactor frees them later.
    pub(super) dropped_voters: Vec<VoterTable>,
    /// The next poll's number.
    pub(super) next_poll: PollNo,
    /// The latest recorded time: time never runs backwards.
    pub(super) time: i64,
}

impl SliceState {
    /// Returns a poll's number.
    pub(super) fn poll_no(&self, poll: PollId) -> Option<PollNo> {
        self.numbers.get(&poll).copied()
    }

    /// Returns its polls by number.
    pub(super) fn by_number(&self) -> Arc<BTreeMap<PollNo, PollId>> {
        let made = self.by_number.get_or_init(|| {
            let polls = self.polls.iter().map(|(id, number)| (*number, *id));
            Arc::new(polls.collect())
        });
        Arc::clone(made)
    }

    /// Copies the map only while an export uses it.
    fn index_poll(&mut self, number: PollNo, id: PollId) {
        if let Some(polls) = self.by_number.get_mut() {
            Arc::make_mut(polls).insert(number, id);
        }
    }

    /// Resets the sum and the index, after all its polls moved to another
    /// slice.
    fn reset_indexes(&mut self) {
        self.sum = sums::SliceSum::default();
        self.by_number = OnceCell::new();
    }

    fn unindex_poll(&mut self, number: PollNo) {
        if let Some(polls) = self.by_number.get_mut() {
            Arc::make_mut(polls).remove(&number);
        }
    }

    /// Checks that all these polls are in the slice's range.
    pub(super) fn admits_polls(
        &self,
        polls: impl Iterator<Item = PollId>,
    ) -> Result<(), FenceError> {
        // Nearly every slice holds all polls of its tenant, and a known poll
        // needs no hash.
        let mut others = polls.filter(|poll| self.poll_no(*poll).is_none());
        if self.range.is_whole()
            || others.all(|poll| self.range.contains(poll))
            || faults::is_planted(Fault::FenceIgnored)
        {
            return Ok(());
        }
        Err(FenceError::NotOwner {
            epoch: Some(self.fence.epoch),
        })
    }
}

impl EngineState {
    /// Checks whether a write to this slice at this epoch is allowed.
    pub(super) fn admit(&self, slice: &SliceId, epoch: Epoch) -> Result<&SliceState, FenceError> {
        let state = self.slices.get(slice);
        let admitted = Fence::admits(state.map(|state| &state.fence), epoch);
        if !faults::is_planted(Fault::FenceIgnored) {
            admitted?;
        }
        state.ok_or(FenceError::NotOwner { epoch: None })
    }

    /// The same for a write to a poll, which must be in the slice's range:
    /// otherwise the router has an old route.
    pub(super) fn admit_poll(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        poll: PollId,
    ) -> Result<&SliceState, FenceError> {
        let state = self.admit(slice, epoch)?;
        state.admits_polls(std::iter::once(poll))?;
        Ok(state)
    }

    pub(super) fn poll(&self, slice: &SliceId, poll: PollId) -> Option<&PollState> {
        let number = self.slices.get(slice)?.poll_no(poll)?;
        self.polls.get(&number)
    }

    /// Replays a group.
    pub(super) fn replay(&mut self, sequence: u64, payload: &[u8]) -> Result<(), RecordError> {
        let (time, records) = super::record::read(payload)?;
        self.time = self.time.max(time.unix_ms());
        for record in records {
            let mut record = match record {
                Err(_) if faults::is_planted(Fault::TornAccepted) => break,
                record => record?,
            };
            if faults::is_planted(Fault::RequestsForgotten) {
                forget_requests(&mut record);
            }
            self.apply(sequence, &record);
            if faults::is_planted(Fault::VotersForgotten)
                && let Record::Vote(vote) = &record
                && let Some(poll) = self.polls.get_mut(&vote.poll)
            {
                self.voters -= poll.voters.len() as u64;
                poll.forget_voters();
            }
        }
        // Free the dropped rows at once: no votes wait during replay.
        self.dropped_voters.clear();
        Ok(())
    }

    /// Applies a record of the group `sequence`.
    pub(super) fn apply(&mut self, sequence: u64, record: &Record<'_>) {
        match record {
            Record::Slice(record) => self.apply_slice(sequence, record),
            Record::Poll(number, record) => self.apply_poll(sequence, *number, record),
            Record::Vote(vote) => {
                // A group records when it began; its votes may be later.
                self.time = self.time.max(vote.at.unix_ms());
                if let Some(poll) = self.polls.get(&vote.poll) {
                    self.apply_vote(sequence, poll.key.voter_print(vote.voter), vote);
                }
            }
            Record::Row(row) => self.apply_row(sequence, row),
            Record::Gone(number) => self.apply_gone(sequence, *number),
            Record::Counters(number, counters) => {
                if let Some(poll) = self.polls.get_mut(number) {
                    poll.set_counters(counters);
                    sums::mark_changed(&mut self.slices, poll);
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
            sums::mark_changed(&mut self.slices, poll);
            self.voters += (poll.voters.len() - before) as u64;
        }
    }

    /// Loads a row whose votes are already in the counters.
    pub(super) fn load_row(&mut self, key: RowKey, row: RowData) {
        if let Some(poll) = self.polls.get_mut(&key.poll) {
            let before = poll.voters.len();
            poll.voters.insert_row(key.voter, row);
            self.voters += (poll.voters.len() - before) as u64;
        }
    }

    /// Number of owned slices; a sealed slice is owned until it is retired.
    pub(super) fn owned_slices(&self) -> u64 {
        let own =
            |slice: &&SliceState| matches!(slice.fence.holding, Holding::Owner | Holding::Sealed);
        self.slices.values().filter(own).count() as u64
    }

    /// Whether a poll's rows must be in memory: while they can change, or more
    /// can arrive.
    pub(super) fn needs_rows(&self, poll: &PollState) -> bool {
        let fence = self.slices.get(&poll.slice).map(|slice| &slice.fence);
        let more_can_come = fence.is_some_and(|fence| match fence.holding {
            Holding::Importing => true,
            // A poll that was closed before the seal is complete. For a poll
            // that was closed elsewhere since, rows may still stream back.
            Holding::Retired => poll.version.epoch >= fence.epoch,
            Holding::Owner | Holding::Sealed | Holding::Gone => false,
        });
        poll.archive.is_none() && (poll.poll.closed_at.is_none() || more_can_come)
    }

    /// Whether a checkpoint would evict rows from memory.
    pub(super) fn has_evictable(&self) -> bool {
        let mut polls = self.polls.values();
        polls.any(|poll| !poll.cold && poll.voters.len() > 0 && !self.needs_rows(poll))
    }

    /// Evicts the rows of closed polls, which are in runs up to `position`.
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
                self.dropped_voters.push(poll.take_rows());
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
                sum: sums::SliceSum::default(),
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
                self.dropped_voters.extend(poll.change(record.row.clone()));
                self.voters -= (before - poll.voters.len()) as u64;
                poll
            }
            std::collections::hash_map::Entry::Vacant(free) => {
                let id = record.row.poll.poll_id;
                slice.index_poll(number, id);
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
        sums::mark_changed(&mut self.slices, poll);
    }

    fn apply_row(&mut self, sequence: u64, record: &RowRecord<'_>) {
        let Some(poll) = self.polls.get_mut(&record.poll) else {
            return;
        };
        let before = poll.voters.len();
        poll.replace(record.voter.print(&poll.key), RowData::from_record(record));
        poll.changed_in = sequence;
        sums::mark_changed(&mut self.slices, poll);
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
            sums::remove_poll(slice, &poll);
            slice.unindex_poll(number);
            slice.polls.remove(&poll.poll.poll_id);
            slice.numbers.remove(&poll.poll.poll_id);
            slice.requests.remove(&poll.poll.request);
        }
        self.dropped_voters.push(poll.voters);
    }
}

/// Planted fault, see [`Fault::RequestsForgotten`].
fn forget_requests(record: &mut Record<'_>) {
    match record {
        Record::Vote(vote) => vote.request = RequestId(0),
        Record::Row(row) => row.requests.clear(),
        _ => {}
    }
}
