//! State that the parts of an engine share.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZero;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::TaskProgress;
use super::change_notifier::ChangeNotifier;
use super::held_execution::HeldExecution;
use super::{EngineClock, EngineSettings, HandlerRegistry};
use crate::language::Definition;
use crate::store::{ExecutionStore, ExecutionStoreError, ExecutionStoreResult, Lease};

/// For how many parked executions the last progress reports are kept.
const PARKED_PROGRESS_MAX: usize = 10_000;

/// State that the parts of an engine share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn ExecutionStore>,
    pub(super) registry: HandlerRegistry,
    pub(super) clock: Arc<dyn EngineClock>,
    pub(super) settings: EngineSettings,
    /// One permit for each execution in memory.
    pub(super) execution_permits: Arc<Semaphore>,
    /// One permit for each running task.
    pub(super) task_permits: Arc<Semaphore>,
    /// One permit for each thread that evaluates JSONata.
    jsonata_permits: Arc<Semaphore>,
    pub(super) change_notifier: ChangeNotifier,
    /// Whether the engine is stopping and starts nothing new.
    pub(super) stopping: watch::Sender<bool>,
    /// Read-locked during claims and starts: the write lock waits until none is in
    /// flight.
    pub(super) gate: tokio::sync::RwLock<()>,
    /// Counts messages posted from here, so that a claim notices those that it may
    /// have missed.
    pub(super) posts: AtomicU64,
    /// When the leases have to be renewed.
    pub(super) renew_at_ms: AtomicI64,
    held: Mutex<HashMap<String, Arc<HeldExecution>>>,
    /// The last progress of callback tasks whose executions are parked.
    parked_progress: Mutex<HashMap<String, Vec<TaskProgress>>>,
    /// How many executions are in memory.
    pub(super) held_count: watch::Sender<usize>,
    /// Executions with a step that the store refused, and why. They fail when they
    /// are claimed again.
    rejected_steps: Mutex<HashMap<String, String>>,
    definitions: Mutex<HashMap<String, Arc<Definition>>>,
    /// Held while a definition is loaded: thousands of simultaneous starts wait for
    /// one load instead of each loading it.
    reading: tokio::sync::Mutex<()>,
    /// Everything that runs; `None` once the engine is gone.
    tasks: Mutex<Option<JoinSet<()>>>,
}

impl Shared {
    pub(super) fn new(
        store: Arc<dyn ExecutionStore>,
        registry: HandlerRegistry,
        clock: Arc<dyn EngineClock>,
        settings: EngineSettings,
    ) -> Self {
        let permits = |count: usize| count.clamp(1, Semaphore::MAX_PERMITS);
        let renew_at_ms = clock.now_ms().saturating_add(settings.lease_ms / 3);
        Self {
            store,
            registry,
            clock,
            execution_permits: Arc::new(Semaphore::new(permits(settings.held_max))),
            task_permits: Arc::new(Semaphore::new(permits(settings.tasks_max))),
            jsonata_permits: Arc::new(Semaphore::new(jsonata_threads())),
            settings,
            change_notifier: ChangeNotifier::default(),
            stopping: watch::Sender::new(false),
            gate: tokio::sync::RwLock::default(),
            posts: AtomicU64::new(0),
            renew_at_ms: AtomicI64::new(renew_at_ms),
            held: Mutex::default(),
            parked_progress: Mutex::default(),
            held_count: watch::Sender::new(0),
            rejected_steps: Mutex::default(),
            definitions: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            tasks: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// Spawns work that is aborted with the engine.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = lock(&self.tasks).as_mut() {
            while tasks.try_join_next().is_some() {}
            tasks.spawn(work);
        }
    }

    /// Aborts everything that runs. The returned future completes when nothing runs
    /// any more.
    pub(super) fn abort_all(&self) -> impl Future<Output = ()> + use<> {
        let mut tasks = lock(&self.tasks).take().unwrap_or_default();
        tasks.abort_all();
        async move { while tasks.join_next().await.is_some() {} }
    }

