//! Decisions about ballots, and reads of counts and rows.

use std::sync::Arc;

use ballast_domain::Timestamp;
use ballast_domain::poll::judge::{self, BallotDecision, UnjudgedBallot};
use ballast_domain::poll::{Ballot, BallotOutcome, BallotRefusal, Poll, RequestId};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, VoterId};

use super::{Core, PendingAnswer};
use crate::embedded::faults::{self, Fault};
use crate::embedded::record::{PollNo, Record, RecordVoter, RowRecord, VoteRecord};
use crate::embedded::runs::RowKey;
use crate::embedded::state::{PollState, RowData, VoterView, remember};
use crate::shard::{FencedSlice, RowVersion, ShardResult, Tally, VoterName, VoterPrint, VoterRow};

/// Ballots whose voters are prefetched together, so that their cache misses
/// overlap.
const LOOKUP_BATCH: usize = 32;

/// A ballot that will be counted.
struct AcceptedBallot {
    poll: PollNo,
    print: VoterPrint,
    version: RowVersion,
    items: judge::ChosenItems,
    at: Timestamp,
    /// The requests in the voter's row; `None` if there is no row yet.
    requests: Option<Vec<(RequestId, u32)>>,
}

/// The outcome of a batch of ballots.
#[derive(Default)]
pub(in crate::embedded) struct CastResult {
    pub(in crate::embedded) outcomes: Vec<BallotOutcome>,
    /// Ballots for cold polls: their index, and what to judge once the row has
    /// been read.
    pub(in crate::embedded) cold_ballots: Vec<(usize, ColdBallot)>,
}

impl CastResult {
    /// Defers ballots for a cold poll. Their verdicts without the rows are
    /// provisional.
    fn defer(&mut self, poll: &PollState, ballots: &[Ballot], prints: &[VoterPrint]) {
        let first = self.outcomes.len();
        for (index, (ballot, print)) in ballots.iter().zip(prints).enumerate() {
            let Some(item) = poll.item(ballot.item) else {
                continue;
            };
            let stored = ColdBallot {
                key: RowKey {
                    poll: poll.number,
                    voter: *print,
                },
                poll: poll.poll.clone(),
                unjudged: UnjudgedBallot {
                    item,
                    choice: ballot.choice,
                    request: ballot.request,
                    at: ballot.arrived_at,
                    if_revision: ballot.if_revision,
                },
            };
            self.cold_ballots.push((first + index, stored));
        }
    }
}

/// A ballot for a cold poll, whose voter's row is only on disk.
pub(in crate::embedded) struct ColdBallot {
    pub(in crate::embedded) key: RowKey,
    poll: Arc<Poll>,
    unjudged: UnjudgedBallot,
}

impl ColdBallot {
    /// Judges it by the row. The poll is closed, so nothing changes.
    pub(in crate::embedded) fn judge(&self, row: Option<&RowData>) -> BallotOutcome {
        let revision = row.map_or(0, |row| row.version.revision);
        let row = row.map(|row| judge::VoterState {
            items: row.items.as_slice(),
            revision,
            requests: &row.requests,
        });
        match judge::judge(&self.poll, row, &self.unjudged) {
            BallotDecision::Repeated { revision } => BallotOutcome::Counted { revision },
            BallotDecision::Already => BallotOutcome::Already { revision },
            BallotDecision::Refuse(refusal) => BallotOutcome::Refused(refusal),
            BallotDecision::Change(_) => BallotOutcome::Refused(BallotRefusal::Closed),
        }
    }
}

/// A voter's row, or its key in the runs.
pub(in crate::embedded) enum VoterLookup {
    InMemory(Option<VoterRow>),
    OnDisk(RowKey),
}

