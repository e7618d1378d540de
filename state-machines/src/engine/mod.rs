//! The durable engine: it drives executions with [core](crate::core) and keeps
//! them in a [store](crate::store). The process can be killed at any moment: the
//! next engine resumes every execution from its journal.
//!
//! ```text
//!   task, registry, context   handlers of Tasks, and what they see of an execution
//!   journal          applies events and makes them one step; pure
//!   driver           one execution in memory: wait for work, apply, append, execute
//!   task_runner      runs one task, with its timeouts
//!   nested           Tasks that start executions and wait for them
//!   claimer          claims due executions and renews leases
//!   message, commands   pause, resume, cancel, signal: through the store's inbox
//!   offline          changes to executions while no engine runs
//!   callbacks        tasks that wait for a callback, and their tokens
//!   view, queries, watch   what callers read
//!   clock, settings, error    time, limits, refusals
//! ```
//!
//! Events are durable before their effects happen: a task's result and the order
//! for the next task are one append. After a crash the engine runs in-flight tasks
//! again under the same [idempotency key](TaskContext::idempotency_key). A task
//! that had finished may run twice, but its journal records one result.
//!
//! An execution that only waits uses no memory: the store wakes it.
//!
//! The [crate's page](crate) has an example.

mod callbacks;
mod change_notifier;
mod claimer;
mod clock;
mod commands;
mod context;
mod driver;
mod error;
mod held_execution;
mod journal;
mod message;
mod nested;
mod offline;
mod progress_rate;
mod queries;
mod registry;
mod settings;
mod shared;
mod start;
pub mod task;
mod task_runner;
mod view;
mod watch;

use std::sync::Arc;

pub use callbacks::PendingCallback;
pub use clock::{EngineClock, ManualEngineClock, SystemClock};
pub use context::{ProgressReport, TaskContext, TaskProgress};
pub use error::{CommandError, DeployError, InvalidName, MissingHandlers, StartError};
pub use message::Signal;
pub use offline::cancel_open_executions;
pub use registry::HandlerRegistry;
pub use settings::EngineSettings;
pub use start::{DeployableDefinition, hash_definition};
pub use task::{Handler, TaskError, TaskOutcome, TypedTask};
pub use view::{ExecutionDetails, ExecutionHistory, ExecutionOverview};
pub use watch::ExecutionWatch;

use crate::core::Position;
use crate::store::{
    ExecutionQuery, ExecutionStore, ExecutionStoreError, ExecutionStoreResult, HistoryQuery,
};
use callbacks::StoredPosition;
use shared::Shared;

/// Runs executions. Clones share one engine. Dropping the last clone aborts all
/// running work, as a crash does; [`stop`](Self::stop) shuts down gracefully.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    _shutdown_guard: Arc<ShutdownGuard>,
}

/// Aborts all work of an engine when the last [`Engine`] is dropped.
struct ShutdownGuard(Arc<Shared>);

impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        drop(self.0.abort_all());
    }
}

impl Engine {
    /// Starts an engine on a store. It first resumes the executions that this
    /// worker name held before a restart.
    pub async fn new(
        store: Arc<dyn ExecutionStore>,
        registry: HandlerRegistry,
        clock: Arc<dyn EngineClock>,
        settings: EngineSettings,
    ) -> ExecutionStoreResult<Self> {
        let shared = Arc::new(Shared::new(store, registry, clock, settings));
        let (worker, now) = (&shared.settings.worker, shared.clock.now_ms());
        let before = shared.store.release_worker_leases(worker, now).await?;
        if before > 0 {
            tracing::info!(
                worker,
                executions = before,
                "resuming executions left by the previous process"
            );
        }
        shared.spawn(claimer::run_claim_loop(Arc::clone(&shared)));
        shared.spawn(claimer::run_lease_loop(Arc::clone(&shared)));
        Ok(Self {
            _shutdown_guard: Arc::new(ShutdownGuard(Arc::clone(&shared))),
            shared,
        })
    }

