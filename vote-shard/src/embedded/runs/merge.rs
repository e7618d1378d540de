//! Walking through several runs as if they were one, and making them one.

use std::ops::RangeInclusive;

use super::reader::{Rows, Run, RunError, Skips};
use super::writer::RunWriter;
use super::{Key, RunSet, StoredRow, row};
use crate::embedded::disk::Disk;
use crate::embedded::manners::Manners;
use crate::embedded::record::PollNo;

/// Runs are merged when there are this many of like size.
const ALIKE: usize = 4;

/// The rows of several runs in order, each voter once: the newest.
pub(in crate::embedded) struct Merged<'a> {
    /// Oldest first. They are few.
    runs: Vec<Rows<'a>>,
}

impl<'a> Merged<'a> {
    pub(super) fn new(
        runs: impl Iterator<Item = &'a Run>,
        from: Key,
        skips: Skips<'a>,
    ) -> Result<Self, RunError> {
        let runs = runs.map(|run| run.from(from, skips));
        let runs = runs.collect::<Result<_, _>>()?;
        Ok(Self { runs })
    }

    /// The run that has the next row; of several, the newest.
    fn newest_first(&self) -> Option<(usize, Key)> {
        let mut best: Option<(usize, Key)> = None;
        for (place, run) in self.runs.iter().enumerate() {
            if let Some((key, _)) = run.peek()
                && best.is_none_or(|(_, best)| key <= best)
            {
                best = Some((place, key));
            }
        }
        best
    }

    /// Hands the next row's bytes to `take` and goes on.
    fn take_next<T>(
        &mut self,
        take: impl FnOnce(Key, &[u8]) -> Result<T, RunError>,
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

    /// The next row.
    pub(in crate::embedded) fn next_row(&mut self) -> Result<Option<StoredRow>, RunError> {
        self.take_next(|_, bytes| Ok(row::read(bytes)?))
    }
}

/// How many of the newest runs should become one; 0 when none should. Sizes
/// then grow by a factor from run to run, and there are few of them.
pub(in crate::embedded) fn worth_merging(rows: &[u64]) -> usize {
    let (mut newer, mut alike) = (0u64, 0);
    for rows in rows.iter().rev() {
        if alike > 0 && *rows > newer.saturating_mul(2) {
            break;
        }
        newer = newer.saturating_add(*rows);
        alike += 1;
    }
    if alike >= ALIKE { alike } else { 0 }
}

/// Polls that one block is taken to hold rows of, at the most: if there may be more,
/// nobody looks for all of them.
const POLLS_IN_A_BLOCK: usize = 10_000;

/// Merges runs into one, leaving out the rows of polls that are gone. A damaged block
/// is left out with them if it can hold no others: so what was copied anew after some
/// damage was found heals.
pub(in crate::embedded) fn merge(
    disk: &dyn Disk,
    runs: &RunSet,
    id: u64,
    is_there: impl Fn(PollNo) -> bool,
    manners: &Manners,
) -> Result<(), RunError> {
    let mut writer = RunWriter::create(disk, id, manners.polite())?;
    let all_gone = |mut polls: RangeInclusive<PollNo>| {
        let few = polls.end().abs_diff(*polls.start()) as usize <= POLLS_IN_A_BLOCK;
        few && !polls.any(&is_there)
    };
    let mut merged = runs.from(Key::first_of(0), Some(&all_gone))?;
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
