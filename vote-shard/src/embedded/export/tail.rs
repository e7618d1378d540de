//! The newest rows of a slice, which are in the log and in no run yet.
//!
//! They complete an export up to the moment when it was requested, without a
//! checkpoint.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ballast_domain::PollId;

use crate::embedded::export::{self, ExportedSlice};
use crate::embedded::log::LogReader;
use crate::embedded::record::{self, PollNo, Record, RecordError};
use crate::embedded::runs::{MergedRows, RowKey, RunError, RunSet, StoredRow};
use crate::shard::{ShardError, ShardResult, SliceKey, VoterPrint, VoterRow};

/// Cached tails: one per concurrent export.
const TAILS_MAX: usize = 4;

/// Rows by key, in the order of a run.
#[derive(Default)]
pub(in crate::embedded) struct LogTail(BTreeMap<RowKey, VoterRow>);

impl LogTail {
    /// Reads a slice's rows in the groups after `after` up to `to`.
    fn read(subject: &ExportedSlice, log: &LogReader, after: u64, to: u64) -> ShardResult<Self> {
        let mut tail = Self::default();
        if to <= after {
            return Ok(tail);
        }
        let mut bad = None;
        let walked = log.each_after(after, |sequence, payload| {
            if sequence > to {
                return false;
            }
            bad = tail.add(subject, payload).err();
            bad.is_none()
        });
        walked.map_err(|error| export::from_log_error(&error))?;
        if let Some(bad) = bad {
            let what = bad.to_string();
            return Err(ShardError::Damaged { what });
        }
        if log.oldest() > after + 1 {
            // Checkpoints have removed this part of the log meanwhile.
            return Err(ShardError::unavailable(
                "the rows are being compacted; retry",
            ));
        }
        Ok(tail)
    }

    /// Adds a group's rows; later rows replace earlier ones.
    fn add(&mut self, subject: &ExportedSlice, payload: &[u8]) -> Result<(), RecordError> {
        let wanted = |poll| subject.polls.get(&poll).copied();
        let (_, records) = record::read(payload)?;
        for record in records {
            let (poll, voter, row) = match record? {
                Record::Vote(vote) => {
                    let print = subject.key.voter_print(vote.voter);
                    let row = wanted(vote.poll).and_then(|id| export::row_from_vote(id, &vote));
                    (vote.poll, print, row)
                }
                Record::Row(row) => {
                    let (poll, print) = (row.poll, row.voter.print(&subject.key));
                    let row = wanted(poll).and_then(|id| export::row_from_record(id, row));
                    (poll, print, row)
                }
                _ => continue,
            };
            if let Some(row) = row {
                self.0.insert(RowKey { poll, voter }, row);
            }
        }
        Ok(())
    }
}

/// Cache of the tails of recent exports: an export's next page needs the same
/// tail, and reading it may take longer than the rest of the page.
#[derive(Default)]
pub(in crate::embedded) struct TailCache(Mutex<VecDeque<CachedTail>>);

/// A tail, and what it was read for.
struct CachedTail {
    /// Weak: a strong reference would make every new poll of the slice copy the
    /// map. After a change of the map the cached tail no longer matches.
    polls: Weak<BTreeMap<PollNo, PollId>>,
    key: SliceKey,
    after: u64,
    to: u64,
    tail: Arc<LogTail>,
}

impl CachedTail {
    fn is_for(&self, subject: &ExportedSlice, after: u64, to: u64) -> bool {
        let same = |polls| Arc::ptr_eq(&polls, &subject.polls);
        (self.key, self.after, self.to) == (subject.key, after, to)
            && self.polls.upgrade().is_some_and(same)
    }
}

impl TailCache {
    fn lock(&self) -> MutexGuard<'_, VecDeque<CachedTail>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a slice's rows in the groups after `after` up to `to`.
    pub(in crate::embedded) fn get(
        &self,
        subject: &ExportedSlice,
        log: &LogReader,
        after: u64,
        to: u64,
    ) -> ShardResult<Arc<LogTail>> {
        if to <= after {
            return Ok(Arc::default());
        }
        let known = |cached: &&CachedTail| cached.is_for(subject, after, to);
        if let Some(cached) = self.lock().iter().find(known) {
            return Ok(cached.tail.clone());
        }
        let tail = Arc::new(LogTail::read(subject, log, after, to)?);
        let mut all = self.lock();
        while all.len() >= TAILS_MAX {
            all.pop_front();
        }
        all.push_back(CachedTail {
            polls: Arc::downgrade(&subject.polls),
            key: subject.key,
            after,
            to,
            tail: tail.clone(),
        });
        Ok(tail)
    }

    /// Drops all tails: they will not be requested again.
    pub(in crate::embedded) fn clear(&self) {
        self.lock().clear();
    }
}

/// The rows of one poll by voter, each voter once: stored rows merged with the
/// newest.
pub(in crate::embedded) struct PollRows<'a> {
    id: PollId,
    number: PollNo,
    stored: MergedRows<'a>,
    /// Read from `stored` and not returned yet.
    next_stored: Option<StoredRow>,
    newest: Peekable<Range<'a, RowKey, VoterRow>>,
}

impl<'a> PollRows<'a> {
    /// Starts at a voter.
    pub(in crate::embedded) fn from(
        id: PollId,
        key: RowKey,
        runs: &'a RunSet,
        tail: &'a LogTail,
    ) -> Result<Self, RunError> {
        let mut stored = runs.from(key, None)?;
        let last = RowKey {
            poll: key.poll,
            voter: VoterPrint([u64::MAX; 2]),
        };
        Ok(Self {
            id,
            number: key.poll,
            next_stored: stored.next_row()?,
            stored,
            newest: tail.0.range(key..=last).peekable(),
        })
    }

    /// Returns the next row and its voter.
    pub(in crate::embedded) fn next(&mut self) -> Result<Option<(VoterPrint, VoterRow)>, RunError> {
        let stored = self.next_stored.as_ref().map(|row| row.key);
        let stored = stored.filter(|key| key.poll == self.number);
        let newest = self.newest.peek().map(|(key, _)| **key);
        let Some(key) = stored.into_iter().chain(newest).min() else {
            return Ok(None);
        };
        let mut row = None;
        if stored == Some(key) {
            let read = self.stored.next_row()?;
            let taken = std::mem::replace(&mut self.next_stored, read);
            row = taken.map(|stored| export::row_from_stored(self.id, stored));
        }
        if newest == Some(key)
            && let Some((_, newer)) = self.newest.next()
            // The runs may be newer than the tail.
            && row.as_ref().is_none_or(|row| row.version <= newer.version)
        {
            row = Some(newer.clone());
        }
        Ok(row.map(|row| (key.voter, row)))
    }
}