    /// Describes an execution; `None` if it does not exist.
    pub async fn get(&self, id: &str) -> ExecutionStoreResult<Option<ExecutionDetails>> {
        let found = self.shared.store.get(id).await?;
        let Some(found) = found else {
            return Ok(None);
        };
        if !found.row.status.is_open() {
            self.shared.discard_progress(id);
        }
        let progress = self.shared.progress(id);
        let mut described = ExecutionDetails::new(found, progress);
        described.drop_stale_progress();
        Ok(Some(described))
    }

    /// The positions of an execution; `None` if it does not exist.
    pub async fn position(&self, id: &str) -> ExecutionStoreResult<Option<Vec<Position>>> {
        let found = self.get(id).await?;
        Ok(found.map(|found| found.summary.position))
    }

    /// The tasks of an execution that wait for a callback. The list is truncated
    /// for executions with very many runs. `None` if the execution does not exist.
    pub async fn pending_callbacks(
        &self,
        id: &str,
    ) -> ExecutionStoreResult<Option<Vec<PendingCallback>>> {
        let found = self.shared.store.get(id).await?;
        Ok(found.map(|found| StoredPosition::parse(&found.row.position).into_pending_callbacks()))
    }

    /// The latest progress that tasks of an execution reported to this process.
    #[must_use]
    pub fn progress(&self, id: &str) -> Vec<TaskProgress> {
        self.shared.progress(id)
    }

    /// Lists executions, newest first.
    pub async fn list(
        &self,
        query: &ExecutionQuery,
    ) -> ExecutionStoreResult<Vec<ExecutionOverview>> {
        let rows = self.shared.store.list(query).await?;
        Ok(rows.into_iter().map(ExecutionOverview::from).collect())
    }

    /// A page of an execution's history; `None` if the execution does not exist.
    pub async fn history(
        &self,
        id: &str,
        query: &HistoryQuery,
    ) -> ExecutionStoreResult<Option<ExecutionHistory>> {
        let Some(page) = self.shared.store.history(id, query).await? else {
            return Ok(None);
        };
        let events = page.events.iter().map(|event| serde_json::from_str(event));
        let events = events
            .collect::<Result<_, _>>()
            .map_err(|error| ExecutionStoreError::new("read a history", error))?;
        Ok(Some(ExecutionHistory {
            events,
            last_id: page.last_id,
            more: page.more,
        }))
    }

    /// Watches an execution for changes.
    #[must_use]
    pub fn watch(&self, id: &str) -> ExecutionWatch {
        ExecutionWatch::new(self.clone(), id)
    }

    /// Waits until an execution ends; `None` if it does not exist.
    pub async fn wait_for_end(&self, id: &str) -> ExecutionStoreResult<Option<ExecutionDetails>> {
        let mut watch = self.watch(id);
        let mut last = None;
        while let Some(seen) = watch.next().await? {
            last = Some(seen);
        }
        Ok(last)
    }

    /// How many executions are in memory. Executions that only wait are not.
    #[must_use]
    pub fn held_count(&self) -> usize {
        *self.shared.held_count.borrow()
    }

    /// Stops gracefully: starts no new work, gives tasks a grace period to finish,
    /// and releases every lease so that another worker can continue at once.
    pub async fn stop(&self) {
        self.shared.stopping.send_replace(true);
        // The write lock waits for claims and starts in flight, and blocks new
        // ones: this engine must not claim again what it releases.
        let _alone = self.shared.gate.write().await;
        let mut held = self.shared.held_count.subscribe();
        // `shared` owns the sender, so the wait ends only when the count is 0.
        let _ = held.wait_for(|held| *held == 0).await;
        self.shared.abort_all().await;
    }

    /// Aborts all running work, as a crash does, and returns when nothing runs any
    /// more. For crash tests.
    pub async fn kill(self) {
        self.shared.abort_all().await;
    }
}
