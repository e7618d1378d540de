//! Random machines on a failing store: each execution ends as the reference does, and
//! its journal is consistent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ballast_state_machines::core::{
    Execution, ExecutionEvent, ExecutionStatus, TaskId, TimedEvent, apply,
};
use ballast_state_machines::engine::{
    Engine, EngineClock, EngineSettings, ExecutionDetails, Handler, HandlerRegistry, Signal,
    StartError, TaskContext, TaskError, TaskOutcome,
};
use ballast_state_machines::language::Definition;
use ballast_state_machines::store::{ExecutionQuery, ExecutionStore, JournalEntry};
use ballast_state_machines::testing::{case_count, random_machine};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::faulty::{FaultyStore, OUT_MS_MAX};
use super::handlers::RandomHandler;
use super::reference::{ReferenceOutcome, only_outcome};
use crate::paused::{self, PausedClock, START_MS};

/// How often a test yields at most while it waits for the engine. The waiting test
/// stops simulated time, so a deadline would not pass.
const YIELDS_MAX: usize = 1_000_000;

/// Retries until the store does not fail; simulated time passes between attempts.
async fn retry<T, E: std::fmt::Debug>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    for _ in 0..10_000 {
        if let Ok(answer) = attempt().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the store failed 10,000 times");
}

async fn engine(
    store: &Arc<FaultyStore>,
    clock: &Arc<PausedClock>,
    registry: &HandlerRegistry,
    worker: &str,
    seed: u64,
) -> Engine {
    let settings = EngineSettings {
        worker: worker.to_owned(),
        random_seed: Arc::new(move || seed),
        ..EngineSettings::default()
    };
    retry(async || {
        let (store, clock) = (Arc::clone(store), Arc::clone(clock));
        Engine::new(store, registry.clone(), clock, settings.clone()).await
    })
    .await
}

async fn ended(engine: &Engine, id: &str) -> ExecutionDetails {
    let ended = retry(async || engine.wait_for_end(id).await);
    let ended = paused::wait_for(&format!("the end of {id}"), ended).await;
    ended.unwrap()
}

/// A handler that checks that its orders are durable.
struct DurabilityHandler {
    random: RandomHandler,
    definition: Definition,
    store: Arc<FaultyStore>,
    /// Tasks that ran before their order was durable.
    too_early: Mutex<Vec<TaskId>>,
}

#[async_trait]
impl Handler for DurabilityHandler {
    async fn run(&self, input: Value, context: &TaskContext) -> Result<TaskOutcome, TaskError> {
        let (id, task) = context.idempotency_key().rsplit_once('#').unwrap();
        let task = TaskId(task.parse().unwrap());
        let mut execution = Execution::default();
        let was_ordered = self.store.journal(id).iter().any(|entry| {
            let event = serde_json::from_str(&entry.event).unwrap();
            apply(
                &self.definition,
                &mut execution,
                TimedEvent::new(event, entry.at_ms),
            );
            execution.task(task).is_some()
        });
        if !was_ordered {
            self.too_early.lock().unwrap().push(task);
        }
        self.random.run(input, context).await
    }
}

/// Checks that each entry of a journal is accepted after the entries before it, and
/// that together they give the execution's outcome.
fn check_journal(definition: &Definition, journal: &[JournalEntry], ended: &ExecutionDetails) {
    let mut execution = Execution::default();
    for entry in journal {
        let event: ExecutionEvent = serde_json::from_str(&entry.event).unwrap();
        let outcome = apply(
            definition,
            &mut execution,
            TimedEvent::new(event, entry.at_ms),
        );
        assert!(outcome.accepted, "{} was not accepted", entry.event);
        let history = outcome.history.iter();
        let history: Vec<_> = history
            .map(|event| serde_json::to_string(event).unwrap())
            .collect();
        assert_eq!(history, entry.history);
    }
    assert_eq!(execution.status(), ended.summary.status);
    assert_eq!(execution.output(), ended.output.as_ref());
    assert_eq!(execution.history_len(), ended.summary.history_len);
}

