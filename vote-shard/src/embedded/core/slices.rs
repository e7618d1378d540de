//! Slices: founding, moving, importing, purging.

use std::borrow::Cow;

use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, Timestamp};

use super::{Answer, Core};
use crate::embedded::export::Subject;
use crate::embedded::faults::{self, Fault};
use crate::embedded::record::{PollNo, Record, RowRecord, SliceRecord, WrittenVoter};
use crate::embedded::state::{SharedPoll, SliceState};
use crate::shard::{
    At, Change, Digest, Fence, Order, PollRow, ShardError, ShardResult, SliceDigest, SliceKey,
    Unfit, VoterName, VoterRow,
};

/// One change of a fence.
type Step = fn(&Fence, Epoch, &Order) -> Result<Fence, Unfit>;

impl Core {
    /// Becomes the owner of a slice that was never heard of.
    pub(in crate::embedded) fn found(
        &mut self,
        at: &At,
        fresh: SliceKey,
        clock: Timestamp,
    ) -> ShardResult<Answer<()>> {
        self.check()?;
        if let Some(known) = self.state.slices.get(&at.slice) {
            return Ok(self.after(known.changed_in, ()));
        }
        if at.epoch != Epoch::FIRST {
            return Err(Unfit::Unknown.into());
        }
        self.write_slice(at, Fence::founded(at.epoch), fresh, clock);
        Ok(self.after(self.open.sequence, ()))
    }

    /// Takes over a slice at a higher epoch, as after a restore; one that was
    /// never heard of becomes owned.
    pub(in crate::embedded) fn adopt(
        &mut self,
        at: &At,
        fresh: SliceKey,
        clock: Timestamp,
    ) -> ShardResult<Answer<()>> {
        self.check()?;
        let (fence, key) = match self.state.slices.get(&at.slice) {
            None => (Fence::founded(at.epoch), fresh),
            Some(known) => (known.fence.restored(at.epoch)?, known.key),
        };
        self.write_slice(at, fence, key, clock);
        Ok(self.after(self.open.sequence, ()))
    }

    fn write_slice(&mut self, at: &At, fence: Fence, key: SliceKey, clock: Timestamp) {
        let known = self.state.slices.get(&at.slice);
        let range = known.map_or(HashRange::WHOLE, |known| known.range);
        self.write_ranged(at, fence, key, range, clock);
    }

    fn write_ranged(
        &mut self,
        at: &At,
        fence: Fence,
        key: SliceKey,
        range: HashRange,
        clock: Timestamp,
    ) {
        let record = SliceRecord {
            slice: at.slice.clone(),
            fence,
            key,
            range,
        };
        let now = self.now(clock);
        self.write(now, &Record::Slice(record));
    }

    /// Whether what is read here is the truth.
    pub(in crate::embedded) fn serves(&self, at: &At) -> ShardResult<Answer<()>> {
        self.check()?;
        let known = self.state.slices.get(&at.slice);
        Fence::serves(known.map(|known| &known.fence), at.epoch)?;
        Ok(self.after(known.map_or(0, |known| known.changed_in), ()))
    }

    /// What is remembered of a slice.
    pub(in crate::embedded) fn fence(&self, slice: &SliceId) -> ShardResult<Answer<Option<Fence>>> {
        self.check()?;
        let known = self.state.slices.get(slice);
        let changed_in = known.map_or(0, |known| known.changed_in);
        Ok(self.after(changed_in, known.map(|known| known.fence.clone())))
    }

    /// A slice that was held at some time.
    pub(super) fn held(&self, slice: &SliceId) -> ShardResult<&SliceState> {
        self.check()?;
        let known = self.state.slices.get(slice);
        known.ok_or_else(|| Unfit::Unknown.into())
    }

    /// The key of a slice.
    pub(in crate::embedded) fn slice_key(&self, slice: &SliceId) -> ShardResult<Answer<SliceKey>> {
        let known = self.held(slice)?;
        Ok(self.after(known.changed_in, known.key))
    }

