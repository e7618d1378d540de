//! The durable engine: executions are driven by [core](crate::core) and kept
//! in a [store](crate::store). Kill it at any moment: it goes on where it was.
//!
//! ```text
//!   task, registry, context   what does the work, and what it may know
//!   journal    events applied and made a step; pure
//!   holder     an execution in memory: gather, apply, append, carry out
//!   runner     one task, run for as long as it may
//!   nested     tasks that start executions, and wait for them
//!   claimer    what is due is taken up, leases are kept
//!   message    pause, resume, cancel, signal: through the store's inbox
//!   offline    what is done while no engine runs
//!   waiting    which tasks were handed over, and which tokens are waited for
//!   view, look, watch   what is shown
//!   clock, settings, error    time, bounds, refusals
//! ```
//!
//! What happens to an execution is durable before anything follows from it: an
//! answer and the order of the next task are one append. After a crash, tasks
//! that were in flight are run again under the same
//! [idempotency key](TaskContext::idempotency_key); one that was done may be
//! done twice, but its journal has one answer.
//!
//! An execution that only waits is in no memory: the store wakes it.
//!
//! The [crate's page](crate) has an example.

mod ask;
mod claimer;
mod clock;
mod context;
mod error;
mod held;
mod holder;
mod journal;
mod look;
mod message;
mod nested;
mod offline;
mod pace;
mod registry;
mod runner;
mod settings;
mod shared;
mod start;
pub mod task;
mod view;
mod waiting;
mod watch;
mod watched;

use std::sync::Arc;

pub use clock::{Clock, ManualClock, SystemClock};
pub use context::{Progress, TaskContext, TaskProgress};
pub use error::{AskError, BadName, DeployError, NoHandler, StartError};
pub use message::Signal;
pub use offline::cancel_open;
pub use registry::Registry;
pub use settings::Settings;
pub use start::{Examined, hash};
pub use task::{Answer, Handler, Task, TaskError};
pub use view::{Description, History, Summary};
pub use waiting::Waiting;
pub use watch::Watch;

use crate::core::Position;
use crate::store::{HistoryQuery, Query, Store, StoreError, StoreResult};
use shared::Shared;
use waiting::Stands;

/// Runs executions. Clones are the same engine; when the last one is dropped
/// everything that runs is dropped where it is, as in a crash.
/// [`stop`](Self::stop) is kinder.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    _alive: Arc<Alive>,
}

/// Ends everything that an engine runs with the engine.
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        drop(self.0.abandon());
    }
}

impl Engine {
    /// Begins to run what is due in a store. What this worker held in an
    /// earlier life is taken up first.
    pub async fn new(
        store: Arc<dyn Store>,
        registry: Registry,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> StoreResult<Self> {
        let shared = Arc::new(Shared::new(store, registry, clock, settings));
        let (worker, now) = (&shared.settings.worker, shared.clock.now_ms());
        let before = shared.store.take_back(worker, now).await?;
        if before > 0 {
            tracing::info!(
                worker,
                executions = before,
                "executions of an earlier life are taken up"
            );
        }
        shared.spawn(claimer::claim(Arc::clone(&shared)));
        shared.spawn(claimer::keep(Arc::clone(&shared)));
        Ok(Self {
            _alive: Arc::new(Alive(Arc::clone(&shared))),
            shared,
        })
    }

    /// An execution.
    pub async fn get(&self, id: &str) -> StoreResult<Option<Description>> {
        let found = self.shared.store.get(id).await?;
        let Some(found) = found else {
            return Ok(None);
        };
        if !found.row.status.is_open() {
            self.shared.is_over(id);
        }
        let progress = self.shared.progress(id);
        let mut described = Description::new(found, progress);
        described.keep_current_progress();
        Ok(Some(described))
    }

    /// Where an execution stands; `None` if there is none of this id.
    pub async fn position(&self, id: &str) -> StoreResult<Option<Vec<Position>>> {
        let found = self.get(id).await?;
        Ok(found.map(|found| found.summary.position))
    }

    /// The tasks of an execution that were handed over and are waited for; of
    /// very many, the first. `None` if there is none of this id.
    pub async fn waiting(&self, id: &str) -> StoreResult<Option<Vec<Waiting>>> {
        let found = self.shared.store.get(id).await?;
        Ok(found.map(|found| Stands::read(&found.row.position).waiting()))
    }

    /// How far the tasks of an execution are, as far as they run here and tell.
    #[must_use]
    pub fn progress(&self, id: &str) -> Vec<TaskProgress> {
        self.shared.progress(id)
    }

    /// Executions, the newest first.
    pub async fn list(&self, query: &Query) -> StoreResult<Vec<Summary>> {
        let rows = self.shared.store.list(query).await?;
        Ok(rows.into_iter().map(Summary::from).collect())
    }

    /// A page of an execution's history; `None` if there is none of this id.
    pub async fn history(&self, id: &str, query: &HistoryQuery) -> StoreResult<Option<History>> {
        let Some(page) = self.shared.store.history(id, query).await? else {
            return Ok(None);
        };
        let events = page.events.iter().map(|event| serde_json::from_str(event));
        let events = events
            .collect::<Result<_, _>>()
            .map_err(|error| StoreError::new("read a history", error))?;
        Ok(Some(History {
            events,
            last_id: page.last_id,
            more: page.more,
        }))
    }

    /// An execution as it changes.
    #[must_use]
    pub fn watch(&self, id: &str) -> Watch {
        Watch::new(self.clone(), id)
    }

    /// An execution once it has ended; `None` if there is none of this id.
    pub async fn ended(&self, id: &str) -> StoreResult<Option<Description>> {
        let mut watch = self.watch(id);
        let mut last = None;
        while let Some(seen) = watch.next().await? {
            last = Some(seen);
        }
        Ok(last)
    }

    /// How many executions are in memory: those that do more than wait.
    #[must_use]
    pub fn held(&self) -> usize {
        *self.shared.held_count.borrow()
    }

    /// Stops: begins nothing more, lets tasks finish for a while, puts every
    /// execution away so that others can take it up at once.
    pub async fn stop(&self) {
        self.shared.stopping.send_replace(true);
        // What is put away must not be claimed again by us, and what is being
        // started is put away like the rest.
        let _alone = self.shared.gate.write().await;
        let mut held = self.shared.held_count.subscribe();
        // The sender is ours: the wait ends only with the last of them.
        let _ = held.wait_for(|held| *held == 0).await;
        self.shared.abandon().await;
    }

    /// Drops everything that runs where it is, as a crash does, and returns
    /// once nothing runs any more: for tests of crashes.
    pub async fn kill(self) {
        self.shared.abandon().await;
    }
}
