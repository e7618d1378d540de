//! Requests for a checkpoint, and waiting until it is made.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::shard::ShardError;

/// Why a checkpoint failed.
#[derive(Debug, Clone)]
pub(in crate::embedded) struct CheckpointFailure {
    pub(in crate::embedded) cause: String,
    /// Whether stored data is damaged.
    pub(in crate::embedded) is_damage: bool,
}

impl From<CheckpointFailure> for ShardError {
    fn from(not: CheckpointFailure) -> Self {
        match not.is_damage {
            true => Self::Damaged { what: not.cause },
            false => Self::unavailable(not.cause),
        }
    }
}

/// Requests for a checkpoint, and waiting until it is made.
pub(in crate::embedded) struct CheckpointRequests {
    /// The number of requests so far.
    asked: Mutex<u64>,
    wake: Condvar,
    /// The same for [`crate::embedded::engine::stepped::CompactorSteps`], which
    /// has no thread.
    pub(in crate::embedded) work_notify: Notify,
    /// The last answered request, and its outcome.
    done: watch::Sender<(u64, Result<(), CheckpointFailure>)>,
}

impl Default for CheckpointRequests {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            wake: Condvar::new(),
            work_notify: Notify::new(),
            done: watch::Sender::new((0, Ok(()))),
        }
    }
}

impl CheckpointRequests {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the compactor.
    pub(in crate::embedded) fn wake(&self) {
        let _asked = self.lock();
        self.wake.notify_all();
    }

    /// Requests a checkpoint and waits until it is made.
    pub(in crate::embedded) async fn request(&self) -> Result<(), CheckpointFailure> {
        let mut done = self.done.subscribe();
        let number = {
            let mut asked = self.lock();
            *asked += 1;
            *asked
        };
        self.wake.notify_one();
        self.work_notify.notify_one();
        match done.wait_for(|(answered, _)| *answered >= number).await {
            Ok(answer) => answer.1.clone(),
            Err(_) => Err(CheckpointFailure {
                cause: "the shard is closing".to_owned(),
                is_damage: false,
            }),
        }
    }

    /// Waits for a request, at most for `patience`, and not at all when the
    /// shard is stopping. Returns the latest request, or 0.
    pub(in crate::embedded) fn wait(
        &self,
        patience: Duration,
        is_stopping: impl FnOnce() -> bool,
    ) -> u64 {
        let answered = self.done.borrow().0;
        let mut asked = self.lock();
        // Under the lock: `stop` sets the flag first and then wakes.
        if *asked <= answered && !is_stopping() {
            asked = self
                .wake
                .wait_timeout(asked, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        if *asked > answered { *asked } else { 0 }
    }

    /// The latest unanswered request, or 0.
    pub(in crate::embedded) fn pending(&self) -> u64 {
        let (answered, asked) = (self.done.borrow().0, *self.lock());
        if asked > answered { asked } else { 0 }
    }

    /// Answers all requests up to `asked`.
    pub(in crate::embedded) fn complete(&self, asked: u64, outcome: Result<(), CheckpointFailure>) {
        if asked > 0 {
            let _ = self.done.send_replace((asked, outcome));
        }
    }
}
