//! Exports a slice page by page: polls, then stored rows, then changes.
//!
//! Rows are read poll by poll: from the runs, and those that are in no run yet
//! from the log up to the position where the export started
//! ([`LogTail`](tail::LogTail)). Changes after that position come from the log.
//! A row may be newer than the position; the importer keeps the higher version,
//! so this is harmless.

pub(in crate::embedded) mod tail;

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::PollId;
use ballast_domain::VoterId;

use crate::embedded::background::throttle::{ROWS_PER_BATCH, ThrottledTask};
use crate::embedded::engine::store::ShardStore;
use crate::embedded::export::tail::PollRows;
use crate::embedded::log::LogError;
use crate::embedded::record::{self, PollNo, Record, RecordVoter, RowRecord, VoteRecord};
use crate::embedded::runs::{MergedRows, RowKey, RunSet, StoredRow};
use crate::shard::{
    Cursor, Digest, ExportPage, ExportedRow, PollRow, RowVersion, ShardError, ShardResult,
    SliceKey, VoterName, VoterPrint, VoterRow,
};

/// What memory knows of the exported slice.
pub(in crate::embedded) struct ExportedSlice {
    pub(in crate::embedded) key: SliceKey,
    /// Its polls, by number.
    pub(in crate::embedded) polls: Arc<BTreeMap<PollNo, PollId>>,
}

/// A batch of a slice's polls, by id.
pub(in crate::embedded) struct PollBatch {
    pub(in crate::embedded) polls: Vec<(PollNo, PollRow)>,
    /// Whether the batch includes the slice's last poll.
    pub(in crate::embedded) are_all: bool,
}

/// Approximate size of a row on a page.
const ROW_BYTES: usize = 96;
/// Polls per page at most: many of them may have no rows.
pub(in crate::embedded) const POLLS_MAX: usize = 4_096;
/// Sorts after all voters.
const LAST: VoterPrint = VoterPrint([u64::MAX; 2]);

/// Approximate size of a poll on a page.
fn poll_bytes(row: &PollRow) -> usize {
    let items = row.poll.spec.items.iter();
    let items = items.map(|item| 40 + item.item_name.len());
    200 + items.sum::<usize>()
}

/// Returns the next page of rows of these polls, for an export that started at
/// `position`.
pub(in crate::embedded) fn rows_page(
    subject: &ExportedSlice,
    polls: &PollBatch,
    store: &ShardStore,
    position: u64,
    after: Option<(PollId, VoterPrint)>,
    bytes: usize,
    mut task: ThrottledTask<'_>,
) -> ShardResult<ExportPage> {
    let (mut changes, mut weight) = (Vec::new(), 0);
    let page = |changes, after| ExportPage {
        changes,
        next: Cursor::Snapshot { position, after },
        caught_up: false,
    };
    // Read the position before the runs: then rows that are missing from these
    // runs are in the tail. The polls come by id, which is what the cursor
    // holds.
    let flushed = store.flushed();
    let tail = store.tails.get(subject, &store.log, flushed, position)?;
    let runs = store.runs();
    for (number, own) in &polls.polls {
        let poll = own.poll.poll_id;
        let resumed = after.filter(|(last, _)| *last == poll);
        let from = RowKey {
            poll: *number,
            voter: resumed.map_or(VoterPrint([0, 0]), |(_, voter)| voter),
        };
        // An archived poll's rows stay in the runs until the next merge.
        let is_here = own.archived.is_none();
        let mut first_row = resumed.is_none();
        let mut rows = PollRows::from(poll, from, &runs, &tail).map_err(from_run_error)?;
        while is_here && let Some((voter, row)) = rows.next().map_err(from_run_error)? {
            if resumed.is_some_and(|(_, last)| voter == last) {
                continue;
            }
            // A poll may be newer than the start of the export: repeat it
            // before its first row.
            if first_row {
                weight += poll_bytes(own);
                changes.push(ExportedRow::Poll(own.clone()));
            }
            first_row = false;
            weight += ROW_BYTES;
            changes.push(ExportedRow::Voter(row));
            if changes.len().is_multiple_of(ROWS_PER_BATCH) {
                task.pause_if_busy();
            }
            if weight >= bytes {
                return Ok(page(changes, Some((poll, voter))));
            }
        }
    }
    match polls.polls.last() {
        Some((_, last)) if !polls.are_all => Ok(page(changes, Some((last.poll.poll_id, LAST)))),
        _ => Ok(ExportPage {
            changes,
            next: Cursor::Changes { position },
            caught_up: false,
        }),
    }
}

/// Returns the next page of changes, up to the log position `until` that was
/// read before the subject. A poll that is newer is not in the subject yet and
/// would be skipped.
pub(in crate::embedded) fn changes_page(
    subject: &ExportedSlice,
    store: &ShardStore,
    position: u64,
    until: u64,
    bytes: usize,
) -> ShardResult<ExportPage> {
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
        // The segment may have been removed meanwhile.
        return match position + 1 < log.oldest() {
            true => Err(ShardError::CursorTooOld),
            false => Err(from_log_error(&error)),
        };
    }
    Ok(ExportPage {
        changes,
        next: Cursor::Changes { position: last },
        caught_up: last >= until,
    })
}

