//! Reads several runs as one, and merges runs.

use std::ops::RangeInclusive;

use super::reader::{Run, RunCursor, RunError, SkipDamaged};
use super::writer::RunWriter;
use super::{RowKey, RunSet, StoredRow, row};
use crate::embedded::background::throttle::BackgroundThrottle;
use crate::embedded::disk::Disk;
use crate::embedded::record::PollNo;

/// Number of similar runs that triggers a merge.
const MERGE_COUNT: usize = 4;

/// The rows of several runs by key, each voter once: the newest.
pub(in crate::embedded) struct MergedRows<'a> {
    /// Oldest first. There are few runs.
    runs: Vec<RunCursor<'a>>,
}

impl<'a> MergedRows<'a> {
    pub(super) fn new(
        runs: impl Iterator<Item = &'a Run>,
        from: RowKey,
        skips: SkipDamaged<'a>,
    ) -> Result<Self, RunError> {
        let runs = runs.map(|run| run.from(from, skips));
        let runs = runs.collect::<Result<_, _>>()?;
        Ok(Self { runs })
    }

    /// The run with the next row; if several have it, the newest.
    fn newest_first(&self) -> Option<(usize, RowKey)> {
        let mut best: Option<(usize, RowKey)> = None;
        for (index, run) in self.runs.iter().enumerate() {
            if let Some((key, _)) = run.peek()
                && best.is_none_or(|(_, best)| key <= best)
            {
                best = Some((index, key));
            }
        }
        best
    }

    /// Passes the next row's bytes to `take` and advances.
    fn take_next<T>(
        &mut self,
        take: impl FnOnce(RowKey, &[u8]) -> Result<T, RunError>,
    ) -> Result<Option<T>, RunError> {
        let Some((newest, key)) = self.newest_first() else {
            return Ok(None);
        };
        let taken = match self.runs[newest].peek() {
            Some((_, bytes)) => take(key, bytes)?,
            None => return Ok(None),
        };
        for run in &mut self.runs {
            if run.peek().is_some_and(|(other, _)| other == key) {
                run.advance()?;
            }
        }
        Ok(Some(taken))
    }

    /// Returns the next row.
    pub(in crate::embedded) fn next_row(&mut self) -> Result<Option<StoredRow>, RunError> {
        self.take_next(|_, bytes| Ok(row::read(bytes)?))
    }
}

/// How many of the newest runs to merge; 0 for none. Run sizes then grow
/// geometrically, so there are few runs.
pub(in crate::embedded) fn count_mergeable(rows: &[u64]) -> usize {
    let (mut newer, mut count) = (0u64, 0);
    for rows in rows.iter().rev() {
        if count > 0 && *rows > newer.saturating_mul(2) {
            break;
        }
        newer = newer.saturating_add(*rows);
        count += 1;
    }
    if count >= MERGE_COUNT { count } else { 0 }
}

/// Maximum range of polls to check for a damaged block; a larger range counts
/// as live.
const POLLS_PER_BLOCK_MAX: usize = 10_000;

/// Merges runs into one, dropping the rows of purged polls. Also drops a
/// damaged block that covers no live polls: so a poll that was copied again
/// after damage is whole.
pub(in crate::embedded) fn merge(
    disk: &dyn Disk,
    runs: &RunSet,
    id: u64,
    is_there: impl Fn(PollNo) -> bool,
    throttle: &BackgroundThrottle,
) -> Result<(), RunError> {
    let mut writer = RunWriter::create(disk, id, throttle.start_task())?;
    let all_gone = |mut polls: RangeInclusive<PollNo>| {
        let few = polls.end().abs_diff(*polls.start()) as usize <= POLLS_PER_BLOCK_MAX;
        few && !polls.any(&is_there)
    };
    let mut merged = runs.from(RowKey::start_of_poll(0), Some(&all_gone))?;
    while merged
        .take_next(|key, bytes| {
            if is_there(key.poll) {
                writer.push(key, bytes)?;
            }
            Ok(())
        })?
        .is_some()
    {}
    writer.finish(disk)?;
    Ok(())
}
