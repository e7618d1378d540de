//! Ballots.

use std::sync::Arc;

use ballast_domain::Timestamp;
use ballast_domain::poll::judge::{self, Asked, Decision};
use ballast_domain::poll::{Ballot, Poll, Refusal, RequestId, Verdict};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, VoterId};

use super::{Answer, Core};
use crate::embedded::faults::{self, Fault};
use crate::embedded::record::{PollNo, Record, RowRecord, VoteRecord, WrittenVoter};
use crate::embedded::runs::Key;
use crate::embedded::state::{PollState, Row, Seen, remember};
use crate::shard::{At, ShardResult, Tally, Version, VoterName, VoterPrint, VoterRow};

/// Ballots whose voters are looked up together, so that waits for memory
/// overlap.
const AT_ONCE: usize = 32;

/// A ballot that is to be counted.
struct Counted {
    poll: PollNo,
    print: VoterPrint,
    version: Version,
    items: judge::Chosen,
    at: Timestamp,
    /// The requests that the voter's row remembers; `None` when there is no
    /// row yet.
    requests: Option<Vec<(RequestId, u32)>>,
}

/// What became of ballots.
#[derive(Default)]
pub(in crate::embedded) struct Cast {
    pub(in crate::embedded) verdicts: Vec<Verdict>,
    /// Ballots for polls whose rows are only on disk: which, and what is to be
    /// judged once the row was read.
    pub(in crate::embedded) stored: Vec<(usize, Stored)>,
}

impl Cast {
    /// Notes ballots for a poll whose rows are only on disk. What is judged
    /// without the rows stands only until they were read.
    fn put_aside(&mut self, poll: &PollState, ballots: &[Ballot], prints: &[VoterPrint]) {
        let first = self.verdicts.len();
        for (place, (ballot, print)) in ballots.iter().zip(prints).enumerate() {
            let Some(item) = poll.item(ballot.item) else {
                continue;
            };
            let stored = Stored {
                key: Key {
                    poll: poll.number,
                    voter: *print,
                },
                poll: poll.poll.clone(),
                asked: Asked {
                    item,
                    choice: ballot.choice,
                    request: ballot.request,
                    at: ballot.arrived_at,
                    if_revision: ballot.if_revision,
                },
            };
            self.stored.push((first + place, stored));
        }
    }
}

/// A ballot whose voter's row is only on disk.
pub(in crate::embedded) struct Stored {
    pub(in crate::embedded) key: Key,
    poll: Arc<Poll>,
    asked: Asked,
}

impl Stored {
    /// Judges it by the row. The poll is closed, so nothing can change.
    pub(in crate::embedded) fn judge(&self, row: Option<&Row>) -> Verdict {
        let revision = row.map_or(0, |row| row.version.revision);
        let row = row.map(|row| judge::Row {
            items: row.items.as_slice(),
            revision,
            requests: &row.requests,
        });
        match judge::judge(&self.poll, row, &self.asked) {
            Decision::Repeated { revision } => Verdict::Counted { revision },
            Decision::Already => Verdict::Already { revision },
            Decision::Refuse(refusal) => Verdict::Refused(refusal),
            Decision::Change(_) => Verdict::Refused(Refusal::Closed),
        }
    }
}

/// A row, or where it is stored.
pub(in crate::embedded) enum Found {
    Here(Option<VoterRow>),
    Stored(Key),
}

impl Core {
    /// Judges and counts ballots in their order.
    pub(in crate::embedded) fn cast(
        &mut self,
        at: &At,
        ballots: &[Ballot],
        clock: Timestamp,
    ) -> ShardResult<Answer<Cast>> {
        self.check()?;
        // Whatever is answered, it was admitted by the fence.
        let slice = self.state.admit(&at.slice, at.epoch)?;
        slice.admits_polls(ballots.iter().map(|ballot| ballot.poll))?;
        let mut depends_on = slice.changed_in;
        let now = self.now(clock);
        let mut cast = Cast::default();
        cast.verdicts.reserve(ballots.len());
        for run in ballots.chunk_by(|one, two| one.poll == two.poll) {
            let changed_in = self.cast_run(at, run, now, &mut cast);
            depends_on = depends_on.max(changed_in);
        }
        Ok(self.after(depends_on, cast))
    }

    /// Ballots for one poll. Says which group their verdicts depend on.
    fn cast_run(&mut self, at: &At, run: &[Ballot], now: Timestamp, cast: &mut Cast) -> u64 {
        let Some(slice) = self.state.slices.get(&at.slice) else {
            return 0;
        };
        let Some(number) = run.first().and_then(|first| slice.poll_no(first.poll)) else {
            let refused = Verdict::Refused(Refusal::PollNotFound);
            let all = std::iter::repeat_n(refused, run.len());
            cast.verdicts.extend(all);
            return slice.changed_in;
        };
        for block in run.chunks(AT_ONCE) {
            let Some(poll) = self.state.polls.get(&number) else {
                continue;
            };
            let mut prints = [VoterPrint([0, 0]); AT_ONCE];
            for (print, ballot) in prints.iter_mut().zip(block) {
                *print = poll.key.print(ballot.voter.as_str());
            }
            poll.voters.touch(&prints[..block.len()]);
            if poll.cold && poll.archive.is_none() {
                cast.put_aside(poll, block, &prints);
            }
            for (ballot, print) in block.iter().zip(prints) {
                let verdict = self.cast_one(at.epoch, number, ballot, print, now);
                cast.verdicts.push(verdict);
            }
        }
        let poll = self.state.polls.get(&number);
        poll.map_or(0, |poll| poll.changed_in)
    }