fn changes_in(
    subject: &ExportedSlice,
    payload: &[u8],
    changes: &mut Vec<ExportedRow>,
) -> Result<(), record::RecordError> {
    let (_, records) = record::read(payload)?;
    for record in records {
        let change = match record? {
            Record::Poll(number, poll) if subject.polls.contains_key(&number) => {
                Some(ExportedRow::Poll(poll.row))
            }
            Record::Vote(vote) => subject
                .polls
                .get(&vote.poll)
                .and_then(|id| row_from_vote(*id, &vote))
                .map(ExportedRow::Voter),
            Record::Row(row) => {
                let id = subject.polls.get(&row.poll);
                id.and_then(|id| row_from_record(*id, row))
                    .map(ExportedRow::Voter)
            }
            _ => None,
        };
        changes.extend(change);
    }
    Ok(())
}

/// Returns a poll's next readable row.
fn next_row_of_poll(stored: &mut MergedRows<'_>, poll: PollNo) -> ShardResult<Option<StoredRow>> {
    match stored.next_row() {
        Ok(row) => Ok(row.filter(|row| row.key.poll == poll)),
        // A damaged row ends its poll: the digest then lacks it and the rows
        // behind it.
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(from_run_error(error)),
    }
}

/// Computes the digests of a slice's polls from the stored rows. Skips damaged
/// rows, so that exactly the digests of their polls are wrong.
pub(in crate::embedded) fn scrub(
    subject: &ExportedSlice,
    runs: &RunSet,
    polls: &[PollRow],
    mut task: ThrottledTask<'_>,
) -> ShardResult<Vec<(PollId, Digest)>> {
    let mut read = 0usize;
    let rows: BTreeMap<PollId, &PollRow> =
        polls.iter().map(|row| (row.poll.poll_id, row)).collect();
    let mut digests = Vec::new();
    for (number, poll) in subject.polls.iter() {
        let mut digest = Digest::default();
        let own = rows.get(poll);
        let archived = own.is_some_and(|own| own.archived.is_some());
        let first = RowKey::start_of_poll(*number);
        let mut stored = runs.from(first, Some(&|_| true)).map_err(from_run_error)?;
        while !archived && let Some(row) = next_row_of_poll(&mut stored, *number)? {
            read += 1;
            if read.is_multiple_of(ROWS_PER_BATCH) {
                task.pause_if_busy();
            }
            // Recompute the fingerprint: this detects a damaged name.
            let voter = match &row.voter {
                VoterName::Named(name) => subject.key.voter_print(name.as_str()),
                VoterName::Erased(print) => *print,
            };
            let items = row.row.items.as_slice();
            digest.add(subject.key.hash_row(*poll, voter, items, row.row.version));
        }
        if let Some(row) = own {
            digest.add(subject.key.hash_poll(row));
        }
        digests.push((*poll, digest));
    }
    digests.sort_unstable_by_key(|(poll, _)| *poll);
    Ok(digests)
}

pub(in crate::embedded) fn from_run_error(error: crate::embedded::runs::RunError) -> ShardError {
    tracing::error!(%error, "failed to read stored rows");
    let what = format!("cannot read stored rows: {error}");
    match error.is_damage() {
        true => ShardError::Damaged { what },
        false => ShardError::unavailable(what),
    }
}

/// Converts an error of the log.
pub(in crate::embedded) fn from_log_error(error: &LogError) -> ShardError {
    let what = error.to_string();
    match error.is_damage() {
        true => ShardError::Damaged { what },
        false => ShardError::unavailable(what),
    }
}

/// Converts a stored row.
pub(in crate::embedded) fn row_from_stored(poll: PollId, stored: StoredRow) -> VoterRow {
    VoterRow {
        poll,
        voter: stored.voter,
        items: stored.row.items.as_slice().to_vec(),
        version: stored.row.version,
        requests: stored.row.requests,
        voted_at: stored.row.at,
    }
}

/// Converts a first vote.
pub(in crate::embedded) fn row_from_vote(poll: PollId, vote: &VoteRecord<'_>) -> Option<VoterRow> {
    // Names were checked before they were logged.
    let voter = VoterId::new(vote.voter).ok()?;
    Some(VoterRow {
        poll,
        voter: VoterName::Named(voter),
        items: vec![vote.item],
        version: RowVersion {
            epoch: vote.epoch,
            revision: 1,
        },
        requests: vec![(vote.request, 1)],
        voted_at: vote.at,
    })
}

/// Converts a row of the log.
pub(in crate::embedded) fn row_from_record(poll: PollId, row: RowRecord<'_>) -> Option<VoterRow> {
    let voter = match row.voter {
        RecordVoter::Named(name) => VoterName::Named(VoterId::new(name).ok()?),
        RecordVoter::Erased(print) => VoterName::Erased(print),
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
