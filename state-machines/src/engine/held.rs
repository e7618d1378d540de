//! An execution that is in memory, as others see it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::TaskProgress;
use super::pace::Told;
use crate::core::TaskId;
use crate::store::Lease;

/// An execution that is in memory.
pub(super) struct Held {
    pub(super) lease: Lease,
    pub(super) workflow: String,
    /// Wakes its holder to look at the two below.
    pub(super) signal: Notify,
    has_mail: AtomicBool,
    is_lost: AtomicBool,
    /// When the lease runs out unless it is renewed: for this process, which asked
    /// for it before the store wrote it down.
    leased_until_ms: AtomicI64,
    told: Mutex<Told>,
}

impl Held {
    pub(super) fn new(lease: Lease, workflow: String, leased_until_ms: i64) -> Self {
        Self {
            lease,
            workflow,
            signal: Notify::new(),
            has_mail: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            leased_until_ms: AtomicI64::new(leased_until_ms),
            told: Mutex::default(),
        }
    }

    /// A message may wait for it.
    pub(super) fn has_mail(&self) {
        self.has_mail.store(true, Ordering::Release);
        self.signal.notify_one();
    }

    /// Whether a message may wait; asked once.
    pub(super) fn take_mail(&self) -> bool {
        self.has_mail.swap(false, Ordering::AcqRel)
    }

    /// Its lease lasts until then.
    pub(super) fn renewed(&self, until_ms: i64) {
        self.leased_until_ms.store(until_ms, Ordering::Release);
    }

    pub(super) fn leased_until_ms(&self) -> i64 {
        self.leased_until_ms.load(Ordering::Acquire)
    }

    /// Another holds it now.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.signal.notify_one();
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// A task tells how far it is.
    pub(super) fn tell(&self, progress: TaskProgress) {
        self.told().tell(progress);
    }

    /// A task is over.
    pub(super) fn forget(&self, task: TaskId) {
        self.told().forget(task);
    }

    pub(super) fn progress(&self) -> Vec<TaskProgress> {
        self.told().all()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
