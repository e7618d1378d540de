//! The newest rows of a slice: those that are in the log and in no run yet.
//!
//! With them an export has everything that was acknowledged before it was
//! asked for, and no checkpoint has to be made for it.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ballast_domain::PollId;

use super::export::{self, Subject};
use super::log::Reader;
use super::record::{self, PollNo, Record, Unreadable};
use super::runs::{Key, Merged, RunError, RunSet, StoredRow};
use crate::shard::{ShardError, ShardResult, SliceKey, VoterPrint, VoterRow};

/// Tails that are kept: of that many exports at the same time.
const TAILS_MAX: usize = 4;

/// Rows by where they would lie in a run.
#[derive(Default)]
pub(super) struct Tail(BTreeMap<Key, VoterRow>);

impl Tail {
    /// The rows of a slice in the groups after `after` up to `to`.
    fn read(subject: &Subject, log: &Reader, after: u64, to: u64) -> ShardResult<Self> {
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
        walked.map_err(|error| export::unread(&error))?;
        if let Some(bad) = bad {
            let what = bad.to_string();
            return Err(ShardError::Damaged { what });
        }
        if log.oldest() > after + 1 {
            // Checkpoints were made meanwhile, and the log was given up.
            return Err(ShardError::unavailable("the rows are being sorted"));
        }
        Ok(tail)
    }

    /// Adds a group's rows; later ones take the place of earlier ones.
    fn add(&mut self, subject: &Subject, payload: &[u8]) -> Result<(), Unreadable> {
        let wanted = |poll| subject.polls.get(&poll).copied();
        let (_, records) = record::read(payload)?;
        for record in records {
            let (poll, voter, row) = match record? {
                Record::Vote(vote) => {
                    let print = subject.key.print(vote.voter);
                    let row = wanted(vote.poll).and_then(|id| export::of_vote(id, &vote));
                    (vote.poll, print, row)
                }
                Record::Row(row) => {
                    let (poll, print) = (row.poll, row.voter.print(&subject.key));
                    let row = wanted(poll).and_then(|id| export::of_row(id, row));
                    (poll, print, row)
                }
                _ => continue,
            };
            if let Some(row) = row {
                self.0.insert(Key { poll, voter }, row);
            }
        }
        Ok(())
    }
}

/// The tails of the exports that were last asked for a page: the next page wants
/// the same one, and to read it may take longer than all else for a page.
#[derive(Default)]
pub(super) struct Tails(Mutex<VecDeque<Kept>>);

/// A tail, and what it was read for.
struct Kept {
    /// Not held: whoever adds a poll to the slice would have to copy all of
    /// them. When they have changed it is no longer known.
    polls: Weak<BTreeMap<PollNo, PollId>>,
    key: SliceKey,
    after: u64,
    to: u64,
    tail: Arc<Tail>,
}

impl Kept {
    fn is_for(&self, subject: &Subject, after: u64, to: u64) -> bool {
        let same = |polls| Arc::ptr_eq(&polls, &subject.polls);
        (self.key, self.after, self.to) == (subject.key, after, to)
            && self.polls.upgrade().is_some_and(same)
    }
}

impl Tails {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of a slice in the groups after `after` up to `to`.
    pub(super) fn get(
        &self,
        subject: &Subject,
        log: &Reader,
        after: u64,
        to: u64,
    ) -> ShardResult<Arc<Tail>> {
        if to <= after {
            return Ok(Arc::default());
        }
        let known = |kept: &&Kept| kept.is_for(subject, after, to);
        if let Some(kept) = self.lock().iter().find(known) {
            return Ok(kept.tail.clone());
        }
        let tail = Arc::new(Tail::read(subject, log, after, to)?);
        let mut all = self.lock();
        while all.len() >= TAILS_MAX {
            all.pop_front();
        }
        all.push_back(Kept {
            polls: Arc::downgrade(&subject.polls),
            key: subject.key,
            after,
            to,
            tail: tail.clone(),
        });
        Ok(tail)
    }

    /// None of them will be asked for again.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }
}

/// The rows of one poll in the order of their voters, each voter once: those
/// that are stored and the newest.
pub(super) struct PollRows<'a> {
    id: PollId,
    number: PollNo,
    stored: Merged<'a>,
    /// Read from `stored` and not handed out yet.
    next_stored: Option<StoredRow>,
    newest: Peekable<Range<'a, Key, VoterRow>>,
}

impl<'a> PollRows<'a> {
    /// The rows from a voter on.
    pub(super) fn from(
        id: PollId,
        key: Key,
        runs: &'a RunSet,
        tail: &'a Tail,
    ) -> Result<Self, RunError> {
        let mut stored = runs.from(key, None)?;
        let last = Key {
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

    /// The next row, and whose it is.
    pub(super) fn next(&mut self) -> Result<Option<(VoterPrint, VoterRow)>, RunError> {
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
            row = taken.map(|stored| export::of_stored(self.id, stored));
        }
        if newest == Some(key)
            && let Some((_, newer)) = self.newest.next()
            // Runs may have been replaced by newer ones than the log was read
            // for.
            && row.as_ref().is_none_or(|row| row.version <= newer.version)
        {
            row = Some(newer.clone());
        }
        Ok(row.map(|row| (key.voter, row)))
    }
}
