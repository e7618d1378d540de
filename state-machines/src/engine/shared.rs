//! What the parts of an engine share.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZero;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::TaskProgress;
use super::held::Held;
use super::watched::Watched;
use super::{Clock, Registry, Settings};
use crate::language::Definition;
use crate::store::{Lease, Store, StoreError, StoreResult};

/// How many executions' tasks that were handed over are remembered by what they
/// told last.
const TOLD_MAX: usize = 10_000;

/// What the parts of an engine share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) registry: Registry,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Settings,
    /// One for each execution that may be in memory.
    pub(super) slots: Arc<Semaphore>,
    /// One for each task that may run.
    pub(super) hands: Arc<Semaphore>,
    /// One for each thread that may evaluate JSONata.
    heads: Arc<Semaphore>,
    pub(super) watched: Watched,
    /// Whether nothing new is begun.
    pub(super) stopping: watch::Sender<bool>,
    /// Read-locked while executions are claimed or started: who has it alone
    /// knows that none are.
    pub(super) gate: tokio::sync::RwLock<()>,
    /// How many messages were sent from here: whoever takes an execution up
    /// sees whether it may have missed one.
    pub(super) posts: AtomicU64,
    /// When the leases have to be renewed.
    pub(super) renew_at_ms: AtomicI64,
    held: Mutex<HashMap<String, Arc<Held>>>,
    /// What tasks that were handed over told last, of executions that only
    /// wait for them.
    told: Mutex<HashMap<String, Vec<TaskProgress>>>,
    /// How many executions are in memory.
    pub(super) held_count: watch::Sender<usize>,
    /// Executions with a step that the store cannot keep, and why: they fail
    /// when they are taken up.
    unfit: Mutex<HashMap<String, String>>,
    definitions: Mutex<HashMap<String, Arc<Definition>>>,
    /// Taken by whoever reads a definition: thousands that start at once wait
    /// for the first of them instead of reading it all.
    reading: tokio::sync::Mutex<()>,
    /// Everything that runs; nothing, once the engine is gone.
    crew: Mutex<Option<JoinSet<()>>>,
}

impl Shared {
    pub(super) fn new(
        store: Arc<dyn Store>,
        registry: Registry,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let permits = |count: usize| count.clamp(1, Semaphore::MAX_PERMITS);
        let renew_at_ms = clock.now_ms().saturating_add(settings.lease_ms / 3);
        Self {
            store,
            registry,
            clock,
            slots: Arc::new(Semaphore::new(permits(settings.held_max))),
            hands: Arc::new(Semaphore::new(permits(settings.tasks_max))),
            heads: Arc::new(Semaphore::new(heads())),
            settings,
            watched: Watched::default(),
            stopping: watch::Sender::new(false),
            gate: tokio::sync::RwLock::default(),
            posts: AtomicU64::new(0),
            renew_at_ms: AtomicI64::new(renew_at_ms),
            held: Mutex::default(),
            told: Mutex::default(),
            held_count: watch::Sender::new(0),
            unfit: Mutex::default(),
            definitions: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            crew: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// Runs something for as long as the engine is there.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(crew) = lock(&self.crew).as_mut() {
            while crew.try_join_next().is_some() {}
            crew.spawn(work);
        }
    }

    /// Drops everything that runs, wherever it is; whoever waits for what is
    /// returned knows that nothing runs any more.
    pub(super) fn abandon(&self) -> impl Future<Output = ()> + use<> {
        let mut crew = lock(&self.crew).take().unwrap_or_default();
        crew.abort_all();
        async move { while crew.join_next().await.is_some() {} }
    }