/// Runs a machine. Returns its outcome and how often the store failed meanwhile.
async fn survives(definition: &Definition, seed: u64, workers: usize) -> (ReferenceOutcome, u64) {
    let clock = Arc::new(PausedClock::new());
    let store = Arc::new(FaultyStore::new(seed, Arc::clone(&clock)));
    let handler = Arc::new(DurabilityHandler {
        random: RandomHandler::new(seed, 0).0,
        definition: definition.clone(),
        store: Arc::clone(&store),
        too_early: Mutex::default(),
    });
    let missing = HandlerRegistry::new().missing(definition).into_iter();
    let registry = missing.fold(HandlerRegistry::new(), |registry, resource| {
        registry.with_handler(resource, handler.clone())
    });
    let mut engines = Vec::new();
    for worker in ["a", "b"].into_iter().take(workers) {
        engines.push(engine(&store, &clock, &registry, worker, seed).await);
    }
    let text = definition.source().to_string();
    retry(async || engines[0].deploy("w", &text).await).await;
    let input = json!({"v": seed % 10});
    // Starting again after an unknown outcome is safe.
    for engine in &engines {
        let start = async || engine.start("w", "1", input.clone()).await;
        assert_eq!(retry(start).await, "w:1");
    }
    let ended = ended(&engines[0], "w:1").await;
    let all = store
        .inner()
        .list(&ExecutionQuery::newest(9))
        .await
        .unwrap();
    assert_eq!(all.len(), 1);
    check_journal(definition, &store.journal("w:1"), &ended);
    assert_eq!(*handler.too_early.lock().unwrap(), []);
    for engine in engines {
        engine.stop().await;
        assert_eq!(engine.held_count(), 0);
    }
    let end = ReferenceOutcome {
        status: ended.summary.status,
        output: ended.output,
        error: ended.error,
    };
    (end, store.faults())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(case_count(100)))]

    #[test]
    fn machines_end_as_if_the_store_had_not_failed(seed: u64, workers in 1usize..3) {
        let definition = Definition::parse(&random_machine(seed).to_string()).unwrap();
        let (end, faults) = paused::run(survives(&definition, seed, workers));
        if let Some(expected) = only_outcome(&definition, seed, OUT_MS_MAX) {
            prop_assert_eq!(end, expected, "after {} faults", faults);
        }
    }

    #[test]
    fn families_end_as_if_the_store_had_not_failed(seed: u64) {
        paused::run(a_family_survives(seed));
    }
}

/// Starts three children at a time, each of which waits for a callback.
const PARENT: &str = r#"{"StartAt": "Each", "States": {"Each": {"Type": "Map", "End": true,
    "MaxConcurrency": 3, "ItemProcessor": {"StartAt": "Start", "States": {"Start": {
        "Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2",
        "Parameters": {"StateMachineArn": "child", "Input.$": "$"},
        "OutputPath": "$.Output", "End": true}}}}}}"#;
const CHILD: &str = r#"{"StartAt": "Ask", "States": {"Ask": {
    "Type": "Task", "Resource": "ask.waitForTaskToken", "End": true}}}"#;

async fn a_family_survives(seed: u64) {
    let clock = Arc::new(PausedClock::new());
    let store = Arc::new(FaultyStore::new(seed, Arc::clone(&clock)));
    let (tell, mut asked) = mpsc::unbounded_channel();
    let ask = move |input: Value, context: TaskContext| {
        let _ = tell.send((context.token().to_owned(), input));
        async { Ok::<_, TaskError>(json!({})) }
    };
    let registry = HandlerRegistry::new().with_function("ask.waitForTaskToken", ask);
    let engine = engine(&store, &clock, &registry, "a", seed).await;
    retry(async || engine.deploy("child", CHILD).await).await;
    retry(async || engine.deploy("w", PARENT).await).await;
    let items = json!([1, 2, 3, 4, 5]);
    retry(async || engine.start("w", "1", items.clone()).await).await;
    let answering = async {
        while let Some((token, input)) = asked.recv().await {
            let answer = || Signal::Success(json!({"was": input}));
            retry(async || engine.signal(&token, answer()).await).await;
        }
    };
    let ended = tokio::select! {
        ended = ended(&engine, "w:1") => ended,
        () = answering => unreachable!("the handler keeps the sender"),
    };
    let output = json!([{"was": 1}, {"was": 2}, {"was": 3}, {"was": 4}, {"was": 5}]);
    assert_eq!(ended.output, Some(output));
    let parent = Definition::parse(PARENT).unwrap();
    let journals = store.journals();
    assert_eq!(journals.len(), 6, "a parent and five children");
    check_journal(&parent, &journals["w:1"], &ended);
    engine.stop().await;
}

/// Two branches fail at different times. An outage can delay both, and then chance
/// decides which failure comes first.
#[test]
fn outcomes_that_an_outage_decides_are_not_compared() {
    let seed = 16_482_790_866_109_204_479;
    let definition = Definition::parse(&random_machine(seed).to_string()).unwrap();
    assert_ne!(only_outcome(&definition, seed, 0), None);
    assert_eq!(only_outcome(&definition, seed, OUT_MS_MAX), None);
    paused::run(survives(&definition, seed, 1));
}

/// The comparison would prove little if the store rarely failed or if most machines
/// were not compared.
#[test]
fn the_store_fails_often_and_most_are_compared() {
    let (mut faults, mut compared) = (0, 0);
    for seed in 0..50 {
        let definition = Definition::parse(&random_machine(seed).to_string()).unwrap();
        faults += paused::run(survives(&definition, seed, 2)).1;
        compared += u64::from(only_outcome(&definition, seed, OUT_MS_MAX).is_some());
    }
    assert!(faults > 50 * 20, "{faults} faults in 50 runs");
    assert!(compared >= 25, "{compared} of 50 are compared");
}

const MARRIED: &str = r#"{"StartAt": "Start", "States": {"Start": {"Type": "Task",
    "Resource": "arn:aws:states:::states:startExecution.sync:2",
    "Parameters": {"StateMachineArn": "child"}, "OutputPath": "$.Output", "End": true}}}"#;

