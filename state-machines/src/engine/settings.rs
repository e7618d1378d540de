//! Settings of an engine.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::core::ExecutionLimits;

/// Settings of an engine. The default suits one process per store.
#[derive(Clone)]
pub struct EngineSettings {
    /// The worker's name. Engines that use the same store at the same time need
    /// different names. Keep the name across restarts: then the engine resumes at
    /// once what it held; otherwise it waits until the leases expire.
    pub worker: String,
    /// How many executions are in memory at most. Parked executions are not, so
    /// this limits how many have running tasks.
    pub held_max: usize,
    /// How many tasks run at once; others queue.
    pub tasks_max: usize,
    /// How long a lease lasts without renewal, in milliseconds: how long an
    /// execution waits after its worker died.
    pub lease_ms: i64,
    /// How often to look for messages and wake times from other processes, in
    /// milliseconds. Those of this process are noticed at once.
    pub poll_ms: i64,
    /// An execution that waits for longer than this is parked, in milliseconds.
    pub park_after_ms: i64,
    /// The grace period of a task that should stop, in milliseconds; then it is
    /// dropped.
    pub grace_ms: i64,
    /// Limits of executions. Few states per event keep a step small; many events
    /// still share one step.
    pub limits: ExecutionLimits,
    /// Seeds of new executions. All random values and tokens of an execution derive
    /// from its seed, so it must not be guessable.
    pub random_seed: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            worker: "engine".to_owned(),
            held_max: 4_096,
            tasks_max: 2_048,
            lease_ms: 30_000,
            poll_ms: 1_000,
            park_after_ms: 1_000,
            grace_ms: 10_000,
            limits: ExecutionLimits {
                // This many states with the largest payloads fit into one step.
                states_per_event_max: 16,
                ..ExecutionLimits::default()
            },
            // Each `RandomState` has fresh keys from the system's random source.
            random_seed: Arc::new(|| RandomState::new().hash_one(0)),
        }
    }
}

impl fmt::Debug for EngineSettings {
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
