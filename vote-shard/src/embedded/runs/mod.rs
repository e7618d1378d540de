//! Sorted files of voters' rows: what the log says, in the order of polls and
//! voters, so that a poll's rows can be read without the rest.
//!
//! ```text
//!   log ──► flush: the last row of each voter, sorted ──► run
//!   runs of like size ──► merge: newer rows win, rows of gone polls are left
//!                         out ──► one run
//! ```
//! A run never changes. The rows of closed polls are only here; those of open
//! polls are in memory too.

mod flush;
mod format;
mod gathered;
mod merge;
mod reader;
mod row;
mod writer;

use std::sync::Arc;

use super::record::PollNo;
use crate::shard::VoterPrint;

pub(super) use flush::{FlushError, flush};
pub(super) use format::{DRAFT_SUFFIX, id_in, name_of};
pub(super) use merge::{Merged, merge, worth_merging};
pub(super) use reader::{Run, RunError, Skips};
pub(super) use row::StoredRow;

/// Where a row lies among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) poll: PollNo,
    pub(super) voter: VoterPrint,
}

impl Key {
    /// Before all rows of a poll.
    pub(super) fn first_of(poll: PollNo) -> Self {
        Self {
            poll,
            voter: VoterPrint([0, 0]),
        }
    }
}

/// All runs, oldest first. Of two rows of a voter the one in the newer run
/// counts.
#[derive(Clone, Default)]
pub(super) struct RunSet(pub(super) Vec<Arc<Run>>);

impl RunSet {
    /// A voter's row.
    pub(super) fn get(&self, key: Key) -> Result<Option<StoredRow>, RunError> {
        for run in self.0.iter().rev() {
            if let Some(row) = run.get(key)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The rows from a key on, in order, each voter once.
    pub(super) fn from<'a>(&'a self, key: Key, skips: Skips<'a>) -> Result<Merged<'a>, RunError> {
        Merged::new(self.0.iter().map(|run| &**run), key, skips)
    }
}

#[cfg(test)]
mod tests;