    fn cast_one(
        &mut self,
        epoch: Epoch,
        number: PollNo,
        ballot: &Ballot,
        print: VoterPrint,
        now: Timestamp,
    ) -> Verdict {
        let Some(poll) = self.state.polls.get(&number) else {
            return Verdict::Refused(Refusal::PollNotFound);
        };
        let at = judge::arrival(ballot.arrived_at, now, self.limits.allowance_ms);
        let counted = match judged(poll, ballot, print, epoch, at) {
            Ok(counted) => counted,
            Err(verdict) => return verdict,
        };
        if counted.requests.is_none() && self.state.voters >= self.limits.voters_max {
            return Verdict::Refused(Refusal::ShardFull);
        }
        let revision = counted.version.revision;
        self.count(counted, ballot, now);
        Verdict::Counted { revision }
    }

    /// Writes the record and applies it. A first vote is applied as
    /// [`super::State::apply`] does, without hashing the voter again.
    fn count(&mut self, counted: Counted, ballot: &Ballot, now: Timestamp) {
        self.counted(counted.poll);
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
            voter: WrittenVoter::Named(voter),
        };
        self.write(now, &Record::Row(row));
    }

    /// A poll's counts.
    pub(in crate::embedded) fn tally(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<Answer<Tally>> {
        let poll = self.known(slice, poll)?;
        Ok(self.after(poll.changed_in, poll.tally(poll.changed_in)))
    }

    /// A poll's number and its counts.
    pub(in crate::embedded) fn numbered_tally(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<Answer<(PollNo, Tally)>> {
        let poll = self.known(slice, poll)?;
        let tally = poll.tally(poll.changed_in);
        Ok(self.after(poll.changed_in, (poll.number, tally)))
    }

    /// A poll's counts lane by lane.
    pub(in crate::embedded) fn lanes(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<Answer<Vec<Vec<u64>>>> {
        let poll = self.known(slice, poll)?;
        Ok(self.after(poll.changed_in, poll.lanes.by_item()))
    }

    /// A voter's row.
    pub(in crate::embedded) fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Answer<Found>> {
        let poll = self.known(slice, poll)?;
        if poll.archive.is_some() {
            return Err(Refusal::Archived.into());
        }
        let print = poll.key.print(voter.as_str());
        if poll.cold {
            let key = Key {
                poll: poll.number,
                voter: print,
            };
            return Ok(self.after(poll.changed_in, Found::Stored(key)));
        }
        let row = poll.seen(&print).map(|seen| {
            let row = seen.to_row();
            VoterRow {
                poll: poll.poll.poll_id,
                voter: VoterName::Named(voter.clone()),
                items: row.items.as_slice().to_vec(),
                version: row.version,
                requests: row.requests,
                voted_at: row.at,
            }
        });
        Ok(self.after(poll.changed_in, Found::Here(row)))
    }
}

/// What becomes of a ballot: it is counted, or this verdict.
fn judged(
    poll: &PollState,
    ballot: &Ballot,
    print: VoterPrint,
    epoch: Epoch,
    at: Timestamp,
) -> Result<Counted, Verdict> {
    let item = poll
        .item(ballot.item)
        .ok_or(Verdict::Refused(Refusal::ItemNotFound))?;
    if poll.archive.is_some() {
        return Err(Verdict::Refused(Refusal::Archived));
    }
    let seen = poll.seen(&print);
    let revision = seen.map_or(0, |seen| seen.version().revision);
    let asked = Asked {
        item,
        choice: ballot.choice,
        request: ballot.request,
        at,
        if_revision: ballot.if_revision,
    };
    match decide(poll, seen.as_ref(), &asked) {
        Decision::Change(items) => Ok(Counted {
            poll: poll.number,
            print,
            version: Version {
                epoch,
                revision: revision + 1,
            },
            items,
            at,
            requests: seen.map(|seen| seen.to_row().requests),
        }),
        Decision::Repeated { revision } => Err(Verdict::Counted { revision }),
        Decision::Already => Err(Verdict::Already { revision }),
        Decision::Refuse(refusal) => Err(Verdict::Refused(refusal)),
    }
}

fn decide(poll: &PollState, seen: Option<&Seen<'_>>, asked: &Asked) -> Decision {
    let once: [(RequestId, u32); 1];
    let row = match seen {
        None => None,
        Some(
            seen @ Seen::Slim {
                request, version, ..
            },
        ) => {
            once = [(*request, version.revision)];
            Some(judge::Row {
                items: seen.items(),
                revision: version.revision,
                requests: &once,
            })
        }
        Some(Seen::Whole(row)) => Some(judge::Row {
            items: row.items.as_slice(),
            revision: row.version.revision,
            requests: &row.requests,
        }),
    };
    judge::judge(&poll.poll, row, asked)
}
