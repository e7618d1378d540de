//! Makes checkpoints, merges runs and removes what is no longer needed, on a
//! thread of its own. Votes never wait for it.
//!
//! ```text
//!   the log has grown, or someone asks ──► memory copied at a group's end
//!   ──► rows since the last time: a run ──► runs of like size: one run
//!   ──► checkpoint, read back ──► older files removed, closed polls' rows
//!       dropped from memory
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::checkpoint::{self, Captured};
use super::committer::causes;
use super::disk::Disk;
use super::keeping::NotKept;
use super::manners::ROWS_AT_ONCE;
use super::open::Options;
use super::runs::{self, Run, RunSet};
use super::shared::Shared;
use super::store::Store;

/// How often it looks whether there is something to do.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// A shard that is closed makes a checkpoint when its log has grown by this.
const CLOSING_BYTES: u64 = 1 << 20;

/// Why a checkpoint could not be made. Nothing is lost by it: the log holds
/// everything.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    /// Rows could not be sorted out of the log.
    #[error(transparent)]
    Flush(#[from] runs::FlushError),
    /// A run.
    #[error(transparent)]
    Run(#[from] runs::RunError),
    /// The log.
    #[error(transparent)]
    Log(#[from] super::log::LogError),
    /// The checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::CheckpointError),
    /// The shard has other troubles.
    #[error("the shard does not work right now")]
    Trouble,
    /// A bug.
    #[error("a panic while a checkpoint was made")]
    Panic,
    /// The disk.
    #[error("remove what is no longer needed")]
    Disk(#[from] std::io::Error),
}

impl KeepError {
    /// Whether the log is not what was written: what is only there cannot be kept.
    fn is_damage(&self) -> bool {
        match self {
            Self::Log(error) | Self::Flush(runs::FlushError::Log(error)) => error.is_damage(),
            Self::Flush(runs::FlushError::Record(_)) => true,
            _ => false,
        }
    }
}

/// The thread.
pub(super) fn run(shared: &Shared, options: &Options, name: &str) {
    let mut patience = LOOK;
    loop {
        let asked = shared.keeping.wait(patience, || shared.is_stopping());
        patience = LOOK;
        tidy(shared);
        let stopping = shared.is_stopping();
        if is_due(shared, options, asked, stopping) {
            let keeping = || keep(shared, options);
            // Whoever asked is told; what was begun is a draft.
            let kept = catch_unwind(AssertUnwindSafe(keeping));
            if !told(shared, name, asked, kept.unwrap_or(Err(KeepError::Panic))) {
                patience = AFTER_FAILURE;
            }
        }
        if stopping {
            return;
        }
    }
}

/// Gives back the memory of rows that are no longer needed.
pub(super) fn tidy(shared: &Shared) {
    let left_over = std::mem::take(&mut shared.lock().state.left_over);
    let mut polite = shared.manners.polite();
    for voters in left_over {
        voters.give_back(ROWS_AT_ONCE, || polite.rest());
    }
}

/// Whether a checkpoint is to be made.
pub(super) fn is_due(shared: &Shared, options: &Options, asked: u64, stopping: bool) -> bool {
    let grown = shared.log_bytes_unkept();
    asked > 0
        || grown >= options.checkpoint_bytes
        || shared.lock().needs_room()
        || (stopping && grown >= CLOSING_BYTES)
}

/// Tells whoever asked how it went; whether it went well.
pub(super) fn told(shared: &Shared, name: &str, asked: u64, kept: Result<(), KeepError>) -> bool {
    let outcome = kept.map_err(|error| {
        let cause = causes(&error);
        tracing::warn!(shard = name, cause, "no checkpoint could be made");
        NotKept {
            cause,
            is_damage: error.is_damage(),
        }
    });
    let is_well = outcome.is_ok();
    shared.keeping.answer(asked, outcome);
    is_well
}

/// Makes a checkpoint.
fn keep(shared: &Shared, options: &Options) -> Result<(), KeepError> {
    // While the disk is being recovered, files must not change under it.
    let _files = shared.hold_files();
    let bytes = shared.log_bytes();
    let (captured, store) = shared.capture().ok_or(KeepError::Trouble)?;
    write(shared, options, bytes, &captured, &store)
}

/// Writes a checkpoint of memory as it was when the log had so many bytes, and
/// removes what it makes needless. Whoever calls it holds the files.
pub(super) fn write(
    shared: &Shared,
    options: &Options,
    bytes: u64,
    captured: &Captured,
    store: &Store,
) -> Result<(), KeepError> {
    if captured.position == store.flushed() {
        shared.lock().state.evict(captured.position);
        shared.kept(bytes);
        return Ok(());
    }
    let disk = &*store.disk;
    let runs = with_new_rows(shared, store, captured)?;
    captured.write(disk, &runs)?;
    let is_damaged = runs.0.iter().any(|run| run.is_damaged());
    shared.retired(&store.runs());
    store.replace(runs, captured.position);
    shared.lock().state.evict(captured.position);
    shared.kept(bytes);
    if is_damaged {
        // Older checkpoints, and the log since, may be all that has its rows: the next
        // start makes them anew from there.
        tracing::error!("sorted rows are damaged: nothing is removed, start the shard anew");
        return Ok(());
    }
    let older = checkpoint::list(disk)?.get(checkpoint::KEPT - 1).copied();
    if let Some(older) = older {
        let unneeded = store.log.unneeded_but_for(options.feed_bytes)?;
        shared.forget_up_to(older.min(unneeded));
    }
    Ok(remove_litter(shared, disk)?)
}

/// The runs with one more: the rows since the last time.
fn with_new_rows(shared: &Shared, store: &Store, captured: &Captured) -> Result<RunSet, KeepError> {
    let disk = &*store.disk;
    let mut runs = store.runs();
    let mut id = next_id(disk)?;
    let key_of = |poll| captured.key_of(poll);
    let (after, to) = (store.flushed(), captured.position);
    if runs::flush(disk, &store.log, after, to, id, key_of, &shared.manners)? > 0 {
        runs.0.push(Arc::new(Run::open(disk, id)?));
        id += 1;
    }
    let rows: Vec<u64> = runs.0.iter().map(|run| run.rows()).collect();
    let alike = runs::worth_merging(&rows);
    if alike > 0 {
        let newest = RunSet(runs.0.split_off(runs.0.len() - alike));
        let is_there = |poll| captured.key_of(poll).is_some();
        match runs::merge(disk, &newest, id, is_there, &shared.manners) {
            Ok(()) => runs.0.push(Arc::new(Run::open(disk, id)?)),
            // What is damaged stays as it is.
            Err(error) if error.is_damage() => runs.0.extend(newest.0),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(runs)
}

fn next_id(disk: &dyn Disk) -> std::io::Result<u64> {
    let names = disk.list()?;
    let ids = names.iter().filter_map(|name| runs::id_in(name));
    Ok(ids.max().unwrap_or(0) + 1)
}

/// Removes checkpoints that are too old, and runs that none of the others
/// names.
fn remove_litter(shared: &Shared, disk: &dyn Disk) -> std::io::Result<()> {
    let positions = checkpoint::list(disk).map_err(std::io::Error::other)?;
    let (kept, old) = positions.split_at(positions.len().min(checkpoint::KEPT));
    for position in old {
        disk.remove(&checkpoint::name_of(*position))?;
    }
    let mut needed = Vec::new();
    for position in kept {
        match checkpoint::read(disk, *position) {
            Ok((head, _)) => needed.extend(head.runs),
            // A damaged one names nothing that could be trusted; its runs are
            // kept by keeping all.
            Err(_) => return Ok(()),
        }
    }
    for name in disk.list()? {
        let Some(id) = runs::id_in(&name).filter(|id| !needed.contains(id)) else {
            continue;
        };
        match shared.is_being_read(id) {
            true => disk.remove(&name)?,
            false => disk.remove_slowly(&name)?,
        }
    }
    disk.sync_names()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::embedded::disk::SimulatedDisk;
    use crate::embedded::disk::watched::{Touch, Watched};
    use crate::embedded::manners::Manners;
    use crate::embedded::open::Opener;
    use crate::embedded::state::Voters;
    use crate::testing::ManualClock;

    /// A file that is shortened under its reader would look as if it had rotted.
    #[test]
    fn what_somebody_reads_is_not_shortened() {
        let touched: Arc<Mutex<Vec<Touch>>> = Arc::default();
        let note = {
            let touched = touched.clone();
            move |touch, name: &str| {
                if runs::id_in(name).is_some() {
                    touched.lock().unwrap().push(touch);
                }
            }
        };
        let disk = Arc::new(Watched(SimulatedDisk::new(1), Arc::new(note)));
        let opener = Opener {
            disk: disk.clone(),
            options: Options::default(),
            name: "shard-1".to_owned(),
        };
        let opened = opener.open().unwrap();
        let clock = Arc::new(ManualClock::at(0));
        let manners = Manners::new(false);
        let shared = Shared::new(opened.core, opened.store, clock, 0, manners);
        let made = || {
            let none = RunSet::default();
            runs::merge(&*disk, &none, 7, |_| true, &shared.manners).unwrap();
            RunSet(vec![Arc::new(Run::open(&*disk, 7).unwrap())])
        };
        // No checkpoint names it, and somebody reads it.
        let read = made();
        shared.retired(&read);
        touched.lock().unwrap().clear();
        remove_litter(&shared, &*disk).unwrap();
        assert_eq!(*touched.lock().unwrap(), [Touch::Remove]);
        drop(read);
        shared.retired(&made());
        touched.lock().unwrap().clear();
        remove_litter(&shared, &*disk).unwrap();
        assert_eq!(*touched.lock().unwrap(), [Touch::RemoveSlowly]);
    }

    /// Somebody has to: whoever removed them held the lock, and did not.
    #[test]
    fn rows_that_are_no_longer_needed_are_taken_away() {
        let opener = Opener {
            disk: Arc::new(SimulatedDisk::new(1)),
            options: Options::default(),
            name: "shard-1".to_owned(),
        };
        let opened = opener.open().unwrap();
        let clock = Arc::new(ManualClock::at(0));
        let manners = Manners::new(false);
        let shared = Shared::new(opened.core, opened.store, clock, 0, manners);
        let since = ballast_domain::Timestamp::from_unix_ms(0);
        let left = Voters::new(since);
        shared.lock().state.left_over.push(left);
        tidy(&shared);
        assert!(shared.lock().state.left_over.is_empty());
    }
}
