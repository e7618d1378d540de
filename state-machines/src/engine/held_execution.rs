//! The state of a held execution that other parts of the engine share with its
//! driver.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::TaskProgress;
use super::progress_rate::ProgressTracker;
use crate::core::TaskId;
use crate::store::Lease;

/// An execution that this process holds.
pub(super) struct HeldExecution {
    pub(super) lease: Lease,
    pub(super) workflow: String,
    /// Wakes the driver to look at the two flags below.
    pub(super) signal: Notify,
    has_message: AtomicBool,
    is_lost: AtomicBool,
    /// When the lease expires unless renewed. The engine computes it before asking
    /// the store, so it is never later than the store's own value.
    leased_until_ms: AtomicI64,
    progress: Mutex<ProgressTracker>,
}

impl HeldExecution {
    pub(super) fn new(lease: Lease, workflow: String, leased_until_ms: i64) -> Self {
        Self {
            lease,
            workflow,
            signal: Notify::new(),
            has_message: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            leased_until_ms: AtomicI64::new(leased_until_ms),
            progress: Mutex::default(),
        }
    }

    /// Notifies the driver that a message may be waiting.
    pub(super) fn notify_message(&self) {
        self.has_message.store(true, Ordering::Release);
        self.signal.notify_one();
    }

    /// Whether a message may be waiting; clears the flag.
    pub(super) fn take_message_notice(&self) -> bool {
        self.has_message.swap(false, Ordering::AcqRel)
    }

    /// Records a renewed lease.
    pub(super) fn extend_lease(&self, until_ms: i64) {
        self.leased_until_ms.store(until_ms, Ordering::Release);
    }

    pub(super) fn leased_until_ms(&self) -> i64 {
        self.leased_until_ms.load(Ordering::Acquire)
    }

    /// Notifies the driver that the lease is lost.
    pub(super) fn mark_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.signal.notify_one();
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Records a task's progress report.
    pub(super) fn record_progress(&self, progress: TaskProgress) {
        self.lock_progress().record(progress);
    }

    /// Records that a task is no longer running.
    pub(super) fn finish_task(&self, task: TaskId) {
        self.lock_progress().finish_task(task);
    }

    pub(super) fn progress(&self) -> Vec<TaskProgress> {
        self.lock_progress().reports()
    }

    fn lock_progress(&self) -> MutexGuard<'_, ProgressTracker> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