    /// Applies events of a definition. JSONata may take long, so that is done
    /// on threads of its own, a few at a time: what else the process does goes
    /// on. The rest takes no time worth a change of threads. The error is a
    /// panic's, or that of a process that ends.
    pub(super) async fn evaluate<R: Send + 'static>(
        &self,
        definition: &Definition,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, String> {
        if !definition.uses_jsonata() {
            return Ok(work());
        }
        let head = Arc::clone(&self.heads).acquire_owned().await;
        let thought = tokio::task::spawn_blocking(move || {
            // It is taken until the work is over, whoever still waits for it.
            let _head = head;
            work()
        });
        thought.await.map_err(|error| error.to_string())
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// When a lease that is taken now runs out.
    pub(super) fn lease_until_ms(&self) -> i64 {
        let now = self.clock.now_ms();
        now.saturating_add(self.settings.lease_ms)
    }

    /// An execution is in memory. Of two who have it, the one with the older
    /// lease has lost it.
    pub(super) fn hold(&self, held: &Arc<Held>) {
        let mut all = lock(&self.held);
        let other = all.get(&held.lease.id);
        if other.is_some_and(|other| other.lease.fence > held.lease.fence) {
            return held.lose();
        }
        if let Some(before) = all.insert(held.lease.id.clone(), Arc::clone(held)) {
            before.lose();
        }
        self.held_count.send_replace(all.len());
        for told in lock(&self.told).remove(&held.lease.id).unwrap_or_default() {
            held.tell(told);
        }
    }

    /// It is no longer, unless it was taken up again since.
    pub(super) fn let_go(&self, held: &Held) {
        let mut all = lock(&self.held);
        let found = all.get(&held.lease.id);
        if found.is_some_and(|found| found.lease == held.lease) {
            all.remove(&held.lease.id);
            let progress = held.progress();
            let mut told = lock(&self.told);
            if !progress.is_empty() && told.len() < TOLD_MAX {
                told.insert(held.lease.id.clone(), progress);
            }
        }
        self.held_count.send_replace(all.len());
    }

    /// How far the tasks of an execution are, as far as they told it here.
    pub(super) fn progress(&self, id: &str) -> Vec<TaskProgress> {
        match self.held(id) {
            Some(held) => held.progress(),
            None => lock(&self.told).get(id).cloned().unwrap_or_default(),
        }
    }

    /// An execution has ended: nobody asks how far its tasks are.
    pub(super) fn is_over(&self, id: &str) {
        lock(&self.told).remove(id);
    }

    pub(super) fn held(&self, id: &str) -> Option<Arc<Held>> {
        lock(&self.held).get(id).cloned()
    }

    /// A step of an execution cannot be kept.
    pub(super) fn is_unfit(&self, id: &str, why: String) {
        lock(&self.unfit).insert(id.to_owned(), why);
    }

    /// Why the last step of an execution could not be kept; asked once.
    pub(super) fn take_unfit(&self, id: &str) -> Option<String> {
        lock(&self.unfit).remove(id)
    }

    pub(super) fn leases(&self) -> Vec<Lease> {
        let all = lock(&self.held);
        all.values().map(|held| held.lease.clone()).collect()
    }

    /// A message was sent to an execution.
    pub(super) fn posted(&self, id: &str) {
        self.posts.fetch_add(1, Ordering::AcqRel);
        if let Some(held) = self.held(id) {
            held.has_mail();
        }
    }

    fn known(&self, hash: &str) -> Option<Arc<Definition>> {
        lock(&self.definitions).get(hash).cloned()
    }

    /// A definition by its hash; `None` if it is not kept.
    pub(super) async fn definition(
        &self,
        hash: &str,
    ) -> StoreResult<Option<Result<Arc<Definition>, String>>> {
        if let Some(known) = self.known(hash) {
            return Ok(Some(Ok(known)));
        }
        let _reading = self.reading.lock().await;
        if let Some(known) = self.known(hash) {
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

    /// Waits before something is tried again: longer each time.
    pub(super) async fn back_off(&self, attempt: u32, error: &StoreError) {
        let wait = 50_i64.saturating_mul(1 << attempt.min(6));
        tracing::warn!(
            error = error as &(dyn std::error::Error + 'static),
            wait_ms = wait,
            "the store failed, and is tried again"
        );
        let until = self.clock.now_ms().saturating_add(wait);
        self.clock.sleep_until(until).await;
    }
}

/// How many threads may evaluate JSONata: one processor is left to the rest.
fn heads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_sub(1).max(1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What they guard is changed in one go.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