    /// Runs an evaluation for a definition. JSONata may take long, so definitions
    /// that use it are evaluated on blocking threads, a few at a time. Others are
    /// too quick to be worth a change of threads. Fails if the evaluation panics or
    /// the runtime shuts down.
    pub(super) async fn evaluate<R: Send + 'static>(
        &self,
        definition: &Definition,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, String> {
        if !definition.uses_jsonata() {
            return Ok(work());
        }
        let permit = Arc::clone(&self.jsonata_permits).acquire_owned().await;
        let evaluated = tokio::task::spawn_blocking(move || {
            // Holds the permit until the work ends, even if the caller no longer
            // waits.
            let _permit = permit;
            work()
        });
        evaluated.await.map_err(|error| error.to_string())
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// When a lease taken now expires.
    pub(super) fn lease_until_ms(&self) -> i64 {
        let now = self.clock.now_ms();
        now.saturating_add(self.settings.lease_ms)
    }

    /// Registers a held execution. If it was registered before, the older lease is
    /// lost.
    pub(super) fn add_held(&self, held: &Arc<HeldExecution>) {
        let mut all = lock(&self.held);
        let other = all.get(&held.lease.id);
        if other.is_some_and(|other| other.lease.fence > held.lease.fence) {
            return held.mark_lost();
        }
        if let Some(before) = all.insert(held.lease.id.clone(), Arc::clone(held)) {
            before.mark_lost();
        }
        self.held_count.send_replace(all.len());
        for progress in lock(&self.parked_progress)
            .remove(&held.lease.id)
            .unwrap_or_default()
        {
            held.record_progress(progress);
        }
    }

    /// Unregisters a held execution, unless a newer lease is registered.
    pub(super) fn remove_held(&self, held: &HeldExecution) {
        let mut all = lock(&self.held);
        let found = all.get(&held.lease.id);
        if found.is_some_and(|found| found.lease == held.lease) {
            all.remove(&held.lease.id);
            let progress = held.progress();
            let mut parked = lock(&self.parked_progress);
            if !progress.is_empty() && parked.len() < PARKED_PROGRESS_MAX {
                parked.insert(held.lease.id.clone(), progress);
            }
        }
        self.held_count.send_replace(all.len());
    }

    /// The latest progress of an execution's tasks that was reported in this
    /// process.
    pub(super) fn progress(&self, id: &str) -> Vec<TaskProgress> {
        match self.find_held(id) {
            Some(held) => held.progress(),
            None => lock(&self.parked_progress)
                .get(id)
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// Drops the progress of an execution that has ended.
    pub(super) fn discard_progress(&self, id: &str) {
        lock(&self.parked_progress).remove(id);
    }

    pub(super) fn find_held(&self, id: &str) -> Option<Arc<HeldExecution>> {
        lock(&self.held).get(id).cloned()
    }

    /// Records that the store refused a step of an execution.
    pub(super) fn record_rejected_step(&self, id: &str, why: String) {
        lock(&self.rejected_steps).insert(id.to_owned(), why);
    }

    /// Why the store refused an execution's last step; clears it.
    pub(super) fn take_rejected_step(&self, id: &str) -> Option<String> {
        lock(&self.rejected_steps).remove(id)
    }

    pub(super) fn leases(&self) -> Vec<Lease> {
        let all = lock(&self.held);
        all.values().map(|held| held.lease.clone()).collect()
    }

    /// Counts a posted message, and notifies the driver if this process holds the
    /// execution.
    pub(super) fn notify_posted(&self, id: &str) {
        self.posts.fetch_add(1, Ordering::AcqRel);
        if let Some(held) = self.find_held(id) {
            held.notify_message();
        }
    }

    fn cached_definition(&self, hash: &str) -> Option<Arc<Definition>> {
        lock(&self.definitions).get(hash).cloned()
    }

    /// A definition by its hash, cached; `None` if the store does not have it.
    pub(super) async fn load_definition(
        &self,
        hash: &str,
    ) -> ExecutionStoreResult<Option<Result<Arc<Definition>, String>>> {
        if let Some(known) = self.cached_definition(hash) {
            return Ok(Some(Ok(known)));
        }
        let _reading = self.reading.lock().await;
        if let Some(known) = self.cached_definition(hash) {
            return Ok(Some(Ok(known)));
        }
        let Some(text) = self.store.definition(hash).await? else {
            return Ok(None);
        };
        let read = match Definition::parse(&text) {
            Ok(read) => Arc::new(read),
            Err(problems) => {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                return Ok(Some(Err(problems.join("; "))));
            }
        };
        lock(&self.definitions).insert(hash.to_owned(), Arc::clone(&read));
        Ok(Some(Ok(read)))
    }

    /// Backs off after a store failure: 50 ms to 3.2 s, doubling with each attempt.
    pub(super) async fn back_off(&self, attempt: u32, error: &ExecutionStoreError) {
        let wait = 50_i64.saturating_mul(1 << attempt.min(6));
        tracing::warn!(
            error = error as &(dyn std::error::Error + 'static),
            wait_ms = wait,
            "the store failed; retrying"
        );
        let until = self.clock.now_ms().saturating_add(wait);
        self.clock.sleep_until(until).await;
    }
}

/// How many threads may evaluate JSONata: all processors but one.
fn jsonata_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_sub(1).max(1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the data half changed: each change is a single call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
