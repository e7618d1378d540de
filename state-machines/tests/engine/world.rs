//! Stores and engines for tests, and waits. Every wait has a deadline in real time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballast_state_machines::core::{HistoryEvent, HistoryType, RunActivity};
use ballast_state_machines::engine::{
    Engine, EngineClock, EngineSettings, ExecutionDetails, HandlerRegistry, ManualEngineClock,
};
use ballast_state_machines::store::{ExecutionStore, HistoryQuery, MemoryStore, SqliteStore};
use serde_json::Value;
use tokio::sync::mpsc;

pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// A store and a clock for a test.
#[async_trait]
pub(crate) trait TestEnvironment: Sized + Send + Sync {
    async fn fresh() -> Self;
    fn store(&self) -> Arc<dyn ExecutionStore>;
    fn clock(&self) -> ManualEngineClock;

    /// Starts an engine. Engines started one after another are the same worker.
    async fn engine(&self, registry: HandlerRegistry) -> Engine {
        self.engine_with(registry, EngineSettings::default()).await
    }

    async fn engine_with(&self, registry: HandlerRegistry, settings: EngineSettings) -> Engine {
        let clock = Arc::new(self.clock());
        Engine::new(self.store(), registry, clock, settings)
            .await
            .unwrap()
    }
}

pub(crate) struct MemoryEnvironment {
    store: MemoryStore,
    clock: ManualEngineClock,
}

#[async_trait]
impl TestEnvironment for MemoryEnvironment {
    async fn fresh() -> Self {
        Self {
            store: MemoryStore::new(),
            clock: ManualEngineClock::starting_at(START_MS),
        }
    }

    fn store(&self) -> Arc<dyn ExecutionStore> {
        Arc::new(self.store.clone())
    }

    fn clock(&self) -> ManualEngineClock {
        self.clock.clone()
    }
}

pub(crate) struct SqliteEnvironment {
    store: SqliteStore,
    clock: ManualEngineClock,
    _directory: tempfile::TempDir,
}

#[async_trait]
impl TestEnvironment for SqliteEnvironment {
    async fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("executions.db");
        Self {
            store: SqliteStore::open(&file).await.unwrap(),
            clock: ManualEngineClock::starting_at(START_MS),
            _directory: directory,
        }
    }

    fn store(&self) -> Arc<dyn ExecutionStore> {
        Arc::new(self.store.clone())
    }

    fn clock(&self) -> ManualEngineClock {
        self.clock.clone()
    }
}

/// Deploys a definition as `w` and starts it as `w:1`.
pub(crate) async fn begin(engine: &Engine, definition: &Value, input: Value) -> String {
    engine.deploy("w", &definition.to_string()).await.unwrap();
    engine.start("w", "1", input).await.unwrap()
}

/// How long a test waits for anything, in real time.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long a whole test case may take, in real time.
const CASE_DEADLINE: Duration = Duration::from_secs(300);

/// Waits for something, with a deadline in real time.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(done) => done,
        Err(_) => panic!("waited {DEADLINE:?} for {what}"),
    }
}

/// Runs a whole test case, with a deadline in real time.
pub(crate) async fn within_case(case: &str, work: impl Future<Output = ()>) {
    let ended = tokio::time::timeout(CASE_DEADLINE, work).await;
    assert!(ended.is_ok(), "{case} did not end within {CASE_DEADLINE:?}");
}

/// Waits until an execution is in a certain state.
pub(crate) async fn until(
    engine: &Engine,
    id: &str,
    is: impl Fn(&ExecutionDetails) -> bool,
) -> ExecutionDetails {
    let mut watch = engine.watch(id);
    let wanted = async {
        while let Some(seen) = watch.next().await.unwrap() {
            if is(&seen) {
                return seen;
            }
        }
        panic!("ended otherwise: {:?}", engine.get(id).await.unwrap());
    };
    match tokio::time::timeout(DEADLINE, wanted).await {
        Ok(seen) => seen,
        Err(_) => {
            let now = engine.get(id).await;
            panic!("waited {DEADLINE:?} for {id} to get into a state; it is {now:?}")
        }
    }
}

/// Waits for an execution's end.
pub(crate) async fn wait_for_end(engine: &Engine, id: &str) -> ExecutionDetails {
    until(engine, id, ExecutionDetails::is_ended).await
}

/// Waits until no execution is in memory.
pub(crate) async fn wait_until_none_held(engine: &Engine) {
    let none_held = async {
        while engine.held_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within("the engine to release all executions", none_held).await;
}

/// Waits for what a task sends to its test.
pub(crate) async fn receive<T>(sent: &mut mpsc::UnboundedReceiver<T>) -> T {
    within("a message from a task", sent.recv()).await.unwrap()
}

/// Waits until the two loops of an engine sleep, which claim executions and renew
/// leases. They wake after `poll_ms` by the clock: a test that depends on that must
/// not move the clock before they sleep.
pub(crate) async fn wait_for_engine_loops(clock: &ManualEngineClock) {
    let next_poll = clock.now_ms() + EngineSettings::default().poll_ms;
    let both_sleep = clock.wait_for_sleepers(2, next_poll);
    within("the loops of the engine to sleep", both_sleep).await;
}

/// Whether a run of the execution does this in this state.
pub(crate) fn is_doing(seen: &ExecutionDetails, state: &str, doing: RunActivity) -> bool {
    let mut positions = seen.summary.position.iter();
    positions.any(|position| position.state == state && position.doing == doing)
}

/// The whole history, checked for consistency.
pub(crate) async fn history(engine: &Engine, id: &str) -> Vec<HistoryEvent> {
    let mut events: Vec<HistoryEvent> = Vec::new();
    loop {
        let query = HistoryQuery {
            after: events.last().map(|event| event.id),
            newest_first: false,
            limit: 1_000,
        };
        let page = engine.history(id, &query).await.unwrap().unwrap();
        events.extend(page.events);
        if !page.more {
            break;
        }
    }
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.id, index as u64 + 1);
        assert!(event.previous_event_id < event.id);
        assert!(index == 0 || event.at_ms >= events[index - 1].at_ms);
    }
    assert_eq!(events[0].kind, HistoryType::ExecutionStarted);
    // Every scheduled task has at most one result.
    let count = |kind| events.iter().filter(|event| event.kind == kind).count();
    let answers = count(HistoryType::TaskSucceeded)
        + count(HistoryType::TaskFailed)
        + count(HistoryType::TaskTimedOut);
    assert!(answers <= count(HistoryType::TaskScheduled));
    assert!(count(HistoryType::TaskStarted) <= count(HistoryType::TaskScheduled));
    events
}

/// The names of the entered states, in order.
pub(crate) fn entered(history: &[HistoryEvent]) -> Vec<&str> {
    let entered = history
        .iter()
        .filter(|event| event.kind.details_name() == "stateEnteredEventDetails");
    entered.filter_map(HistoryEvent::name).collect()
}
