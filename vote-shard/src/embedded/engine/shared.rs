//! State that a shard's threads and its callers share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};
use std::time::Duration;

use ballast_domain::{Clock, Timestamp};
use tokio::sync::Notify;

use crate::embedded::background::throttle::BackgroundThrottle;
use crate::embedded::compaction::checkpoint::MemorySnapshot;
use crate::embedded::compaction::requests::CheckpointRequests;
use crate::embedded::core::{Core, RecordGroup, SnapshotRequest};
use crate::embedded::engine::published::PublishedTallies;
use crate::embedded::engine::store::ShardStore;
use crate::embedded::record::PollNo;
use crate::embedded::runs::{Run, RunSet};
use crate::shard::{Stalls, Tally};

/// Interval between checks for expired polls and of the shard's files.
const TICK: Duration = Duration::from_millis(500);
/// Expired polls closed in one group.
const CLOSED_AT_ONCE: usize = 1_000;
/// Reported while memory cannot be trusted.
const POISONED: &str = "a panic left the shard's memory inconsistent; rebuilding it from disk";

/// The committer's next task.
pub(in crate::embedded) enum CommitterTask {
    /// Write this group; these are the counts after it.
    Write(RecordGroup, Vec<(PollNo, Tally)>),
    /// Check that the shard's files still have their names.
    CheckFiles,
    /// Rebuild memory, for this reason.
    Rebuild(String),
    /// Stop: the shard is closing and the open group is empty.
    Stop,
}

/// Progress of a memory snapshot.
pub(in crate::embedded) enum SnapshotProgress {
    /// The snapshot is complete.
    Done(MemorySnapshot),
    /// A group must become durable first.
    Waits,
    /// The shard is in trouble; there will be no snapshot.
    Trouble,
}

/// State that a shard's threads and its callers share.
pub(in crate::embedded) struct EngineShared {
    core: Mutex<Core>,
    /// Notified when the open group is not empty, and on stop.
    wake: Condvar,
    /// The same for [`super::stepped::LogSteps`], which has no thread.
    pub(in crate::embedded) work_notify: Notify,
    /// Notified on stop, for threads that wait for nothing else. Separate from
    /// `wake`: `notify_one` could wake the wrong thread.
    stopped: Condvar,
    pub(in crate::embedded) clock: Arc<dyn Clock>,
    pub(in crate::embedded) published: PublishedTallies,
    stopping: AtomicBool,
    /// Notified when a group is durable or has failed.
    settled: Condvar,
    store: RwLock<Arc<ShardStore>>,
    /// Held while creating or removing files other than the log's.
    file_lock: Mutex<()>,
    /// Bytes written to the log since the shard was opened.
    log_bytes: AtomicU64,
    /// The value of `log_bytes` at the last checkpoint.
    checkpointed_bytes: AtomicU64,
    /// The log may drop groups up to this one; 0 for none.
    forget: AtomicU64,
    pub(in crate::embedded) checkpoint_requests: CheckpointRequests,
    pub(in crate::embedded) throttle: BackgroundThrottle,
    /// Replaced runs, which readers may still use.
    replaced_runs: Mutex<Vec<Weak<Run>>>,
    /// Smoothed commit latency in microseconds; 0 before the first commit.
    commit_micros: AtomicU64,
    /// Unusual waiting time of groups, behind others and for the disk.
    queue_stall_ms: AtomicU64,
    disk_stall_ms: AtomicU64,
}

impl EngineShared {
    /// Records how long a group waited for its turn, and how long its commit
    /// took.
    pub(in crate::embedded) fn record_commit_times(&self, waited_ms: i64, ms: i64) {
        for (sum, ms) in [(&self.queue_stall_ms, waited_ms), (&self.disk_stall_ms, ms)] {
            sum.fetch_add(Stalls::beyond_usual(ms), Ordering::Relaxed);
        }
        let micros = ms.max(0).unsigned_abs().saturating_mul(1_000);
        let before = self.commit_micros.load(Ordering::Relaxed);
        let smoothed = match before {
            0 => micros,
            before => (before * 7 + micros) / 8,
        };
        self.commit_micros.store(smoothed.max(1), Ordering::Relaxed);
    }

