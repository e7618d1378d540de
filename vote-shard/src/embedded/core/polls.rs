//! Decisions about polls: creating, closing, lanes, imported counts, archives.

use ballast_domain::bounds::IMPORTS_PER_POLL_MAX;
use ballast_domain::poll::{BallotRefusal, Poll, PollPhase, RequestId};
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, TenantId, Timestamp};

use super::{Core, PendingAnswer};
use crate::embedded::record::{PollNo, PollRecord, Record};
use crate::embedded::state::PollState;
use crate::shard::{
    ArchiveFile, ArchivedRows, FencedSlice, Holding, PollRow, RowVersion, ShardResult,
    SliceStateError, Tally,
};

impl Core {
    /// Creates a poll, or returns the one that the same request created.
    pub(in crate::embedded) fn create_poll(
        &mut self,
        fenced: &FencedSlice,
        mut poll: Poll,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<Poll>> {
        self.check()?;
        let slice = self
            .state
            .admit_poll(&fenced.slice, fenced.epoch, poll.poll_id)?;
        let same = slice.requests.get(&poll.request).or_else(|| {
            slice
                .polls
                .contains_key(&poll.poll_id)
                .then_some(&poll.poll_id)
        });
        if let Some(known) = same.and_then(|id| self.state.poll(&fenced.slice, *id)) {
            let depends_on = known.changed_in.max(slice.changed_in);
            return Ok(self.answer_after(depends_on, Poll::clone(&known.poll)));
        }
        if slice.polls.len() >= self.limits.polls_max {
            return Err(BallotRefusal::TooManyPolls.into());
        }
        let now = self.now(clock);
        poll.created_at = now;
        let row = PollRow {
            carried: vec![0; poll.spec.items.len()],
            imports: Vec::new(),
            archived: None,
            poll: poll.clone(),
            version: RowVersion {
                epoch: fenced.epoch,
                revision: 1,
            },
        };
        self.write_poll(self.state.next_poll, &fenced.slice, row, now);
        Ok(self.answer_after(self.open.sequence, poll))
    }

    pub(super) fn write_poll(
        &mut self,
        number: PollNo,
        slice: &SliceId,
        row: PollRow,
        now: Timestamp,
    ) {
        let slice = slice.clone();
        let lanes = |poll: &Poll| poll.spec.options.lanes;
        let known = self.state.polls.get(&number);
        let fewer_lanes = known.is_some_and(|known| lanes(&row.poll) < lanes(&known.poll));
        let record = PollRecord {
            slice,
            row,
            fewer_lanes,
        };
        self.write(now, &Record::Poll(number, Box::new(record)));
        self.mark_counts_changed(number);
    }

    /// Returns a poll's state, or `PollNotFound`.
    pub(in crate::embedded) fn require_poll(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<&PollState> {
        self.check()?;
        let poll = self.state.poll(slice, poll);
        poll.ok_or_else(|| BallotRefusal::PollNotFound.into())
    }

    /// Reads a poll.
    pub(in crate::embedded) fn poll(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<PendingAnswer<Poll>> {
        let known = self.require_poll(slice, poll)?;
        Ok(self.answer_after(known.changed_in, Poll::clone(&known.poll)))
    }

    /// Lists a slice's polls after an id.
    pub(in crate::embedded) fn polls(
        &self,
        slice: &SliceId,
        after: Option<PollId>,
        most: usize,
    ) -> ShardResult<PendingAnswer<Vec<Poll>>> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.check()?;
        let Some(slice) = self.state.slices.get(slice) else {
            return Ok(self.answer_after(0, Vec::new()));
        };
        let from = after.map_or(Unbounded, Excluded);
        let polls = slice
            .polls
            .range((from, Unbounded))
            .filter_map(|(_, number)| self.state.polls.get(number))
            .take(most)
            .map(|poll| Poll::clone(&poll.poll))
            .collect();
        Ok(self.answer_after(slice.changed_in, polls))
    }

    /// Lists open polls of owned slices that expect at least `least` voters.
    pub(in crate::embedded) fn awaited_polls(
        &self,
        least: u64,
        most: usize,
    ) -> ShardResult<PendingAnswer<Vec<(SliceId, Poll)>>> {
        self.check()?;
        // A poll that is missing was closed or moved, which changes its slice.
        let slices = self.state.slices.values();
        let depends_on = slices.map(|slice| slice.changed_in).max().unwrap_or(0);
        let numbers = self.state.awaited.iter().map(|(_, number)| number);
        let polls = numbers
            .filter(|number| self.is_owned(**number))
            .filter_map(|number| self.state.polls.get(number))
            .filter(|poll| poll.poll.spec.expected_voters >= Some(least))
            .take(most)
            .map(|poll| (poll.slice.clone(), Poll::clone(&poll.poll)))
            .collect();
        Ok(self.answer_after(depends_on, polls))
    }

    /// Closes a poll.
    pub(in crate::embedded) fn close_poll(
        &mut self,
        fenced: &FencedSlice,
        poll: PollId,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<Poll>> {
        self.change_poll(fenced, poll, clock, |row, now| {
            let poll = &mut row.poll;
            if poll.closed_at.is_none() {
                // A poll that had expired closed at that time, not now.
                poll.closed_at = Some(now.min(poll.spec.expiration_time));
            }
        })
    }

    /// Spreads a poll's counters over more lanes.
    pub(in crate::embedded) fn widen_lanes(
        &mut self,
        fenced: &FencedSlice,
        poll: PollId,
        lanes: u16,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<Poll>> {
        self.change_poll(fenced, poll, clock, |row, _| {
            let options = &mut row.poll.spec.options;
            options.lanes = options.lanes.max(lanes);
        })
    }

    /// Spreads an open poll's counters over fewer lanes.
    pub(in crate::embedded) fn narrow_lanes(
        &mut self,
        fenced: &FencedSlice,
        poll: PollId,
        lanes: u16,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<Poll>> {
        self.change_poll(fenced, poll, clock, |row, _| {
            let is_open = row.poll.closed_at.is_none();
            let options = &mut row.poll.spec.options;
            if is_open {
                options.lanes = options.lanes.min(lanes.max(1));
            }
        })
    }

    /// Adds imported vote counts.
    pub(in crate::embedded) fn import_counts(
        &mut self,
        fenced: &FencedSlice,
        poll: PollId,
        request: RequestId,
        votes: &[u64],
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<Tally>> {
        self.check()?;
        self.state.admit_poll(&fenced.slice, fenced.epoch, poll)?;
        let known = self.require_poll(&fenced.slice, poll)?;
        if !known.imports.contains(&request) {
            if known.poll.phase(self.now(clock)) == PollPhase::Closed {
                return Err(BallotRefusal::Closed.into());
            }
            if known.imports.len() >= IMPORTS_PER_POLL_MAX {
                return Err(BallotRefusal::ImportsUsedUp.into());
            }
            self.change_poll(fenced, poll, clock, |row, _| {
                row.imports.push(request);
                for (carried, votes) in row.carried.iter_mut().zip(votes) {
                    *carried = carried.saturating_add(*votes);
                }
            })?;
        }
        self.tally(&fenced.slice, poll)
    }

    /// Replaces a closed poll's rows by a file.
    pub(in crate::embedded) fn archive_poll(
        &mut self,
        fenced: &FencedSlice,
        poll: PollId,
        file: ArchiveFile,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<Poll>> {
        self.check()?;
        self.state.admit_poll(&fenced.slice, fenced.epoch, poll)?;
        let known = self.require_poll(&fenced.slice, poll)?;
        if known.poll.closed_at.is_none() {
            return Err(SliceStateError::PollOpen.into());
        }
        let (rows, fits) = match known.archive.as_deref() {
            None => (known.digest, true),
            Some(there) => (
                there.digest,
                *there == file || there.generation < file.generation,
            ),
        };
        if !fits || file.digest != rows {
            return Err(SliceStateError::RowsDiffer.into());
        }
        let archived = ArchivedRows {
            file,
            voting: known.voting,
            lanes: known.lanes.by_item(),
        };
        self.change_poll(fenced, poll, clock, |row, _| {
            row.archived = Some(Box::new(archived));
        })
    }

    /// Returns the file that holds a poll's rows.
    pub(in crate::embedded) fn archive(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<PendingAnswer<Option<ArchiveFile>>> {
        let known = self.require_poll(slice, poll)?;
        let file = known.archive.as_deref().cloned();
        Ok(self.answer_after(known.changed_in, file))
    }

    /// Returns the file that holds a poll's rows, in any slice of a tenant.
    pub(in crate::embedded) fn find_archive(
        &self,
        tenant: &TenantId,
        poll: PollId,
    ) -> ShardResult<PendingAnswer<Option<ArchiveFile>>> {
        self.check()?;
        let slices = self.state.slices.iter();
        let mut own = slices.filter(|(slice, _)| slice.tenant_id == *tenant);
        let number = own.find_map(|(_, slice)| slice.polls.get(&poll));
        let Some(known) = number.and_then(|number| self.state.polls.get(number)) else {
            return Ok(self.answer_after(0, None));
        };
        Ok(self.answer_after(known.changed_in, known.archive.as_deref().cloned()))
    }

    /// Lists a slice's archived polls.
    pub(in crate::embedded) fn archives(
        &self,
        slice: &SliceId,
    ) -> ShardResult<PendingAnswer<Vec<PollRow>>> {
        self.check()?;
        let Some(slice) = self.state.slices.get(slice) else {
            return Ok(self.answer_after(0, Vec::new()));
        };
        let polls = slice.polls.values();
        let polls = polls.filter_map(|number| self.state.polls.get(number));
        let archived = polls.filter(|poll| poll.archive.is_some());
        let rows = archived.map(PollState::row).collect();
        Ok(self.answer_after(slice.changed_in, rows))
    }

    fn change_poll(
        &mut self,
        fenced: &FencedSlice,
        poll: PollId,
        clock: Timestamp,
        change: impl FnOnce(&mut PollRow, Timestamp),
    ) -> ShardResult<PendingAnswer<Poll>> {
        self.check()?;
        let admitted_in = self
            .state
            .admit_poll(&fenced.slice, fenced.epoch, poll)?
            .changed_in;
        let known = self.require_poll(&fenced.slice, poll)?;
        let (number, mut row) = (known.number, known.row());
        let now = self.now(clock);
        let before = row.clone();
        change(&mut row, now);
        if row == before {
            return Ok(self.answer_after(known.changed_in.max(admitted_in), row.poll));
        }
        row.version = RowVersion {
            epoch: fenced.epoch,
            revision: row.version.revision + 1,
        };
        let changed = row.poll.clone();
        self.write_poll(number, &fenced.slice, row, now);
        Ok(self.answer_after(self.open.sequence, changed))
    }

    /// Closes up to `most` expired polls for which no ballot in time can still
    /// be on its way.
    pub(in crate::embedded) fn close_expired(&mut self, clock: Timestamp, most: usize) {
        if self.trouble.is_some() {
            return;
        }
        let now = self.now(clock).unix_ms();
        let over: Vec<PollNo> = self
            .state
            .expiring
            .iter()
            .take_while(|(expires, _)| {
                expires.unix_ms().saturating_add(self.limits.allowance_ms) < now
            })
            .map(|(_, number)| *number)
            .filter(|number| self.is_owned(*number))
            .take(most)
            .collect();
        for number in over {
            let Some(poll) = self.state.polls.get(&number) else {
                continue;
            };
            let Some(slice) = self.state.slices.get(&poll.slice) else {
                continue;
            };
            let fenced = FencedSlice {
                slice: poll.slice.clone(),
                epoch: slice.fence.epoch,
            };
            let id = poll.poll.poll_id;
            // The shard owns the slice at this epoch, so this cannot be
            // refused.
            let _ = self.close_poll(&fenced, id, clock);
        }
    }

    fn is_owned(&self, number: PollNo) -> bool {
        let poll = self.state.polls.get(&number);
        poll.and_then(|poll| self.state.slices.get(&poll.slice))
            .is_some_and(|slice| slice.fence.holding == Holding::Owner)
    }
}

#[cfg(test)]
mod tests {
    use ballast_domain::{Error, ErrorCode};

    use super::*;
    use crate::conformance::builders::{at_epoch, fenced_slice, poll, refusal, slice, time};
    use crate::embedded::core::Limits;
    use crate::embedded::state::EngineState;
    use crate::shard::{ShardError, SliceKey};
    use crate::testing::SeedEntropy;

    #[test]
    fn one_poll_too_many_is_refused_and_changes_nothing() {
        let limits = Limits {
            voters_max: 10,
            polls_max: 3,
            allowance_ms: 0,
        };
        let mut core = Core::new(EngineState::default(), 0, limits);
        let key = SliceKey::random(&SeedEntropy(7.into()));
        for fenced in [at_epoch(1), fenced_slice("other", 1)] {
            core.adopt(&fenced, key, time(0)).unwrap();
        }
        for number in 1..=3 {
            core.create_poll(&at_epoch(1), poll(number), time(0))
                .unwrap();
        }
        let (state, group) = (format!("{:?}", core.state), format!("{:?}", core.open));
        for _ in 0..2 {
            let refused = core.create_poll(&at_epoch(1), poll(4), time(1));
            let refused = refusal(refused);
            assert_eq!(refused, BallotRefusal::TooManyPolls);
            let error = Error::from(ShardError::from(refused));
            assert_eq!(error.code(), ErrorCode::TooMany);
            assert!(
                error.to_string().contains("polls, which is the limit"),
                "{error}"
            );
        }
        let unknown = core.poll(&slice(), poll(4).poll_id);
        assert_eq!(refusal(unknown), BallotRefusal::PollNotFound);
        // An existing poll is still found.
        core.create_poll(&at_epoch(1), poll(3), time(1)).unwrap();
        assert_eq!(format!("{:?}", core.state), state);
        assert_eq!(format!("{:?}", core.open), group);
        // Each slice has its own limit.
        let other = fenced_slice("other", 1);
        core.create_poll(&other, poll(4), time(1)).unwrap();
    }
}