    /// The polls that a slice holds.
    pub(in crate::embedded) fn slice_range(
        &self,
        slice: &SliceId,
    ) -> ShardResult<Answer<HashRange>> {
        let known = self.held(slice)?;
        Ok(self.after(known.changed_in, known.range))
    }

    /// Importing.
    pub(in crate::embedded) fn prepare(
        &mut self,
        at: &At,
        order: &Order,
        (key, range): (SliceKey, HashRange),
        clock: Timestamp,
    ) -> ShardResult<Answer<()>> {
        self.check()?;
        let order = &heeded(order);
        let known = self.state.slices.get(&at.slice);
        let fence = Fence::prepare(known.map(|known| &known.fence), at.epoch, order)?;
        // What is here already is known by its key, and by its range.
        let other = |known: &&SliceState| (known.key, known.range) != (key, range);
        if let Some(known) = known.filter(|known| other(known) && !known.polls.is_empty()) {
            return Err(Unfit::State {
                holding: known.fence.holding,
                epoch: known.fence.epoch,
            }
            .into());
        }
        self.write_ranged(at, fence, key, range, clock);
        Ok(self.after(self.open.sequence, ()))
    }

    /// Changes the fence of a slice that is known.
    pub(in crate::embedded) fn step(
        &mut self,
        step: Step,
        at: &At,
        order: &Order,
        clock: Timestamp,
    ) -> ShardResult<Answer<()>> {
        let order = &heeded(order);
        let known = self.held(&at.slice)?;
        let (key, fence) = (known.key, step(&known.fence, at.epoch, order)?);
        if fence != known.fence {
            self.write_slice(at, fence, key, clock);
        }
        let changed_in = self.held(&at.slice)?.changed_in;
        Ok(self.after(changed_in, ()))
    }

    /// Removes polls of a slice that is not owned any more, or not yet.
    pub(in crate::embedded) fn purge(
        &mut self,
        at: &At,
        order: &Order,
        most: usize,
        fresh: SliceKey,
        clock: Timestamp,
    ) -> ShardResult<Answer<usize>> {
        self.check()?;
        let (slice, order) = (&at.slice, &heeded(order));
        let known = self.state.slices.get(slice);
        if let Some(known) = known
            && !faults::has(Fault::PurgeUnchecked)
        {
            known.fence.may_purge(order)?;
        }
        let gone = Fence::gone(known.map(|known| &known.fence), at.epoch, order);
        let key = known.map_or(fresh, |known| known.key);
        let polls = known.into_iter().flat_map(|known| known.polls.values());
        let first: Vec<PollNo> = polls.copied().take(most).collect();
        let now = self.now(clock);
        for number in first {
            self.counted(number);
            self.write(now, &Record::Gone(number));
        }
        let known = self.state.slices.get(slice);
        let left = known.map_or(0, |known| known.polls.len());
        if left == 0 && known.map(|known| &known.fence) != Some(&gone) {
            self.write_slice(at, gone, key, clock);
        }
        let changed_in = self.held(slice)?.changed_in;
        Ok(self.after(changed_in, left))
    }

    /// Takes in what another shard exported.
    pub(in crate::embedded) fn import(
        &mut self,
        slice: &SliceId,
        order: &Order,
        changes: &[Change],
        clock: Timestamp,
    ) -> ShardResult<Answer<()>> {
        let order = &heeded(order);
        let known = self.held(slice)?;
        known.fence.may_import(order)?;
        if order.token > known.fence.token {
            let mut fence = known.fence.clone();
            fence.token = order.token;
            let at = At {
                slice: slice.clone(),
                epoch: fence.epoch,
            };
            let key = known.key;
            self.write_slice(&at, fence, key, clock);
        }
        let range = self.held(slice)?.range;
        if changes.iter().any(|it| !range.contains(poll_of(it))) {
            return Err(Unfit::OtherSlice.into());
        }
        for change in changes {
            match change {
                Change::Poll(row) => self.import_poll(slice, row, clock),
                Change::Voter(row) => self.import_voter(slice, row, clock)?,
            }
        }
        let changed_in = changes
            .iter()
            .filter_map(|change| self.state.poll(slice, poll_of(change)))
            .map(|poll| poll.changed_in)
            .max()
            .unwrap_or(0)
            .max(self.held(slice)?.changed_in);
        Ok(self.after(changed_in, ()))
    }

