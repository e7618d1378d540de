//! Pages of a slice's data: polls, then stored rows, then changes.
//!
//! Rows are read poll by poll, from runs and, those that are in no run yet,
//! from the log up to the position at which the export began ([`Tail`]); the
//! changes after that position from the log. Rows read in between may be newer
//! than the position: whoever takes them keeps the higher version, so that does
//! no harm.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::PollId;
use ballast_domain::VoterId;

use super::log::LogError;
use super::manners::{Polite, ROWS_AT_ONCE};
use super::record::{self, PollNo, Record, RowRecord, VoteRecord, WrittenVoter};
use super::runs::{Key, Merged, RunSet, StoredRow};
use super::store::Store;
use super::tail::PollRows;
use crate::shard::{
    Change, Cursor, Digest, Page, PollRow, ShardError, ShardResult, SliceKey, Version, VoterName,
    VoterPrint, VoterRow,
};

/// What memory knows of the slice that is exported.
pub(super) struct Subject {
    pub(super) key: SliceKey,
    /// Its polls, in the order of their numbers.
    pub(super) polls: Arc<BTreeMap<PollNo, PollId>>,
}

/// Polls of a slice in the order of their ids, from some poll on.
pub(super) struct SomePolls {
    pub(super) polls: Vec<(PollNo, PollRow)>,
    /// Whether the last of them is the last there is.
    pub(super) are_all: bool,
}

/// Roughly what a row takes on a page.
const ROW_BYTES: usize = 96;
/// Polls that are looked at for a page: many of them may have no rows.
pub(super) const POLLS_MAX: usize = 4_096;
/// After all voters.
const LAST: VoterPrint = VoterPrint([u64::MAX; 2]);

/// Roughly what a poll takes on a page.
fn poll_bytes(row: &PollRow) -> usize {
    let items = row.poll.spec.items.iter();
    let items = items.map(|item| 40 + item.item_name.len());
    200 + items.sum::<usize>()
}

/// The next page of rows, of an export that began at `position`, of these
/// polls.
pub(super) fn rows(
    subject: &Subject,
    polls: &SomePolls,
    store: &Store,
    position: u64,
    after: Option<(PollId, VoterPrint)>,
    bytes: usize,
    mut polite: Polite<'_>,
) -> ShardResult<Page> {
    let (mut changes, mut weight) = (Vec::new(), 0);
    let page = |changes, after| Page {
        changes,
        next: Cursor::Snapshot { position, after },
        caught_up: false,
    };
    // Polls in the order of their ids: that is what the cursor says.
    // In this order: what is not in these runs is in the tail.
    let flushed = store.flushed();
    let tail = store.tails.get(subject, &store.log, flushed, position)?;
    let runs = store.runs();
    for (number, own) in &polls.polls {
        let poll = own.poll.poll_id;
        let resumed = after.filter(|(last, _)| *last == poll);
        let from = Key {
            poll: *number,
            voter: resumed.map_or(VoterPrint([0, 0]), |(_, voter)| voter),
        };
        // What is still in runs is there until they are merged.
        let is_here = own.archived.is_none();
        let mut first_row = resumed.is_none();
        let mut rows = PollRows::from(poll, from, &runs, &tail).map_err(unreadable)?;
        while is_here && let Some((voter, row)) = rows.next().map_err(unreadable)? {
            if resumed.is_some_and(|(_, last)| voter == last) {
                continue;
            }
            // A poll may have come into being since the export began, so it
            // is told once more before its first row.
            if first_row {
                weight += poll_bytes(own);
                changes.push(Change::Poll(own.clone()));
            }
            first_row = false;
            weight += ROW_BYTES;
            changes.push(Change::Voter(row));
            if changes.len().is_multiple_of(ROWS_AT_ONCE) {
                polite.rest();
            }
            if weight >= bytes {
                return Ok(page(changes, Some((poll, voter))));
            }
        }
    }
    match polls.polls.last() {
        Some((_, last)) if !polls.are_all => Ok(page(changes, Some((last.poll.poll_id, LAST)))),
        _ => Ok(Page {
            changes,
            next: Cursor::Changes { position },
            caught_up: false,
        }),
    }
}

/// The next page of changes, up to where the log was before the subject was
/// looked at: a poll that was made since is none of the subject's yet, and would
/// be passed over.
pub(super) fn changes(
    subject: &Subject,
    store: &Store,
    position: u64,
    until: u64,
    bytes: usize,
) -> ShardResult<Page> {
    let log = &store.log;
    if position + 1 < log.oldest() {
        return Err(ShardError::CursorTooOld);
    }
    let (mut changes, mut read, mut last) = (Vec::new(), 0, position);
    let mut bad = None;
    let walked = log.each_after(position, |sequence, payload| {
        if sequence > until {
            return false;
        }
        read += payload.len();
        last = sequence;
        bad = changes_in(subject, payload, &mut changes).err();
        bad.is_none() && read < bytes
    });
    if let Some(bad) = bad {
        let what = bad.to_string();
        return Err(ShardError::Damaged { what });
    }
    if let Err(error) = walked {
        // A segment may have been given up meanwhile.
        return match position + 1 < log.oldest() {
            true => Err(ShardError::CursorTooOld),
            false => Err(unread(&error)),
        };
    }
    Ok(Page {
        changes,
        next: Cursor::Changes { position: last },
        caught_up: last >= until,
    })
}

