//! The work of the committer and the compactor as single steps, without
//! threads: a simulation decides their order.
//!
//! ```text
//!   take ──► (the disk is slow) ──► write ──► callers are answered
//!                                     │ failed
//!                        memory discarded ──► reopen, until it works
//! ```
//! A step does not wait. Between taking a group and writing it the shard is in
//! the state of a running sync: the next group fills, and answers are held
//! back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ballast_domain::Timestamp;

use crate::embedded::background::committer::{self, FailedLog};
use crate::embedded::compaction::compactor::{self, CompactionError};
use crate::embedded::core::RecordGroup;
use crate::embedded::engine::open::{ShardOpener, ShardOptions};
use crate::embedded::engine::shared::{CommitterTask, EngineShared, SnapshotProgress};
use crate::embedded::engine::store::ShardStore;
use crate::embedded::log::Log;
use crate::embedded::record::PollNo;
use crate::shard::Tally;

/// The outcome of a log step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStepOutcome {
    /// Nothing to do.
    Nothing,
    /// Took a group; the next step writes it.
    Taken,
    /// Wrote the group.
    Group,
    /// The write failed or panicked. Memory is discarded, and the next step
    /// reopens the log.
    Failed,
    /// Reopened the log.
    Reopened,
}

/// A group to be written, and the counts after it.
type TakenGroup = (RecordGroup, Vec<(PollNo, Tally)>);

/// Whether the log can be written.
enum LogState {
    Open(Log),
    /// It must be reopened.
    Failed(FailedLog),
}

/// Writes the log, step by step.
pub struct LogSteps {
    shared: Arc<EngineShared>,
    opener: ShardOpener,
    log: LogState,
    taken: Option<TakenGroup>,
    ticked: Option<Timestamp>,
}

impl LogSteps {
    pub(in crate::embedded) fn new(
        shared: Arc<EngineShared>,
        log: Log,
        opener: ShardOpener,
    ) -> Self {
        Self {
            shared,
            opener,
            log: LogState::Open(log),
            taken: None,
            ticked: None,
        }
    }

    /// Waits until there may be something to do.
    pub async fn wait_for_work(&self) {
        self.shared.work_notify.notified().await;
    }

    /// Does the next step.
    pub fn step(&mut self) -> LogStepOutcome {
        let log = match &mut self.log {
            LogState::Open(log) => log,
            LogState::Failed(failed) => match failed.reopen(&self.shared, &self.opener) {
                Some(log) => {
                    self.log = LogState::Open(log);
                    return LogStepOutcome::Reopened;
                }
                None => return LogStepOutcome::Failed,
            },
        };
        let failed = match self.taken.take() {
            Some((group, tallies)) => {
                let (shared, opener) = (&*self.shared, &self.opener);
                let write = || committer::write(shared, log, opener, &group, tallies);
                match catch_unwind(AssertUnwindSafe(write)) {
                    Ok(Ok(())) => return LogStepOutcome::Group,
                    Ok(Err(why)) => why,
                    Err(_) => "panic while writing the shard's log".to_owned(),
                }
            }
            None => match poll_task(&self.shared, log, &mut self.ticked) {
                Ok(Some(taken)) => {
                    self.taken = Some(taken);
                    return LogStepOutcome::Taken;
                }
                Ok(None) => return LogStepOutcome::Nothing,
                Err(why) => why,
            },
        };
        let failing = LogState::Failed(FailedLog::default());
        if let LogState::Open(log) = std::mem::replace(&mut self.log, failing) {
            let failed = committer::discard_memory(&self.shared, &failed, &self.opener, log);
            self.log = LogState::Failed(failed);
        }
        LogStepOutcome::Failed
    }
}

/// Takes the next group, if there is one. Fails if memory must be rebuilt.
fn poll_task(
    shared: &EngineShared,
    log: &mut Log,
    ticked: &mut Option<Timestamp>,
) -> Result<Option<TakenGroup>, String> {
    loop {
        return match shared.poll_task(ticked) {
            Some(CommitterTask::Write(group, tallies)) => Ok(Some((group, tallies))),
            Some(CommitterTask::CheckFiles) => {
                committer::check_files(shared, log)?;
                continue;
            }
            Some(CommitterTask::Rebuild(why)) => Err(why),
            Some(CommitterTask::Stop) | None => Ok(None),
        };
    }
}

/// The outcome of a compactor step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactorOutcome {
    /// Nothing to do.
    Nothing,
    /// Waiting until the open group is durable.
    Waits,
    /// Made a checkpoint.
    Checkpoint,
    /// Failed. No data is lost.
    Failed,
}

/// Makes checkpoints, step by step.
pub struct CompactorSteps {
    shared: Arc<EngineShared>,
    options: ShardOptions,
    name: String,
    pending: Option<PendingCheckpoint>,
}

/// A checkpoint that waits for a group to become durable.
struct PendingCheckpoint {
    asked: u64,
    bytes: u64,
    store: Arc<ShardStore>,
}

impl CompactorSteps {
    pub(in crate::embedded) fn new(
        shared: Arc<EngineShared>,
        options: ShardOptions,
        name: &str,
    ) -> Self {
        Self {
            shared,
            options,
            name: name.to_owned(),
            pending: None,
        }
    }

    /// Waits for a checkpoint request.
    pub async fn wait_for_work(&self) {
        self.shared.checkpoint_requests.work_notify.notified().await;
    }

    /// Does the next step.
    pub fn step(&mut self) -> CompactorOutcome {
        compactor::free_dropped_voters(&self.shared);
        let (progress, pending) = match self.pending.take() {
            Some(pending) => (self.shared.poll_snapshot(&pending.store), pending),
            None => {
                let asked = self.shared.checkpoint_requests.pending();
                if !compactor::is_due(&self.shared, &self.options, asked, false) {
                    return CompactorOutcome::Nothing;
                }
                let bytes = self.shared.log_bytes();
                let (progress, store) = self.shared.begin_snapshot();
                let pending = PendingCheckpoint {
                    asked,
                    bytes,
                    store,
                };
                (progress, pending)
            }
        };
        let outcome = match progress {
            SnapshotProgress::Waits => {
                self.pending = Some(pending);
                return CompactorOutcome::Waits;
            }
            SnapshotProgress::Trouble => Err(CompactionError::Trouble),
            SnapshotProgress::Done(snapshot) => {
                let _files = self.shared.lock_files();
                let (shared, store) = (&*self.shared, &*pending.store);
                let write = || {
                    compactor::write_checkpoint(
                        shared,
                        &self.options,
                        pending.bytes,
                        &snapshot,
                        store,
                    )
                };
                catch_unwind(AssertUnwindSafe(write)).unwrap_or(Err(CompactionError::Panic))
            }
        };
        match compactor::report_outcome(&self.shared, &self.name, pending.asked, outcome) {
            true => CompactorOutcome::Checkpoint,
            false => CompactorOutcome::Failed,
        }
    }
}
