//! Turning a stretch of the log into a run.

use super::gathered::Gathered;
use super::writer::RunWriter;
use super::{Key, RunError, row};
use crate::embedded::disk::Disk;
use crate::embedded::log::{LogError, Reader};
use crate::embedded::manners::{Manners, ROWS_AT_ONCE};
use crate::embedded::record::{self, PollNo, Record, Unreadable};
use crate::shard::SliceKey;

/// Why a stretch of the log could not be turned into a run.
#[derive(Debug, thiserror::Error)]
pub(in crate::embedded) enum FlushError {
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A record of it.
    #[error(transparent)]
    Record(#[from] Unreadable),
    /// The run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Writes the last rows of all voters in the groups after `after` up to `to`
/// as the run `id`; says how many there are. No run is made for none.
pub(in crate::embedded) fn flush(
    disk: &dyn Disk,
    log: &Reader,
    after: u64,
    to: u64,
    id: u64,
    key_of: impl Fn(PollNo) -> Option<SliceKey>,
    manners: &Manners,
) -> Result<u64, FlushError> {
    let mut polite = manners.polite();
    let mut gathered = Gathered::default();
    let (mut bad, mut read) = (None, 0);
    log.each_after(after, |sequence, payload| {
        if sequence > to {
            return false;
        }
        match gather(&mut gathered, payload, &key_of) {
            Ok(rows) => read += rows,
            Err(error) => bad = Some(error),
        }
        if read >= ROWS_AT_ONCE {
            read = 0;
            polite.rest();
        }
        bad.is_none()
    })?;
    if let Some(bad) = bad {
        return Err(bad.into());
    }
    if gathered.is_empty() {
        return Ok(0);
    }
    let mut writer = RunWriter::create(disk, id, polite).map_err(RunError::from)?;
    gathered
        .each(|key, bytes| writer.push(key, bytes))
        .map_err(RunError::from)?;
    Ok(writer.finish(disk).map_err(RunError::from)?)
}

/// Adds a group's rows; about how many that were, with those that were sorted
/// for it.
fn gather(
    gathered: &mut Gathered,
    payload: &[u8],
    key_of: &impl Fn(PollNo) -> Option<SliceKey>,
) -> Result<usize, Unreadable> {
    let (_, records) = record::read(payload)?;
    let mut rows = 0;
    let mut add = |key: Key, write: &dyn Fn(&mut Vec<u8>)| {
        let sorted = gathered.add(key, write);
        rows += if sorted { ROWS_AT_ONCE } else { 1 };
    };
    for record in records {
        match record? {
            Record::Vote(vote) => {
                if let Some(slice) = key_of(vote.poll) {
                    let (poll, voter) = (vote.poll, slice.print(vote.voter));
                    let key = Key { poll, voter };
                    add(key, &|to| row::write_vote(to, key, &vote));
                }
            }
            Record::Row(row) => {
                if let Some(slice) = key_of(row.poll) {
                    let (poll, voter) = (row.poll, row.voter.print(&slice));
                    let key = Key { poll, voter };
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
