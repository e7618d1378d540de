//! Stores to run on, engines on them, and how to wait for what happens.

use std::sync::Arc;

use async_trait::async_trait;
use ballast_state_machines::core::{Doing, HistoryEvent, HistoryType};
use ballast_state_machines::engine::{Description, Engine, ManualClock, Registry, Settings};
use ballast_state_machines::store::{HistoryQuery, MemoryStore, SqliteStore, Store};
use serde_json::Value;

pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// Where a test happens.
#[async_trait]
pub(crate) trait Place: Sized + Send + Sync {
    async fn fresh() -> Self;
    fn store(&self) -> Arc<dyn Store>;
    fn clock(&self) -> ManualClock;

    /// An engine here; another one after a crash is the same worker.
    async fn engine(&self, registry: Registry) -> Engine {
        self.engine_with(registry, Settings::default()).await
    }

    async fn engine_with(&self, registry: Registry, settings: Settings) -> Engine {
        let clock = Arc::new(self.clock());
        Engine::new(self.store(), registry, clock, settings)
            .await
            .unwrap()
    }
}

pub(crate) struct Memory {
    store: MemoryStore,
    clock: ManualClock,
}

#[async_trait]
impl Place for Memory {
    async fn fresh() -> Self {
        Self {
            store: MemoryStore::new(),
            clock: ManualClock::at(START_MS),
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }
}

pub(crate) struct Files {
    store: SqliteStore,
    clock: ManualClock,
    _directory: tempfile::TempDir,
}

#[async_trait]
impl Place for Files {
    async fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("executions.db");
        Self {
            store: SqliteStore::open(&file).await.unwrap(),
            clock: ManualClock::at(START_MS),
            _directory: directory,
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }
}

/// A definition that is deployed as `w` and started as `w:1`.
pub(crate) async fn begin(engine: &Engine, definition: &Value, input: Value) -> String {
    engine.deploy("w", &definition.to_string()).await.unwrap();
    engine.start("w", "1", input).await.unwrap()
}

/// Waits until an execution stands so.
pub(crate) async fn until(
    engine: &Engine,
    id: &str,
    is: impl Fn(&Description) -> bool,
) -> Description {
    let mut watch = engine.watch(id);
    while let Some(seen) = watch.next().await.unwrap() {
        if is(&seen) {
            return seen;
        }
    }
    panic!("{:?}", engine.get(id).await.unwrap());
}

/// Whether an execution has a run that does this in this state.
pub(crate) fn is_doing(seen: &Description, state: &str, doing: Doing) -> bool {
    let mut positions = seen.summary.position.iter();
    positions.any(|position| position.state == state && position.doing == doing)
}

/// The whole history; it must be one that could have happened.
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
    // Every task that was scheduled has one answer at most.
    let count = |kind| events.iter().filter(|event| event.kind == kind).count();
    let answers = count(HistoryType::TaskSucceeded)
        + count(HistoryType::TaskFailed)
        + count(HistoryType::TaskTimedOut);
    assert!(answers <= count(HistoryType::TaskScheduled));
    assert!(count(HistoryType::TaskStarted) <= count(HistoryType::TaskScheduled));
    events
}

/// The states that were entered, in order.
pub(crate) fn entered(history: &[HistoryEvent]) -> Vec<&str> {
    let entered = history
        .iter()
        .filter(|event| event.kind.details_name() == "stateEnteredEventDetails");
    entered.filter_map(HistoryEvent::name).collect()
}