impl Core {
    /// Judges and counts ballots in order.
    pub(in crate::embedded) fn cast(
        &mut self,
        fenced: &FencedSlice,
        ballots: &[Ballot],
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<CastResult>> {
        self.check()?;
        // The fence must admit the batch, whatever the answers.
        let slice = self.state.admit(&fenced.slice, fenced.epoch)?;
        slice.admits_polls(ballots.iter().map(|ballot| ballot.poll))?;
        let mut depends_on = slice.changed_in;
        let now = self.now(clock);
        let mut cast = CastResult::default();
        cast.outcomes.reserve(ballots.len());
        for run in ballots.chunk_by(|one, two| one.poll == two.poll) {
            let changed_in = self.cast_for_poll(fenced, run, now, &mut cast);
            depends_on = depends_on.max(changed_in);
        }
        Ok(self.answer_after(depends_on, cast))
    }

    /// Casts ballots for one poll. Returns the group that their verdicts depend
    /// on.
    fn cast_for_poll(
        &mut self,
        fenced: &FencedSlice,
        run: &[Ballot],
        now: Timestamp,
        cast: &mut CastResult,
    ) -> u64 {
        let Some(slice) = self.state.slices.get(&fenced.slice) else {
            return 0;
        };
        let Some(number) = run.first().and_then(|first| slice.poll_no(first.poll)) else {
            let refused = BallotOutcome::Refused(BallotRefusal::PollNotFound);
            let all = std::iter::repeat_n(refused, run.len());
            cast.outcomes.extend(all);
            return slice.changed_in;
        };
        for block in run.chunks(LOOKUP_BATCH) {
            let Some(poll) = self.state.polls.get(&number) else {
                continue;
            };
            let mut prints = [VoterPrint([0, 0]); LOOKUP_BATCH];
            for (print, ballot) in prints.iter_mut().zip(block) {
                *print = poll.key.voter_print(ballot.voter.as_str());
            }
            poll.voters.prefetch(&prints[..block.len()]);
            if poll.cold && poll.archive.is_none() {
                cast.defer(poll, block, &prints);
            }
            for (ballot, print) in block.iter().zip(prints) {
                let outcome = self.cast_ballot(fenced.epoch, number, ballot, print, now);
                cast.outcomes.push(outcome);
            }
        }
        let poll = self.state.polls.get(&number);
        poll.map_or(0, |poll| poll.changed_in)
    }

    fn cast_ballot(
        &mut self,
        epoch: Epoch,
        number: PollNo,
        ballot: &Ballot,
        print: VoterPrint,
        now: Timestamp,
    ) -> BallotOutcome {
        let Some(poll) = self.state.polls.get(&number) else {
            return BallotOutcome::Refused(BallotRefusal::PollNotFound);
        };
        let at = judge::clamp_arrival(ballot.arrived_at, now, self.limits.allowance_ms);
        let counted = match judge_ballot(poll, ballot, print, epoch, at) {
            Ok(counted) => counted,
            Err(outcome) => return outcome,
        };
        if counted.requests.is_none() && self.state.voters >= self.limits.voters_max {
            return BallotOutcome::Refused(BallotRefusal::ShardFull);
        }
        let revision = counted.version.revision;
        self.count(counted, ballot, now);
        BallotOutcome::Counted { revision }
    }

    /// Writes the record and applies it. A first vote is applied as in
    /// [`super::EngineState::apply`], without hashing the voter again.
    fn count(&mut self, counted: AcceptedBallot, ballot: &Ballot, now: Timestamp) {
        self.mark_counts_changed(counted.poll);
        let voter = ballot.voter.as_str();
        let Some(mut requests) = counted.requests else {
            let vote = VoteRecord {
                poll: counted.poll,
                epoch: counted.version.epoch,
                item: counted.items.as_slice().first().copied().unwrap_or(0),
                request: ballot.request,
                at: counted.at,
                voter,
            };
            self.write_bytes(now, &Record::Vote(vote));
            faults::panic_if(Fault::CountingPanics);
            let sequence = self.open.sequence;
            self.state.apply_vote(sequence, counted.print, &vote);
            return;
        };
        remember(&mut requests, ballot.request, counted.version.revision);
        let row = RowRecord {
            poll: counted.poll,
            version: counted.version,
            items: counted.items.as_slice().to_vec(),
            requests,
            at: counted.at,
            voter: RecordVoter::Named(voter),
        };
        self.write(now, &Record::Row(row));
    }

    /// Returns a poll's counts.
    pub(in crate::embedded) fn tally(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<PendingAnswer<Tally>> {
        let poll = self.require_poll(slice, poll)?;
        Ok(self.answer_after(poll.changed_in, poll.tally(poll.changed_in)))
    }

    /// Returns a poll's number and counts.
    pub(in crate::embedded) fn numbered_tally(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<PendingAnswer<(PollNo, Tally)>> {
        let poll = self.require_poll(slice, poll)?;
        let tally = poll.tally(poll.changed_in);
        Ok(self.answer_after(poll.changed_in, (poll.number, tally)))
    }

    /// Returns a poll's counts per item and lane.
    pub(in crate::embedded) fn lanes(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<PendingAnswer<Vec<Vec<u64>>>> {
        let poll = self.require_poll(slice, poll)?;
        Ok(self.answer_after(poll.changed_in, poll.lanes.by_item()))
    }

    /// Reads a voter's row.
    pub(in crate::embedded) fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<PendingAnswer<VoterLookup>> {
        let poll = self.require_poll(slice, poll)?;
        if poll.archive.is_some() {
            return Err(BallotRefusal::Archived.into());
        }
        let print = poll.key.voter_print(voter.as_str());
        if poll.cold {
            let key = RowKey {
                poll: poll.number,
                voter: print,
            };
            return Ok(self.answer_after(poll.changed_in, VoterLookup::OnDisk(key)));
        }
        let row = poll.voter_view(&print).map(|view| {
            let row = view.to_row();
            VoterRow {
                poll: poll.poll.poll_id,
                voter: VoterName::Named(voter.clone()),
                items: row.items.as_slice().to_vec(),
                version: row.version,
                requests: row.requests,
                voted_at: row.at,
            }
        });
        Ok(self.answer_after(poll.changed_in, VoterLookup::InMemory(row)))
    }
}

/// Judges a ballot: it is counted, or gets this verdict.
fn judge_ballot(
    poll: &PollState,
    ballot: &Ballot,
    print: VoterPrint,
    epoch: Epoch,
    at: Timestamp,
) -> Result<AcceptedBallot, BallotOutcome> {
    let item = poll
        .item(ballot.item)
        .ok_or(BallotOutcome::Refused(BallotRefusal::ItemNotFound))?;
    if poll.archive.is_some() {
        return Err(BallotOutcome::Refused(BallotRefusal::Archived));
    }
    let view = poll.voter_view(&print);
    let revision = view.map_or(0, |view| view.version().revision);
    let unjudged = UnjudgedBallot {
        item,
        choice: ballot.choice,
        request: ballot.request,
        at,
        if_revision: ballot.if_revision,
    };
    match apply_rules(poll, view.as_ref(), &unjudged) {
        BallotDecision::Change(items) => Ok(AcceptedBallot {
            poll: poll.number,
            print,
            version: RowVersion {
                epoch,
                revision: revision + 1,
            },
            items,
            at,
            requests: view.map(|view| view.to_row().requests),
        }),
        BallotDecision::Repeated { revision } => Err(BallotOutcome::Counted { revision }),
        BallotDecision::Already => Err(BallotOutcome::Already { revision }),
        BallotDecision::Refuse(refusal) => Err(BallotOutcome::Refused(refusal)),
    }
}

fn apply_rules(
    poll: &PollState,
    view: Option<&VoterView<'_>>,
    unjudged: &UnjudgedBallot,
) -> BallotDecision {
    let once: [(RequestId, u32); 1];
    let row = match view {
        None => None,
        Some(
            view @ VoterView::Packed {
                request, version, ..
            },
        ) => {
            once = [(*request, version.revision)];
            Some(judge::VoterState {
                items: view.items(),
                revision: version.revision,
                requests: &once,
            })
        }
        Some(VoterView::Full(row)) => Some(judge::VoterState {
            items: row.items.as_slice(),
            revision: row.version.revision,
            requests: &row.requests,
        }),
    };
    judge::judge(&poll.poll, row, unjudged)
}