    /// Forgets a poll that is to be copied anew.
    pub(in crate::embedded) fn discard(
        &mut self,
        at: &At,
        order: &Order,
        poll: PollId,
        clock: Timestamp,
    ) -> ShardResult<Answer<()>> {
        let slice = &at.slice;
        self.held(slice)?.fence.may_discard(at.epoch, order)?;
        if let Some(number) = self.state.poll(slice, poll).map(|poll| poll.number) {
            let now = self.now(clock);
            self.counted(number);
            self.write(now, &Record::Gone(number));
        }
        let changed_in = self.held(slice)?.changed_in;
        Ok(self.after(changed_in, ()))
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
            let why = "a row was sent before its poll".to_owned();
            return Err(ShardError::Unavailable { why });
        };
        // It was closed while it was owned here, so all its rows are there, and
        // they do not change: only memory has let them go, or a file has them.
        if poll.cold || poll.archive.is_some() {
            return Ok(());
        }
        let voter = match &row.voter {
            VoterName::Named(name) => WrittenVoter::Named(name.as_str()),
            VoterName::Erased(print) => WrittenVoter::Erased(*print),
        };
        let seen = poll.seen(&voter.print(&poll.key));
        if seen.is_some_and(|seen| seen.version() >= row.version) {
            return Ok(());
        }
        if seen.is_none() && self.state.voters >= self.limits.voters_max {
            return Err(ballast_domain::poll::Refusal::ShardFull.into());
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
        self.counted(number);
        Ok(())
    }

    /// What an export must know.
    pub(in crate::embedded) fn subject(&self, slice: &SliceId) -> ShardResult<Answer<Subject>> {
        let known = self.held(slice)?;
        let subject = Subject {
            key: known.key,
            polls: known.by_number(),
        };
        Ok(self.after(known.changed_in, subject))
    }

    /// At most so many of a slice's polls as they are, from an id on; whether
    /// these are all. What a poll says of itself changes with its slice.
    pub(in crate::embedded) fn polls_from(
        &self,
        slice: &SliceId,
        first: PollId,
        most: usize,
    ) -> ShardResult<Answer<(Vec<SharedPoll>, bool)>> {
        let known = self.held(slice)?;
        let mut numbers = known.polls.range(first..).map(|(_, no)| no);
        let polls = numbers.by_ref().take(most);
        let polls = polls.filter_map(|no| self.state.polls.get(no));
        let polls = polls.map(|poll| poll.shared()).collect();
        let are_all = numbers.next().is_none();
        Ok(self.after(known.changed_in, (polls, are_all)))
    }

    /// The digests of a slice's polls.
    pub(in crate::embedded) fn digests(
        &self,
        slice: &SliceId,
    ) -> ShardResult<Answer<Vec<(PollId, Digest)>>> {
        let known = self.held(slice)?;
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
        Ok(self.after(changed_in, digests))
    }

    /// The digest of a slice, brought up to date by at most so many polls:
    /// nothing if that was not enough.
    pub(in crate::embedded) fn digest(
        &mut self,
        slice: &SliceId,
        most: usize,
    ) -> ShardResult<Answer<Option<SliceDigest>>> {
        self.held(slice)?;
        Ok(match self.state.sum(slice, most) {
            Some((sum, changed_in)) => self.after(changed_in, Some(sum)),
            None => self.after(0, None),
        })
    }
}

/// The order as it is heeded: as it came, but for a planted fault.
pub(super) fn heeded(order: &Order) -> Cow<'_, Order> {
    if faults::has(Fault::TokensIgnored) {
        return Cow::Owned(Order {
            token: u64::MAX,
            ..order.clone()
        });
    }
    Cow::Borrowed(order)
}

fn poll_of(change: &Change) -> PollId {
    match change {
        Change::Poll(row) => row.poll.poll_id,
        Change::Voter(row) => row.poll,
    }
}
