//! How an engine works.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::core::Limits;

/// How an engine works. The default is right for one process per store.
#[derive(Clone)]
pub struct Settings {
    /// The worker's name. It must be another for every engine that uses the
    /// same store at the same time, and the same after a restart: then what
    /// was held is taken up at once. Otherwise it waits for the lease.
    pub worker: String,
    /// How many executions are in memory at most. Those that only wait are
    /// not, so this bounds how many have tasks running.
    pub held_max: usize,
    /// How many tasks run at once; others queue.
    pub tasks_max: usize,
    /// How long a lease holds without being renewed, in milliseconds: how long
    /// an execution stands still when its worker has died for good.
    pub lease_ms: i64,
    /// How often other processes' messages and wake times are looked for, in
    /// milliseconds. What happens in this process is known at once.
    pub poll_ms: i64,
    /// An execution that waits for longer than this is put away, in
    /// milliseconds.
    pub park_after_ms: i64,
    /// How long a task that should stop may go on before it is dropped, in
    /// milliseconds.
    pub grace_ms: i64,
    /// How far executions may go. Few states per event keep a step small; many
    /// events make one step.
    pub limits: Limits,
    /// Where new executions get their seeds from: what every random value of
    /// theirs, and their tokens, are derived from. It must not be guessable.
    pub chance: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            worker: "engine".to_owned(),
            held_max: 4_096,
            tasks_max: 1_024,
            lease_ms: 30_000,
            poll_ms: 1_000,
            park_after_ms: 1_000,
            grace_ms: 10_000,
            limits: Limits {
                // So many states with the largest of payloads fit one step.
                states_per_event_max: 16,
                ..Limits::default()
            },
            // Keyed by the system's randomness, and each has other keys.
            chance: Arc::new(|| RandomState::new().hash_one(0)),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("worker", &self.worker)
            .field("held_max", &self.held_max)
            .field("tasks_max", &self.tasks_max)
            .field("lease_ms", &self.lease_ms)
            .field("poll_ms", &self.poll_ms)
            .field("park_after_ms", &self.park_after_ms)
            .field("grace_ms", &self.grace_ms)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
