//! Runs: sorted files of voters' rows. They contain the rows of the log, by
//! poll and voter, so that a poll's rows can be read without the others.
//!
//! ```text
//!   log ──► flush: the last row of each voter, sorted ──► run
//!   similar runs ──► merge: newer rows win, rows of purged polls are dropped ──► run
//! ```
//! A run never changes. The rows of closed polls are only here; those of open
//! polls are also in memory.

mod flush;
mod format;
mod merge;
mod reader;
mod row;
mod sorter;
mod writer;

use std::sync::Arc;

use super::record::PollNo;
use crate::shard::VoterPrint;

pub(super) use flush::{FlushError, flush};
pub(super) use format::{DRAFT_SUFFIX, file_name, id_in};
pub(super) use merge::{MergedRows, count_mergeable, merge};
pub(super) use reader::{Run, RunError, SkipDamaged};
pub(super) use row::StoredRow;

/// A row's sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) poll: PollNo,
    pub(super) voter: VoterPrint,
}

impl RowKey {
    /// Sorts before all rows of a poll.
    pub(super) fn start_of_poll(poll: PollNo) -> Self {
        Self {
            poll,
            voter: VoterPrint([0, 0]),
        }
    }
}

/// All runs, oldest first. Of a voter's rows the one in the newest run is
/// valid.
#[derive(Clone, Default)]
pub(super) struct RunSet(pub(super) Vec<Arc<Run>>);

impl RunSet {
    /// Reads a voter's row.
    pub(super) fn get(&self, key: RowKey) -> Result<Option<StoredRow>, RunError> {
        for run in self.0.iter().rev() {
            if let Some(row) = run.get(key)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Returns the rows from a key on, in order, each voter once.
    pub(super) fn from<'a>(
        &'a self,
        key: RowKey,
        skips: SkipDamaged<'a>,
    ) -> Result<MergedRows<'a>, RunError> {
        MergedRows::new(self.0.iter().map(|run| &**run), key, skips)
    }
}

#[cfg(test)]
mod tests;
