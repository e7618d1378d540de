//! Writes groups to the log, one after the other, on its own thread.
//!
//! ```text
//!   wait for a group ──► take it ──► append, sync ──► answer its callers
//!         ▲                              │ disk full, failure, or panic
//!         └── rebuild memory ◄── reopen the log, with backoff
//! ```
//! While one group syncs, the next one fills: the slower the disk, the larger
//! the groups.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ballast_domain::Timestamp;

use crate::embedded::core::RecordGroup;
use crate::embedded::disk::LostName;
use crate::embedded::engine::open::{OpenedShard, ShardOpener};
use crate::embedded::engine::shared::{CommitterTask, EngineShared};
use crate::embedded::faults::{self, Fault};
use crate::embedded::log::Log;
use crate::embedded::record::PollNo;
use crate::shard::Tally;

/// Backoff before reopening a failed log.
const RETRY_FIRST: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 50 });
const RETRY_LAST: Duration = Duration::from_secs(5);

/// Why the committer stopped writing groups.
enum StopReason {
    Stopped,
    Failed(String),
}

/// The thread's main loop.
pub(in crate::embedded) fn run(shared: &EngineShared, mut log: Log, opener: &ShardOpener) {
    let mut ticked = None;
    loop {
        let writing = || write_groups(shared, &mut log, opener, &mut ticked);
        // A panic counts as a failed write: disk and memory may differ, so
        // memory is discarded.
        let why = match catch_unwind(AssertUnwindSafe(writing)) {
            Ok(StopReason::Stopped) => return,
            Ok(StopReason::Failed(why)) => why,
            Err(_) => "panic while writing the shard's log".to_owned(),
        };
        match recover(shared, &why, opener, log) {
            Some(reopened) => log = reopened,
            None => return,
        }
    }
}

/// Writes groups until a write fails or the shard stops.
fn write_groups(
    shared: &EngineShared,
    log: &mut Log,
    opener: &ShardOpener,
    ticked: &mut Option<Timestamp>,
) -> StopReason {
    loop {
        let (group, tallies) = match shared.wait_for_task(ticked) {
            CommitterTask::Write(group, tallies) => (group, tallies),
            CommitterTask::CheckFiles => match check_files(shared, log) {
                Ok(()) => continue,
                Err(why) => return StopReason::Failed(why),
            },
            CommitterTask::Rebuild(why) => return StopReason::Failed(why),
            CommitterTask::Stop => return StopReason::Stopped,
        };
        if let Err(why) = write(shared, log, opener, &group, tallies) {
            return StopReason::Failed(why);
        }
    }
}

/// Writes a group, and answers its callers.
pub(in crate::embedded) fn write(
    shared: &EngineShared,
    log: &mut Log,
    opener: &ShardOpener,
    group: &RecordGroup,
    tallies: Vec<(PollNo, Tally)>,
) -> Result<(), String> {
    if faults::is_planted(Fault::AcknowledgedFirst) {
        shared.committed(group, tallies);
        faults::delay_write();
        let _ = log.append(&group.payload);
        return Ok(());
    }
    let began = shared.clock.now().unix_ms();
    match log.append(&group.payload) {
        Ok(_) => {
            let waited = group.began.map_or(0, |first| began - first.unix_ms());
            shared.record_commit_times(waited, shared.clock.now().unix_ms() - began);
            shared.committed(group, tallies);
            remove_old_segments(shared, log, opener);
            Ok(())
        }
        // Also on a full disk: a client that learns that its vote failed may
        // choose again, so the group must not be written later.
        Err(error) => Err(format!(
            "writing the shard's log failed: {}",
            error_chain(&error)
        )),
    }
}

/// Checks that all files that a restart needs still have their names.
pub(in crate::embedded) fn check_files(shared: &EngineShared, log: &mut Log) -> Result<(), String> {
    let store = shared.store();
    log.close_before(store.flushed());
    let checked = log.check_names();
    let checked = checked.and_then(|()| match shared.try_lock_files() {
        Some(_files) => store.check_names(),
        // They are just being replaced: next time.
        None => Ok(()),
    });
    checked.map_err(|lost| error_chain(&lost))
}

/// Removes segments that the compactor no longer needs. A failure costs only
/// disk space; the next call tries again.
fn remove_old_segments(shared: &EngineShared, log: &mut Log, opener: &ShardOpener) {
    let up_to = shared.take_forgettable();
    if up_to > 0
        && let Err(error) = log.forget_up_to(up_to)
    {
        tracing::warn!(shard = opener.name(), %error, "failed to remove old segments");
    }
}

/// Reopens the log with backoff until it works or the shard stops.
fn recover(shared: &EngineShared, why: &str, opener: &ShardOpener, log: Log) -> Option<Log> {
    let mut failed = discard_memory(shared, why, opener, log);
    let mut backoff = RETRY_FIRST;
    loop {
        if shared.wait_before_retry(backoff) {
            return None;
        }
        backoff = (backoff * 2).min(RETRY_LAST);
        if let Some(log) = failed.reopen(shared, opener) {
            return Some(log);
        }
    }
}

/// A log that failed. Its files stay open until those that were removed are
/// written again: they may hold the only copy of acknowledged votes.
#[derive(Default)]
pub(in crate::embedded) struct FailedLog(Option<Log>);

impl FailedLog {
    /// Tries to reopen the log.
    pub(in crate::embedded) fn reopen(
        &mut self,
        shared: &EngineShared,
        opener: &ShardOpener,
    ) -> Option<Log> {
        if let Some(log) = &mut self.0 {
            if let Err(lost) = restore_removed(shared, log) {
                shared.lock().trouble = Some(error_chain(&lost));
                return None;
            }
            self.0 = None;
        }
        reopen(shared, opener)
    }
}

/// Writes removed files again.
fn restore_removed(shared: &EngineShared, log: &mut Log) -> Result<(), LostName> {
    let store = shared.store();
    log.close_before(store.flushed());
    log.restore_removed()?;
    let _files = shared.lock_files();
    store.restore_removed()
}

/// Discards memory, and fails all waiting callers.
pub(in crate::embedded) fn discard_memory(
    shared: &EngineShared,
    why: &str,
    opener: &ShardOpener,
    log: Log,
) -> FailedLog {
    tracing::error!(
        shard = opener.name(),
        cause = why,
        "discarding memory; rebuilding it from disk"
    );
    shared.failed(why);
    FailedLog(Some(log))
}

fn reopen(shared: &EngineShared, opener: &ShardOpener) -> Option<Log> {
    match try_open(shared, opener) {
        Ok(OpenedShard {
            log, core, store, ..
        }) => {
            tracing::info!(shard = opener.name(), "shard recovered");
            shared.restart(core, store);
            Some(log)
        }
        Err(why) => {
            shared.lock().trouble = Some(why);
            None
        }
    }
}

fn try_open(shared: &EngineShared, opener: &ShardOpener) -> Result<OpenedShard, String> {
    let files = shared.lock_files();
    let opened = catch_unwind(AssertUnwindSafe(|| opener.reopen()));
    drop(files);
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => {
            let why = error_chain(&error);
            Err(format!("cannot open the shard's log: {why}"))
        }
        Err(_) => Err("panic while opening the shard's log".to_owned()),
    }
}

/// An error with all its causes, for operators.
pub(in crate::embedded) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
