//! Decisions about slices: ownership, migrations, imports, purges.

use std::borrow::Cow;

use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, Timestamp};

use super::{Core, PendingAnswer};
use crate::embedded::export::ExportedSlice;
use crate::embedded::faults::{self, Fault};
use crate::embedded::record::{PollNo, Record, RecordVoter, RowRecord, SliceRecord};
use crate::embedded::state::{PollHandle, SliceState};
use crate::shard::{
    Digest, ExportedRow, Fence, FencedSlice, MigrationToken, PollRow, ShardError, ShardResult,
    SliceDigest, SliceKey, SliceStateError, VoterName, VoterRow,
};

/// A transition of a fence.
type FenceTransition = fn(&Fence, Epoch, &MigrationToken) -> Result<Fence, SliceStateError>;

impl Core {
    /// Becomes the owner of a slice without a record.
    pub(in crate::embedded) fn adopt(
        &mut self,
        fenced: &FencedSlice,
        fresh: SliceKey,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<()>> {
        self.check()?;
        if let Some(known) = self.state.slices.get(&fenced.slice) {
            return Ok(self.answer_after(known.changed_in, ()));
        }
        if fenced.epoch != Epoch::FIRST {
            return Err(SliceStateError::UnknownSlice.into());
        }
        self.write_slice(fenced, Fence::new_owner(fenced.epoch), fresh, clock);
        Ok(self.answer_after(self.open.sequence, ()))
    }

    /// Takes over a slice at a higher epoch, after a restore. A slice without a
    /// record becomes owned.
    pub(in crate::embedded) fn restore_slice(
        &mut self,
        fenced: &FencedSlice,
        fresh: SliceKey,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<()>> {
        self.check()?;
        let (fence, key) = match self.state.slices.get(&fenced.slice) {
            None => (Fence::new_owner(fenced.epoch), fresh),
            Some(known) => (known.fence.restore(fenced.epoch)?, known.key),
        };
        self.write_slice(fenced, fence, key, clock);
        Ok(self.answer_after(self.open.sequence, ()))
    }

    fn write_slice(&mut self, fenced: &FencedSlice, fence: Fence, key: SliceKey, clock: Timestamp) {
        let known = self.state.slices.get(&fenced.slice);
        let range = known.map_or(HashRange::WHOLE, |known| known.range);
        self.write_ranged(fenced, fence, key, range, clock);
    }

    fn write_ranged(
        &mut self,
        fenced: &FencedSlice,
        fence: Fence,
        key: SliceKey,
        range: HashRange,
        clock: Timestamp,
    ) {
        let record = SliceRecord {
            slice: fenced.slice.clone(),
            fence,
            key,
            range,
        };
        let now = self.now(clock);
        self.write(now, &Record::Slice(record));
    }

    /// Checks whether reads at this epoch are authoritative.
    pub(in crate::embedded) fn serves(
        &self,
        fenced: &FencedSlice,
    ) -> ShardResult<PendingAnswer<()>> {
        self.check()?;
        let known = self.state.slices.get(&fenced.slice);
        Fence::serves(known.map(|known| &known.fence), fenced.epoch)?;
        Ok(self.answer_after(known.map_or(0, |known| known.changed_in), ()))
    }

    /// Returns a slice's fence.
    pub(in crate::embedded) fn fence(
        &self,
        slice: &SliceId,
    ) -> ShardResult<PendingAnswer<Option<Fence>>> {
        self.check()?;
        let known = self.state.slices.get(slice);
        let changed_in = known.map_or(0, |known| known.changed_in);
        Ok(self.answer_after(changed_in, known.map(|known| known.fence.clone())))
    }

    /// Returns a slice's state, or `UnknownSlice`.
    pub(super) fn require_slice(&self, slice: &SliceId) -> ShardResult<&SliceState> {
        self.check()?;
        let known = self.state.slices.get(slice);
        known.ok_or_else(|| SliceStateError::UnknownSlice.into())
    }

    /// Returns a slice's key.
    pub(in crate::embedded) fn slice_key(
        &self,
        slice: &SliceId,
    ) -> ShardResult<PendingAnswer<SliceKey>> {
        let known = self.require_slice(slice)?;
        Ok(self.answer_after(known.changed_in, known.key))
    }

    /// Returns a slice's range.
    pub(in crate::embedded) fn slice_range(
        &self,
        slice: &SliceId,
    ) -> ShardResult<PendingAnswer<HashRange>> {
        let known = self.require_slice(slice)?;
        Ok(self.answer_after(known.changed_in, known.range))
    }

    /// Starts an import.
    pub(in crate::embedded) fn prepare(
        &mut self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        (key, range): (SliceKey, HashRange),
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<()>> {
        self.check()?;
        let token = &effective_token(token);
        let known = self.state.slices.get(&fenced.slice);
        let fence = Fence::prepare(known.map(|known| &known.fence), fenced.epoch, token)?;
        // Existing data belongs to its key and its range.
        let other = |known: &&SliceState| (known.key, known.range) != (key, range);
        if let Some(known) = known.filter(|known| other(known) && !known.polls.is_empty()) {
            return Err(SliceStateError::WrongHolding {
                holding: known.fence.holding,
                epoch: known.fence.epoch,
            }
            .into());
        }
        self.write_ranged(fenced, fence, key, range, clock);
        Ok(self.answer_after(self.open.sequence, ()))
    }

    /// Applies a transition to a known slice's fence.
    pub(in crate::embedded) fn change_fence(
        &mut self,
        transition: FenceTransition,
        fenced: &FencedSlice,
        token: &MigrationToken,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<()>> {
        let token = &effective_token(token);
        let known = self.require_slice(&fenced.slice)?;
        let (key, fence) = (known.key, transition(&known.fence, fenced.epoch, token)?);
        if fence != known.fence {
            self.write_slice(fenced, fence, key, clock);
        }
        let changed_in = self.require_slice(&fenced.slice)?.changed_in;
        Ok(self.answer_after(changed_in, ()))
    }

    /// Removes polls of a slice that the shard does not own.
    pub(in crate::embedded) fn purge(
        &mut self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        most: usize,
        fresh: SliceKey,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<usize>> {
        self.check()?;
        let (slice, token) = (&fenced.slice, &effective_token(token));
        let known = self.state.slices.get(slice);
        if let Some(known) = known
            && !faults::is_planted(Fault::PurgeUnchecked)
        {
            known.fence.may_purge(token)?;
        }
        let gone = Fence::new_tombstone(known.map(|known| &known.fence), fenced.epoch, token);
        let key = known.map_or(fresh, |known| known.key);
        let polls = known.into_iter().flat_map(|known| known.polls.values());
        let first: Vec<PollNo> = polls.copied().take(most).collect();
        let now = self.now(clock);
        for number in first {
            self.mark_counts_changed(number);
            self.write(now, &Record::Gone(number));
        }
        let known = self.state.slices.get(slice);
        let left = known.map_or(0, |known| known.polls.len());
        if left == 0 && known.map(|known| &known.fence) != Some(&gone) {
            self.write_slice(fenced, gone, key, clock);
        }
        let changed_in = self.require_slice(slice)?.changed_in;
        Ok(self.answer_after(changed_in, left))
    }

    /// Imports rows that another shard exported.
    pub(in crate::embedded) fn import(
        &mut self,
        slice: &SliceId,
        token: &MigrationToken,
        changes: &[ExportedRow],
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<()>> {
        let token = &effective_token(token);
        let known = self.require_slice(slice)?;
        known.fence.may_import(token)?;
        if token.token > known.fence.token {
            let mut fence = known.fence.clone();
            fence.token = token.token;
            let fenced = FencedSlice {
                slice: slice.clone(),
                epoch: fence.epoch,
            };
            let key = known.key;
            self.write_slice(&fenced, fence, key, clock);
        }
        let range = self.require_slice(slice)?.range;
        if changes.iter().any(|it| !range.contains(changed_poll(it))) {
            return Err(SliceStateError::PollOutOfRange.into());
        }
        for change in changes {
            match change {
                ExportedRow::Poll(row) => self.import_poll(slice, row, clock),
                ExportedRow::Voter(row) => self.import_voter(slice, row, clock)?,
            }
        }
        let changed_in = changes
            .iter()
            .filter_map(|change| self.state.poll(slice, changed_poll(change)))
            .map(|poll| poll.changed_in)
            .max()
            .unwrap_or(0)
            .max(self.require_slice(slice)?.changed_in);
        Ok(self.answer_after(changed_in, ()))
    }

    /// Discards a poll that will be copied again.
    pub(in crate::embedded) fn discard_poll(
        &mut self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        poll: PollId,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<()>> {
        let slice = &fenced.slice;
        self.require_slice(slice)?
            .fence
            .may_discard(fenced.epoch, token)?;
        if let Some(number) = self.state.poll(slice, poll).map(|poll| poll.number) {
            let now = self.now(clock);
            self.mark_counts_changed(number);
            self.write(now, &Record::Gone(number));
        }
        let changed_in = self.require_slice(slice)?.changed_in;
        Ok(self.answer_after(changed_in, ()))
    }

    fn import_poll(&mut self, slice: &SliceId, row: &PollRow, clock: Timestamp) {
        let known = self.state.poll(slice, row.poll.poll_id);
        let number = match known {
            Some(known) if known.version >= row.version => return,
            Some(known) => known.number,
            None => self.state.next_poll,
        };
        let now = self.now(clock);
        self.write_poll(number, slice, row.clone(), now);
    }

    fn import_voter(
        &mut self,
        slice: &SliceId,
        row: &VoterRow,
        clock: Timestamp,
    ) -> ShardResult<()> {
        let Some(poll) = self.state.poll(slice, row.poll) else {
            let why = "a row arrived before its poll".to_owned();
            return Err(ShardError::Unavailable { why });
        };
        // The poll was closed while this shard owned it, so all its rows exist
        // and do not change: they were evicted from memory, or are in a file.
        if poll.cold || poll.archive.is_some() {
            return Ok(());
        }
        let voter = match &row.voter {
            VoterName::Named(name) => RecordVoter::Named(name.as_str()),
            VoterName::Erased(print) => RecordVoter::Erased(*print),
        };
        let view = poll.voter_view(&voter.print(&poll.key));
        if view.is_some_and(|view| view.version() >= row.version) {
            return Ok(());
        }
        if view.is_none() && self.state.voters >= self.limits.voters_max {
            return Err(ballast_domain::poll::BallotRefusal::ShardFull.into());
        }
        let record = Record::Row(RowRecord {
            poll: poll.number,
            version: row.version,
            items: row.items.clone(),
            requests: row.requests.clone(),
            at: row.voted_at,
            voter,
        });
        let number = poll.number;
        let now = self.now(clock);
        self.write(now, &record);
        self.mark_counts_changed(number);
        Ok(())
    }

    /// Collects what an export needs.
    pub(in crate::embedded) fn subject(
        &self,
        slice: &SliceId,
    ) -> ShardResult<PendingAnswer<ExportedSlice>> {
        let known = self.require_slice(slice)?;
        let subject = ExportedSlice {
            key: known.key,
            polls: known.by_number(),
        };
        Ok(self.answer_after(known.changed_in, subject))
    }

    /// Returns at most `most` polls from an id on, and whether these are all. A
    /// poll's own row changes with its slice.
    pub(in crate::embedded) fn polls_from(
        &self,
        slice: &SliceId,
        first: PollId,
        most: usize,
    ) -> ShardResult<PendingAnswer<(Vec<PollHandle>, bool)>> {
        let known = self.require_slice(slice)?;
        let mut numbers = known.polls.range(first..).map(|(_, no)| no);
        let polls = numbers.by_ref().take(most);
        let polls = polls.filter_map(|no| self.state.polls.get(no));
        let polls = polls.map(|poll| poll.handle()).collect();
        let are_all = numbers.next().is_none();
        Ok(self.answer_after(known.changed_in, (polls, are_all)))
    }

    /// Returns the digests of a slice's polls.
    pub(in crate::embedded) fn digests(
        &self,
        slice: &SliceId,
    ) -> ShardResult<PendingAnswer<Vec<(PollId, Digest)>>> {
        let known = self.require_slice(slice)?;
        let polls = known
            .polls
            .values()
            .filter_map(|no| self.state.polls.get(no));
        let mut changed_in = known.changed_in;
        let digests = polls
            .map(|poll| {
                changed_in = changed_in.max(poll.changed_in);
                (poll.poll.poll_id, poll.full_digest())
            })
            .collect();
        Ok(self.answer_after(changed_in, digests))
    }

    /// Updates a slice's digest by at most `most` polls; `None` if more are
    /// left.
    pub(in crate::embedded) fn digest(
        &mut self,
        slice: &SliceId,
        most: usize,
    ) -> ShardResult<PendingAnswer<Option<SliceDigest>>> {
        self.require_slice(slice)?;
        Ok(match self.state.update_sum(slice, most) {
            Some((sum, changed_in)) => self.answer_after(changed_in, Some(sum)),
            None => self.answer_after(0, None),
        })
    }
}

/// The token to check: unchanged, except for a planted fault.
pub(super) fn effective_token(token: &MigrationToken) -> Cow<'_, MigrationToken> {
    if faults::is_planted(Fault::TokensIgnored) {
        return Cow::Owned(MigrationToken {
            token: u64::MAX,
            ..token.clone()
        });
    }
    Cow::Borrowed(token)
}

fn changed_poll(change: &ExportedRow) -> PollId {
    match change {
        ExportedRow::Poll(row) => row.poll.poll_id,
        ExportedRow::Voter(row) => row.poll,
    }
}
