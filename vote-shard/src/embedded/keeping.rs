//! Asking the keeper for a checkpoint, and being told that it is made.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::shard::ShardError;

/// Why there is no checkpoint.
#[derive(Debug, Clone)]
pub(super) struct NotKept {
    pub(super) cause: String,
    /// Whether what is stored is not what was written.
    pub(super) is_damage: bool,
}

impl From<NotKept> for ShardError {
    fn from(not: NotKept) -> Self {
        match not.is_damage {
            true => Self::Damaged { what: not.cause },
            false => Self::unavailable(not.cause),
        }
    }
}

/// Asking the keeper for a checkpoint.
pub(super) struct Keeping {
    /// How often it was asked.
    asked: Mutex<u64>,
    wake: Condvar,
    /// The same, for whoever keeps step by step without a thread.
    pub(super) stirred: Notify,
    /// Up to which of these it has answered, and how the last one went.
    done: watch::Sender<(u64, Result<(), NotKept>)>,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            wake: Condvar::new(),
            stirred: Notify::new(),
            done: watch::Sender::new((0, Ok(()))),
        }
    }
}

impl Keeping {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the keeper look around.
    pub(super) fn wake(&self) {
        let _asked = self.lock();
        self.wake.notify_all();
    }

    /// Asks for a checkpoint and waits until it is made.
    pub(super) async fn ask(&self) -> Result<(), NotKept> {
        let mut done = self.done.subscribe();
        let number = {
            let mut asked = self.lock();
            *asked += 1;
            *asked
        };
        self.wake.notify_one();
        self.stirred.notify_one();
        match done.wait_for(|(answered, _)| *answered >= number).await {
            Ok(answer) => answer.1.clone(),
            Err(_) => Err(NotKept {
                cause: "the shard is closing".to_owned(),
                is_damage: false,
            }),
        }
    }

    /// Waits until something is asked, or for so long, or not at all when it
    /// is time to stop; says what was asked last, 0 for nothing.
    pub(super) fn wait(&self, patience: Duration, is_stopping: impl FnOnce() -> bool) -> u64 {
        let answered = self.done.borrow().0;
        let mut asked = self.lock();
        // Under the lock: whoever stops the keeper wakes it after saying so.
        if *asked <= answered && !is_stopping() {
            asked = self
                .wake
                .wait_timeout(asked, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        if *asked > answered { *asked } else { 0 }
    }

    /// What was asked last and not answered yet, 0 for nothing.
    pub(super) fn asked(&self) -> u64 {
        let (answered, asked) = (self.done.borrow().0, *self.lock());
        if asked > answered { asked } else { 0 }
    }

    /// Tells those who asked how it went.
    pub(super) fn answer(&self, asked: u64, outcome: Result<(), NotKept>) {
        if asked > 0 {
            let _ = self.done.send_replace((asked, outcome));
        }
    }
}