    /// Unusual waiting time of writes.
    pub(in crate::embedded) fn stalls(&self) -> Stalls {
        Stalls {
            queue_ms: self.queue_stall_ms.load(Ordering::Relaxed),
            disk_ms: self.disk_stall_ms.load(Ordering::Relaxed),
        }
    }

    /// Recent commit latency in microseconds.
    pub(in crate::embedded) fn commit_micros(&self) -> Option<u64> {
        match self.commit_micros.load(Ordering::Relaxed) {
            0 => None,
            micros => Some(micros),
        }
    }

    pub(in crate::embedded) fn new(
        core: Core,
        store: Arc<ShardStore>,
        clock: Arc<dyn Clock>,
        log_bytes: u64,
        throttle: BackgroundThrottle,
    ) -> Self {
        let shared = Self {
            core: Mutex::new(core),
            wake: Condvar::new(),
            stopped: Condvar::new(),
            work_notify: Notify::new(),
            clock,
            published: PublishedTallies::new(),
            stopping: false.into(),
            settled: Condvar::new(),
            store: RwLock::new(store),
            file_lock: Mutex::new(()),
            log_bytes: log_bytes.into(),
            checkpointed_bytes: 0.into(),
            forget: 0.into(),
            checkpoint_requests: CheckpointRequests::default(),
            throttle,
            replaced_runs: Mutex::default(),
            commit_micros: AtomicU64::new(0),
            queue_stall_ms: AtomicU64::new(0),
            disk_stall_ms: AtomicU64::new(0),
        };
        shared.publish_all(&shared.lock());
        shared
    }