/// A parent and its child, which waits for a callback; the store refuses hints of this
/// kind.
async fn without(kind: &'static str) -> (Engine, Arc<PausedClock>, String, String) {
    let clock = Arc::new(PausedClock::new());
    let store = Arc::new(FaultyStore::calm(1, Arc::clone(&clock)));
    let (tell, mut asked) = mpsc::unbounded_channel();
    let ask = move |_: Value, context: TaskContext| {
        let _ = tell.send(context.token().to_owned());
        async { Ok::<_, TaskError>(json!({})) }
    };
    let registry = HandlerRegistry::new().with_function("ask.waitForTaskToken", ask);
    let engine = engine(&store, &clock, &registry, "a", 1).await;
    engine.deploy("child", CHILD).await.unwrap();
    engine.deploy("w", MARRIED).await.unwrap();
    let parent = engine.start("w", "1", json!({})).await.unwrap();
    let token = paused::wait_for("the child to ask", asked.recv())
        .await
        .unwrap();
    // Both must be parked, so that only their periodic checks wake them.
    for _ in 0..YIELDS_MAX {
        if engine.held_count() == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.held_count(), 0, "the engine did not release them");
    store.refuse(kind);
    (engine, clock, parent, token)
}

#[test]
fn a_child_without_a_hint_finds_that_its_parent_is_gone() {
    paused::run(async {
        let (engine, clock, parent, token) = without("disowned").await;
        engine.cancel(&parent, None, None).await.unwrap();
        paused::wait_for_end(&engine, &parent).await;
        let child = token.split('#').next().unwrap();
        let ended = paused::wait_for_end(&engine, child).await;
        assert!(ended.cause.unwrap().contains("no longer waits for it"));
        assert!(clock.now_ms() - START_MS <= 10_000);
    });
}

#[test]
fn a_parent_without_a_hint_finds_that_its_child_has_ended() {
    paused::run(async {
        let (engine, clock, parent, token) = without("ended").await;
        let answer = Signal::Success(json!("done"));
        engine.signal(&token, answer).await.unwrap();
        let ended = paused::wait_for_end(&engine, &parent).await;
        assert_eq!(ended.output, Some(json!("done")));
        assert!(clock.now_ms() - START_MS <= 10_000);
    });
}

/// A step that the store refuses fails the execution instead of being retried.
#[test]
fn a_step_that_the_store_refuses_fails_the_execution() {
    paused::run(async {
        let clock = Arc::new(PausedClock::new());
        let store = Arc::new(FaultyStore::calm(1, Arc::clone(&clock)));
        store.reject_steps_with("poison");
        let work = |input: Value, _: TaskContext| async move {
            let is_second = input == json!("tea");
            Ok::<_, TaskError>(if is_second { "poison" } else { "tea" })
        };
        let registry = HandlerRegistry::new().with_function("work", work);
        let engine = engine(&store, &clock, &registry, "a", 1).await;
        let text = r#"{"StartAt": "A", "States": {
            "A": {"Type": "Task", "Resource": "work", "Next": "B"},
            "B": {"Type": "Task", "Resource": "work", "End": true}}}"#;
        engine.deploy("w", text).await.unwrap();
        let id = engine.start("w", "1", json!({})).await.unwrap();
        let ended = paused::wait_for_end(&engine, &id).await;
        assert_eq!(ended.summary.status, ExecutionStatus::Failed);
        assert_eq!(ended.error.as_deref(), Some("States.DataLimitExceeded"));
        let cause = ended.cause.clone().unwrap();
        assert!(
            cause.starts_with("the store refused a step: a position"),
            "{cause}"
        );
        let definition = Definition::parse(text).unwrap();
        check_journal(&definition, &store.journal(&id), &ended);
        engine.stop().await;
    });
}

/// An engine that stops during a start waits for it and releases the execution, so
/// that another engine can claim it at once.
#[test]
fn a_stop_waits_for_a_start() {
    paused::run(async {
        let clock = Arc::new(PausedClock::new());
        let store = Arc::new(FaultyStore::slow(
            Duration::from_secs(3),
            Arc::clone(&clock),
        ));
        let work = |input: Value, _: TaskContext| async move { Ok::<_, TaskError>(input) };
        let registry = HandlerRegistry::new().with_function("work", work);
        let first = engine(&store, &clock, &registry, "a", 1).await;
        let text = r#"{"StartAt": "A", "States": {
            "A": {"Type": "Task", "Resource": "work", "End": true}}}"#;
        first.deploy("w", text).await.unwrap();
        let starting = first.start("w", "1", json!({}));
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            first.stop().await;
        };
        let (started, ()) = tokio::join!(starting, stopping);
        let id = started.unwrap();
        let refused = first.start("w", "2", json!({})).await;
        assert!(matches!(refused, Err(StartError::Stopping)));
        let row = store.get(&id).await.unwrap().unwrap().row;
        assert_eq!(row.worker, None);
        let second = engine(&store, &clock, &registry, "b", 1).await;
        paused::wait_for_end(&second, &id).await;
        assert!(clock.now_ms() - START_MS < 5_000);
    });
}
