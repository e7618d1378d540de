//! Writes checkpoints, merges runs and removes old files, on its own thread.
//! Votes never wait for it.
//!
//! ```text
//!   the log has grown, or a request ──► memory copied at a group's end
//!   ──► rows since the last checkpoint: a run ──► similar runs merged
//!   ──► checkpoint, read back ──► older files removed, closed polls' rows
//!       evicted from memory
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::embedded::background::committer::error_chain;
use crate::embedded::background::throttle::ROWS_PER_BATCH;
use crate::embedded::compaction::checkpoint::{self, MemorySnapshot};
use crate::embedded::compaction::requests::CheckpointFailure;
use crate::embedded::disk::Disk;
use crate::embedded::engine::open::ShardOptions;
use crate::embedded::engine::shared::EngineShared;
use crate::embedded::engine::store::{ShardStore, StoreBase};
use crate::embedded::runs::{self, Run, RunSet};

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// Growth of the log that triggers a checkpoint on closing.
const CLOSING_BYTES: u64 = 1 << 20;

/// Why a checkpoint failed. No data is lost: the log holds everything.
#[derive(Debug, thiserror::Error)]
pub(in crate::embedded) enum CompactionError {
    /// Writing a run from the log failed.
    #[error(transparent)]
    Flush(#[from] runs::FlushError),
    /// A run.
    #[error(transparent)]
    Run(#[from] runs::RunError),
    /// The log.
    #[error(transparent)]
    Log(#[from] crate::embedded::log::LogError),
    /// The checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::CheckpointError),
    /// The shard is in trouble.
    #[error("the shard is unavailable")]
    Trouble,
    /// A bug.
    #[error("panic while making a checkpoint")]
    Panic,
    /// The disk.
    #[error("remove old files")]
    Disk(#[from] std::io::Error),
}

impl CompactionError {
    /// Whether the log is damaged, so that its rows cannot be written to a run.
    fn is_damage(&self) -> bool {
        match self {
            Self::Log(error) | Self::Flush(runs::FlushError::Log(error)) => error.is_damage(),
            Self::Flush(runs::FlushError::Record(_)) => true,
            _ => false,
        }
    }
}

/// The thread's main loop.
pub(in crate::embedded) fn run(shared: &EngineShared, options: &ShardOptions, name: &str) {
    let mut delay = POLL_INTERVAL;
    loop {
        let asked = shared
            .checkpoint_requests
            .wait(delay, || shared.is_stopping());
        delay = POLL_INTERVAL;
        free_dropped_voters(shared);
        let stopping = shared.is_stopping();
        if is_due(shared, options, asked, stopping) {
            let make = || make_checkpoint(shared, options);
            // On a panic the callers get an error; the unfinished files are
            // drafts.
            let outcome = catch_unwind(AssertUnwindSafe(make));
            if !report_outcome(
                shared,
                name,
                asked,
                outcome.unwrap_or(Err(CompactionError::Panic)),
            ) {
                delay = AFTER_FAILURE;
            }
        }
        if stopping {
            return;
        }
    }
}

/// Frees the memory of dropped rows.
pub(in crate::embedded) fn free_dropped_voters(shared: &EngineShared) {
    let dropped_voters = std::mem::take(&mut shared.lock().state.dropped_voters);
    let mut task = shared.throttle.start_task();
    for voters in dropped_voters {
        voters.free_in_batches(ROWS_PER_BATCH, || task.pause_if_busy());
    }
}

/// Whether a checkpoint is due.
pub(in crate::embedded) fn is_due(
    shared: &EngineShared,
    options: &ShardOptions,
    asked: u64,
    stopping: bool,
) -> bool {
    let grown = shared.log_bytes_since_checkpoint();
    asked > 0
        || grown >= options.checkpoint_bytes
        || shared.lock().is_memory_nearly_full()
        || (stopping && grown >= CLOSING_BYTES)
}

/// Reports the outcome to the callers; returns whether it succeeded.
pub(in crate::embedded) fn report_outcome(
    shared: &EngineShared,
    name: &str,
    asked: u64,
    outcome: Result<(), CompactionError>,
) -> bool {
    let outcome = outcome.map_err(|error| {
        let cause = error_chain(&error);
        tracing::warn!(shard = name, cause, "failed to make a checkpoint");
        CheckpointFailure {
            cause,
            is_damage: error.is_damage(),
        }
    });
    let is_well = outcome.is_ok();
    shared.checkpoint_requests.complete(asked, outcome);
    is_well
}

/// Makes a checkpoint.
fn make_checkpoint(shared: &EngineShared, options: &ShardOptions) -> Result<(), CompactionError> {
    // No files may change while the committer recovers the disk.
    let _files = shared.lock_files();
    let bytes = shared.log_bytes();
    let (snapshot, store) = shared.snapshot().ok_or(CompactionError::Trouble)?;
    write_checkpoint(shared, options, bytes, &snapshot, &store)
}

/// Writes a checkpoint of a snapshot, taken when the log had `bytes` bytes, and
/// removes obsolete files. The caller holds the file lock.
pub(in crate::embedded) fn write_checkpoint(
    shared: &EngineShared,
    options: &ShardOptions,
    bytes: u64,
    snapshot: &MemorySnapshot,
    store: &ShardStore,
) -> Result<(), CompactionError> {
    if snapshot.position == store.flushed() {
        shared.lock().state.evict(snapshot.position);
        shared.record_checkpoint(bytes);
        return Ok(());
    }
    let disk = &*store.disk;
    let runs = flush_and_merge(shared, store, snapshot)?;
    snapshot.write(disk, &runs)?;
    let is_damaged = runs.0.iter().any(|run| run.is_damaged());
    shared.track_replaced(&store.runs());
    store.replace(StoreBase {
        runs,
        flushed: snapshot.position,
        checkpoint: Some(checkpoint::open(disk, snapshot.position)?),
    });
    shared.lock().state.evict(snapshot.position);
    shared.record_checkpoint(bytes);
    if is_damaged {
        // Older checkpoints and the log may be the only intact source of the
        // damaged rows: keep them, the next start rebuilds the rows from there.
        tracing::error!("runs are damaged: keeping all files; restart the shard to repair it");
        return Ok(());
    }
    let older = checkpoint::list(disk)?
        .get(checkpoint::CHECKPOINTS_KEPT - 1)
        .copied();
    if let Some(older) = older {
        let unneeded = store.log.last_unneeded(options.feed_bytes)?;
        shared.forget_up_to(older.min(unneeded));
    }
    Ok(remove_unreferenced_files(shared, disk)?)
}

/// Writes a run of the rows since the last checkpoint, and merges similar runs.
fn flush_and_merge(
    shared: &EngineShared,
    store: &ShardStore,
    snapshot: &MemorySnapshot,
) -> Result<RunSet, CompactionError> {
    let disk = &*store.disk;
    let mut runs = store.runs();
    let mut id = next_id(disk)?;
    let slice_key = |poll| snapshot.slice_key(poll);
    let (after, to) = (store.flushed(), snapshot.position);
    if runs::flush(disk, &store.log, after, to, id, slice_key, &shared.throttle)? > 0 {
        runs.0.push(Arc::new(Run::open(disk, id)?));
        id += 1;
    }
    let rows: Vec<u64> = runs.0.iter().map(|run| run.rows()).collect();
    let count = runs::count_mergeable(&rows);
    if count > 0 {
        let newest = RunSet(runs.0.split_off(runs.0.len() - count));
        let is_there = |poll| snapshot.slice_key(poll).is_some();
        match runs::merge(disk, &newest, id, is_there, &shared.throttle) {
            Ok(()) => runs.0.push(Arc::new(Run::open(disk, id)?)),
            // A damaged run is not merged.
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

/// Removes old checkpoints, and runs that no remaining checkpoint refers to.
fn remove_unreferenced_files(shared: &EngineShared, disk: &dyn Disk) -> std::io::Result<()> {
    let positions = checkpoint::list(disk).map_err(std::io::Error::other)?;
    let (remaining, old) = positions.split_at(positions.len().min(checkpoint::CHECKPOINTS_KEPT));
    for position in old {
        disk.remove(&checkpoint::file_name(*position))?;
    }
    let mut needed = Vec::new();
    for position in remaining {
        match checkpoint::read(disk, *position) {
            Ok((head, _)) => needed.extend(head.runs),
            // A damaged checkpoint cannot be trusted to list its runs: keep all
            // runs.
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
    use crate::embedded::background::throttle::BackgroundThrottle;
    use crate::embedded::disk::SimulatedDisk;
    use crate::embedded::disk::watched::{Touch, WatchedDisk};
    use crate::embedded::engine::open::ShardOpener;
    use crate::embedded::state::VoterTable;
    use crate::testing::SteppedClock;

    /// Truncating a file under its reader would look like damage.
    #[test]
    fn files_in_use_are_removed_without_truncation() {
        let touched: Arc<Mutex<Vec<Touch>>> = Arc::default();
        let note = {
            let touched = touched.clone();
            move |touch, name: &str| {
                if runs::id_in(name).is_some() {
                    touched.lock().unwrap().push(touch);
                }
            }
        };
        let disk = Arc::new(WatchedDisk(SimulatedDisk::new(1), Arc::new(note)));
        let opener = ShardOpener {
            disk: disk.clone(),
            options: ShardOptions::default(),
            name: "shard-1".to_owned(),
        };
        let opened = opener.open().unwrap();
        let clock = Arc::new(SteppedClock::new(0));
        let throttle = BackgroundThrottle::new(false);
        let shared = EngineShared::new(opened.core, opened.store, clock, 0, throttle);
        let made = || {
            let none = RunSet::default();
            runs::merge(&*disk, &none, 7, |_| true, &shared.throttle).unwrap();
            RunSet(vec![Arc::new(Run::open(&*disk, 7).unwrap())])
        };
        // No checkpoint refers to it, and a reader uses it.
        let read = made();
        shared.track_replaced(&read);
        touched.lock().unwrap().clear();
        remove_unreferenced_files(&shared, &*disk).unwrap();
        assert_eq!(*touched.lock().unwrap(), [Touch::Remove]);
        drop(read);
        shared.track_replaced(&made());
        touched.lock().unwrap().clear();
        remove_unreferenced_files(&shared, &*disk).unwrap();
        assert_eq!(*touched.lock().unwrap(), [Touch::RemoveSlowly]);
    }

    /// Rows dropped under the lock are freed later, by the compactor.
    #[test]
    fn dropped_rows_are_freed() {
        let opener = ShardOpener {
            disk: Arc::new(SimulatedDisk::new(1)),
            options: ShardOptions::default(),
            name: "shard-1".to_owned(),
        };
        let opened = opener.open().unwrap();
        let clock = Arc::new(SteppedClock::new(0));
        let throttle = BackgroundThrottle::new(false);
        let shared = EngineShared::new(opened.core, opened.store, clock, 0, throttle);
        let since = ballast_domain::Timestamp::from_unix_ms(0);
        let left = VoterTable::new(since);
        shared.lock().state.dropped_voters.push(left);
        free_dropped_voters(&shared);
        assert!(shared.lock().state.dropped_voters.is_empty());
    }
}