    pub(in crate::embedded) fn lock(&self) -> MutexGuard<'_, Core> {
        let core = self.core.lock();
        core.unwrap_or_else(|poisoned| self.recover_poisoned(poisoned.into_inner()))
    }

    /// Waits on a condition variable, at most for `patience`.
    fn wait<'a>(
        &self,
        condition: &Condvar,
        core: MutexGuard<'a, Core>,
        patience: Duration,
    ) -> MutexGuard<'a, Core> {
        match condition.wait_timeout(core, patience) {
            Ok((core, _)) => core,
            Err(poisoned) => self.recover_poisoned(poisoned.into_inner().0),
        }
    }

    /// A caller panicked under the lock, so memory and the open group may be
    /// inconsistent: neither may be used. The log is still correct, and the
    /// committer rebuilds memory from it.
    fn recover_poisoned<'a>(&self, mut core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        core.poisoned = true;
        core.trouble = Some(POISONED.to_owned());
        self.core.clear_poison();
        self.wake.notify_all();
        self.settled.notify_all();
        core
    }

    /// Wakes the committer: the open group may not be empty.
    pub(in crate::embedded) fn wake(&self) {
        self.wake.notify_one();
        self.work_notify.notify_one();
    }

    pub(in crate::embedded) fn stop(&self) {
        let _core = self.lock();
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_all();
        self.settled.notify_all();
        self.stopped.notify_all();
        self.checkpoint_requests.wake();
    }

    pub(in crate::embedded) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Bytes written to the log since the shard was opened.
    pub(in crate::embedded) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Acquire)
    }

    /// Bytes written to the log since the last checkpoint.
    pub(in crate::embedded) fn log_bytes_since_checkpoint(&self) -> u64 {
        let checkpointed = self.checkpointed_bytes.load(Ordering::Acquire);
        self.log_bytes().saturating_sub(checkpointed)
    }

    /// Records a checkpoint, made when the log had `log_bytes`.
    pub(in crate::embedded) fn record_checkpoint(&self, log_bytes: u64) {
        self.checkpointed_bytes.store(log_bytes, Ordering::Release);
    }

    /// The current files.
    pub(in crate::embedded) fn store(&self) -> Arc<ShardStore> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.clone()
    }

    /// Remembers runs that are about to be replaced.
    pub(in crate::embedded) fn track_replaced(&self, runs: &RunSet) {
        let mut replaced = self
            .replaced_runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        replaced.retain(|run| run.strong_count() > 0);
        replaced.extend(runs.0.iter().map(Arc::downgrade));
    }

    /// Whether a reader still uses a replaced run.
    pub(in crate::embedded) fn is_being_read(&self, id: u64) -> bool {
        let replaced = self
            .replaced_runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut read = replaced.iter().filter_map(Weak::upgrade);
        read.any(|run| run.id() == id)
    }

    /// Locks the files other than the log's.
    pub(in crate::embedded) fn lock_files(&self) -> MutexGuard<'_, ()> {
        self.file_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the files other than the log's, unless they are locked.
    pub(in crate::embedded) fn try_lock_files(&self) -> Option<MutexGuard<'_, ()>> {
        match self.file_lock.try_lock() {
            Ok(files) => Some(files),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Allows the log to drop groups up to `sequence`.
    pub(in crate::embedded) fn forget_up_to(&self, sequence: u64) {
        self.forget.store(sequence, Ordering::Release);
    }

    /// Takes the position up to which the log may drop groups; 0 for none.
    pub(in crate::embedded) fn take_forgettable(&self) -> u64 {
        self.forget.swap(0, Ordering::AcqRel)
    }

    /// Copies memory as of the end of a durable group, and waits for that
    /// group; `None` when the shard is in trouble.
    pub(in crate::embedded) fn snapshot(&self) -> Option<(MemorySnapshot, Arc<ShardStore>)> {
        let mut core = self.lock();
        let store = self.store();
        let mut progress = begin_snapshot(&mut core);
        loop {
            match progress {
                SnapshotProgress::Done(snapshot) => return Some((snapshot, store)),
                SnapshotProgress::Trouble => return None,
                SnapshotProgress::Waits => core = self.wait(&self.settled, core, TICK),
            }
            progress = self.continue_snapshot(&mut core, &store);
        }
    }

    /// Starts a snapshot without waiting.
    pub(in crate::embedded) fn begin_snapshot(&self) -> (SnapshotProgress, Arc<ShardStore>) {
        let mut core = self.lock();
        let store = self.store();
        (begin_snapshot(&mut core), store)
    }

    /// Continues a snapshot that started with this store.
    pub(in crate::embedded) fn poll_snapshot(&self, store: &Arc<ShardStore>) -> SnapshotProgress {
        self.continue_snapshot(&mut self.lock(), store)
    }

    fn continue_snapshot(&self, core: &mut Core, store: &Arc<ShardStore>) -> SnapshotProgress {
        if core.trouble.is_some() || !Arc::ptr_eq(store, &self.store()) {
            core.snapshot_request = SnapshotRequest::Idle;
            return SnapshotProgress::Trouble;
        }
        match std::mem::take(&mut core.snapshot_request) {
            SnapshotRequest::Done(snapshot) if snapshot.position <= store.log.durable() => {
                SnapshotProgress::Done(snapshot)
            }
            // The last group was taken before the snapshot was requested.
            SnapshotRequest::Wanted if core.open.is_empty() && core.syncing.is_none() => {
                SnapshotProgress::Done(MemorySnapshot::new(core))
            }
            waiting => {
                core.snapshot_request = waiting;
                SnapshotProgress::Waits
            }
        }
    }

    /// Sleeps, but not past a stop. Returns whether the shard is stopping. For
    /// background threads.
    pub(in crate::embedded) fn sleep_unless_stopping(&self, patience: Duration) -> bool {
        let core = self.lock();
        if !self.is_stopping() {
            drop(self.wait(&self.stopped, core, patience));
        }
        self.is_stopping()
    }

    /// The same for the committer.
    pub(in crate::embedded) fn wait_before_retry(&self, patience: Duration) -> bool {
        let core = self.lock();
        if !self.is_stopping() {
            drop(self.wait(&self.wake, core, patience));
        }
        self.is_stopping()
    }

    /// Waits for the next task.
    pub(in crate::embedded) fn wait_for_task(
        &self,
        ticked: &mut Option<Timestamp>,
    ) -> CommitterTask {
        let mut core = self.lock();
        loop {
            if let Some(next) = self.next_task(&mut core, ticked) {
                return next;
            }
            core = self.wait(&self.wake, core, TICK);
        }
    }

    /// Returns the next task, if any, without waiting.
    pub(in crate::embedded) fn poll_task(
        &self,
        ticked: &mut Option<Timestamp>,
    ) -> Option<CommitterTask> {
        self.next_task(&mut self.lock(), ticked)
    }

    fn next_task(&self, core: &mut Core, ticked: &mut Option<Timestamp>) -> Option<CommitterTask> {
        if core.poisoned {
            return Some(CommitterTask::Rebuild(POISONED.to_owned()));
        }
        let now = self.clock.now();
        // Works also when the clock jumps, in either direction.
        let since = ticked.map(|ticked| now.unix_ms().abs_diff(ticked.unix_ms()));
        if since.is_none_or(|since| u128::from(since) >= TICK.as_millis()) {
            *ticked = Some(now);
            core.close_expired(now, CLOSED_AT_ONCE);
            return Some(CommitterTask::CheckFiles);
        }
        if !core.open.is_empty() {
            let (group, tallies) = take(core);
            return Some(CommitterTask::Write(group, tallies));
        }
        self.is_stopping().then_some(CommitterTask::Stop)
    }

    fn publish_all(&self, core: &Core) {
        let mark = core.open.sequence - 1;
        let polls = core.state.polls.values();
        let tallies = polls.map(|poll| (poll.number, poll.tally(mark)));
        self.published.reset(mark, tallies);
    }

    /// Completes a durable group: publishes its counts, then notifies its
    /// callers.
    pub(in crate::embedded) fn committed(
        &self,
        group: &RecordGroup,
        tallies: Vec<(PollNo, Tally)>,
    ) {
        let bytes = group.payload.len() as u64;
        self.log_bytes.fetch_add(bytes, Ordering::AcqRel);
        // Publish the counts first: once no group is syncing, readers do not
        // wait and must find them.
        self.published.publish(group.sequence, tallies);
        {
            let mut core = self.lock();
            for number in &group.changed_polls {
                if !core.state.polls.contains_key(number) {
                    self.published.remove(*number);
                }
            }
            core.syncing = None;
            self.settled.notify_all();
        }
        let _ = group.done.set(Ok(()));
    }

    /// Fails the syncing and the open group, since neither is known to be
    /// durable, and refuses everything until memory has been rebuilt.
    pub(in crate::embedded) fn failed(&self, why: &str) {
        let (syncing, open) = {
            let mut core = self.lock();
            core.trouble = Some(why.to_owned());
            self.settled.notify_all();
            let fresh = RecordGroup::new(core.open.sequence);
            let open = std::mem::replace(&mut core.open, fresh);
            (core.syncing.take().map(|(_, done)| done), open.done)
        };
        for done in syncing.into_iter().chain([open]) {
            let _ = done.set(Err(why.to_owned()));
        }
    }

    /// Installs rebuilt memory and files.
    pub(in crate::embedded) fn restart(&self, core: Core, store: Arc<ShardStore>) {
        self.track_replaced(&self.store().runs());
        let mut own = self.lock();
        *own = core;
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = store;
        self.publish_all(&own);
    }
}

/// Copies memory now if all of it is durable, else requests a copy at the end
/// of the open group.
fn begin_snapshot(core: &mut Core) -> SnapshotProgress {
    if core.trouble.is_some() {
        return SnapshotProgress::Trouble;
    }
    if core.open.is_empty() && core.syncing.is_none() {
        return SnapshotProgress::Done(MemorySnapshot::new(core));
    }
    core.snapshot_request = SnapshotRequest::Wanted;
    SnapshotProgress::Waits
}

/// Takes the open group and the counts after it.
fn take(core: &mut Core) -> (RecordGroup, Vec<(PollNo, Tally)>) {
    let group = core.take_group();
    let polls = group.changed_polls.iter();
    let tallies = polls
        .filter_map(|number| core.state.polls.get(number))
        .map(|poll| (poll.number, poll.tally(group.sequence)))
        .collect();
    (group, tallies)
}
