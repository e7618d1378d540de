//! Flushes a section of the log to a run.

use super::sorter::RowSorter;
use super::writer::RunWriter;
use super::{RowKey, RunError, row};
use crate::embedded::background::throttle::{BackgroundThrottle, ROWS_PER_BATCH};
use crate::embedded::disk::Disk;
use crate::embedded::log::{LogError, LogReader};
use crate::embedded::record::{self, PollNo, Record, RecordError};
use crate::shard::SliceKey;

/// Why a flush failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::embedded) enum FlushError {
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A record of the log.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Writes the last rows of all voters in the groups after `after` up to `to` as
/// the run `id`; returns their number. Creates no run if there are none.
pub(in crate::embedded) fn flush(
    disk: &dyn Disk,
    log: &LogReader,
    after: u64,
    to: u64,
    id: u64,
    slice_key: impl Fn(PollNo) -> Option<SliceKey>,
    throttle: &BackgroundThrottle,
) -> Result<u64, FlushError> {
    let mut task = throttle.start_task();
    let mut sorter = RowSorter::default();
    let (mut bad, mut read) = (None, 0);
    log.each_after(after, |sequence, payload| {
        if sequence > to {
            return false;
        }
        match gather_rows(&mut sorter, payload, &slice_key) {
            Ok(rows) => read += rows,
            Err(error) => bad = Some(error),
        }
        if read >= ROWS_PER_BATCH {
            read = 0;
            task.pause_if_busy();
        }
        bad.is_none()
    })?;
    if let Some(bad) = bad {
        return Err(bad.into());
    }
    if sorter.is_empty() {
        return Ok(0);
    }
    let mut writer = RunWriter::create(disk, id, task).map_err(RunError::from)?;
    sorter
        .each(|key, bytes| writer.push(key, bytes))
        .map_err(RunError::from)?;
    Ok(writer.finish(disk).map_err(RunError::from)?)
}

/// Adds a group's rows; returns the approximate work in rows, including
/// sorting.
fn gather_rows(
    sorter: &mut RowSorter,
    payload: &[u8],
    slice_key: &impl Fn(PollNo) -> Option<SliceKey>,
) -> Result<usize, RecordError> {
    let (_, records) = record::read(payload)?;
    let mut rows = 0;
    let mut add = |key: RowKey, write: &dyn Fn(&mut Vec<u8>)| {
        let sorted = sorter.add(key, write);
        rows += if sorted { ROWS_PER_BATCH } else { 1 };
    };
    for record in records {
        match record? {
            Record::Vote(vote) => {
                if let Some(slice) = slice_key(vote.poll) {
                    let (poll, voter) = (vote.poll, slice.voter_print(vote.voter));
                    let key = RowKey { poll, voter };
                    add(key, &|to| row::write_vote(to, key, &vote));
                }
            }
            Record::Row(row) => {
                if let Some(slice) = slice_key(row.poll) {
                    let (poll, voter) = (row.poll, row.voter.print(&slice));
                    let key = RowKey { poll, voter };
                    add(key, &|to| row::write_row(to, key, &row));
                }
            }
            Record::Slice(_)
            | Record::Recut(_)
            | Record::Poll(..)
            | Record::Counters(..)
            | Record::Gone(_) => {}
        }
    }
    Ok(rows)
}