fn changes_in(
    subject: &Subject,
    payload: &[u8],
    changes: &mut Vec<Change>,
) -> Result<(), record::Unreadable> {
    let (_, records) = record::read(payload)?;
    for record in records {
        let change = match record? {
            Record::Poll(number, poll) if subject.polls.contains_key(&number) => {
                Some(Change::Poll(poll.row))
            }
            Record::Vote(vote) => subject
                .polls
                .get(&vote.poll)
                .and_then(|id| of_vote(*id, &vote))
                .map(Change::Voter),
            Record::Row(row) => {
                let id = subject.polls.get(&row.poll);
                id.and_then(|id| of_row(*id, row)).map(Change::Voter)
            }
            _ => None,
        };
        changes.extend(change);
    }
    Ok(())
}

/// The next of a poll's rows that can be read.
fn next_of(stored: &mut Merged<'_>, poll: PollNo) -> ShardResult<Option<StoredRow>> {
    match stored.next_row() {
        Ok(row) => Ok(row.filter(|row| row.key.poll == poll)),
        // Its poll lacks it, and those behind it.
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}

/// The digests of a slice's polls, computed from the rows that are stored. What
/// cannot be read because it is damaged is not among them, so that the digests of
/// its polls, and of no others, are not what they should be.
pub(super) fn scrub(
    subject: &Subject,
    runs: &RunSet,
    polls: &[PollRow],
    mut polite: Polite<'_>,
) -> ShardResult<Vec<(PollId, Digest)>> {
    let mut read = 0usize;
    let rows: BTreeMap<PollId, &PollRow> =
        polls.iter().map(|row| (row.poll.poll_id, row)).collect();
    let mut digests = Vec::new();
    for (number, poll) in subject.polls.iter() {
        let mut digest = Digest::default();
        let own = rows.get(poll);
        let archived = own.is_some_and(|own| own.archived.is_some());
        let first = Key::first_of(*number);
        let mut stored = runs.from(first, Some(&|_| true)).map_err(unreadable)?;
        while !archived && let Some(row) = next_of(&mut stored, *number)? {
            read += 1;
            if read.is_multiple_of(ROWS_AT_ONCE) {
                polite.rest();
            }
            // The print is taken from the name anew: a name that rotted shows.
            let voter = match &row.voter {
                VoterName::Named(name) => subject.key.print(name.as_str()),
                VoterName::Erased(print) => *print,
            };
            let items = row.row.items.as_slice();
            digest.add(subject.key.row(*poll, voter, items, row.row.version));
        }
        if let Some(row) = own {
            digest.add(subject.key.poll(row));
        }
        digests.push((*poll, digest));
    }
    digests.sort_unstable_by_key(|(poll, _)| *poll);
    Ok(digests)
}

pub(super) fn unreadable(error: super::runs::RunError) -> ShardError {
    tracing::error!(%error, "stored rows cannot be read");
    let told = format!("stored rows cannot be read: {error}");
    match error.is_damage() {
        true => ShardError::Damaged { what: told },
        false => ShardError::unavailable(told),
    }
}

/// What the log, which cannot be read, is told as.
pub(super) fn unread(error: &LogError) -> ShardError {
    let told = error.to_string();
    match error.is_damage() {
        true => ShardError::Damaged { what: told },
        false => ShardError::unavailable(told),
    }
}

/// A stored row as it is handed out.
pub(super) fn of_stored(poll: PollId, stored: StoredRow) -> VoterRow {
    VoterRow {
        poll,
        voter: stored.voter,
        items: stored.row.items.as_slice().to_vec(),
        version: stored.row.version,
        requests: stored.row.requests,
        voted_at: stored.row.at,
    }
}

/// A first vote as it is handed out.
pub(super) fn of_vote(poll: PollId, vote: &VoteRecord<'_>) -> Option<VoterRow> {
    // A name in the log was checked when it arrived.
    let voter = VoterId::new(vote.voter).ok()?;
    Some(VoterRow {
        poll,
        voter: VoterName::Named(voter),
        items: vec![vote.item],
        version: Version {
            epoch: vote.epoch,
            revision: 1,
        },
        requests: vec![(vote.request, 1)],
        voted_at: vote.at,
    })
}

/// A row of the log as it is handed out.
pub(super) fn of_row(poll: PollId, row: RowRecord<'_>) -> Option<VoterRow> {
    let voter = match row.voter {
        WrittenVoter::Named(name) => VoterName::Named(VoterId::new(name).ok()?),
        WrittenVoter::Erased(print) => VoterName::Erased(print),
    };
    Some(VoterRow {
        poll,
        voter,
        items: row.items,
        version: row.version,
        requests: row.requests,
        voted_at: row.at,
    })
}
