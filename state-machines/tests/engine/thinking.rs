//! Endless expressions: neither the process nor other executions stop for them.

use std::sync::Arc;

use ballast_state_machines::core::{ExecutionStatus, RunActivity};
use ballast_state_machines::engine::{
    Engine, EngineSettings, HandlerRegistry, SystemClock, TaskContext, TaskError,
};
use ballast_state_machines::store::{Claimant, ExecutionStore, MemoryStore};
use serde_json::{Value, json};

use super::world::{begin, is_doing, until, wait_for_end, within};

/// An endless recursion.
const RUNAWAY: &str = "{% ($f := function($n){$f($n+1)}; $f(0)) %}";

/// How often another task gets a turn at least while an expression uses up its half
/// second. Without a thread of its own for the expression, it is a handful.
const TURNS_MIN: u64 = 1_000;

async fn echo(input: Value, _: TaskContext) -> Result<Value, TaskError> {
    Ok(input)
}

async fn wait(_: Value, _: TaskContext) -> Result<Value, TaskError> {
    std::future::pending().await
}

async fn engine(store: &MemoryStore) -> Engine {
    let registry = HandlerRegistry::new()
        .with_function("echo", echo)
        .with_function("wait", wait);
    let (store, clock) = (Arc::new(store.clone()), Arc::new(SystemClock));
    Engine::new(store, registry, clock, EngineSettings::default())
        .await
        .unwrap()
}

/// Counts how often this task gets a turn until the work is done.
async fn turns<R: Send + 'static>(work: impl Future<Output = R> + Send + 'static) -> (R, u64) {
    let work = tokio::spawn(work);
    let mut turns = 0;
    let finished = async {
        while !work.is_finished() {
            tokio::task::yield_now().await;
            turns += 1;
        }
    };
    within("an expression to run out of time", finished).await;
    (work.await.unwrap(), turns)
}

/// On a single thread, which an expression must not block.
#[tokio::test(flavor = "current_thread")]
async fn an_endless_expression_does_not_block_others() {
    let engine = engine(&MemoryStore::new()).await;
    let at_start = json!({"QueryLanguage": "JSONata", "StartAt": "P", "States": {
        "P": {"Type": "Pass", "Output": RUNAWAY, "End": true}}});
    let after_task = json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "QueryLanguage": "JSONata", "Resource": "echo",
            "Output": RUNAWAY, "End": true}}});
    for (name, definition) in [("start", at_start), ("task", after_task)] {
        engine.deploy(name, &definition.to_string()).await.unwrap();
        let other = engine.clone();
        let run = async move {
            let id = other.start(name, "1", json!({})).await.unwrap();
            wait_for_end(&other, &id).await
        };
        let (ended, turns) = turns(run).await;
        assert_eq!(ended.summary.status, ExecutionStatus::Failed);
        assert_eq!(ended.error.as_deref(), Some("States.QueryEvaluationError"));
        assert!(turns > TURNS_MIN, "{name}: {turns}");
    }
    engine.stop().await;
}

/// An expression that ran out of time might not do so in a replay: the engine stores
/// its outcome in a snapshot and does not evaluate it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_that_ran_out_of_time_are_not_evaluated_again() {
    let store = MemoryStore::new();
    let engine = engine(&store).await;
    let definition = json!({"QueryLanguage": "JSONata", "StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "echo", "Output": RUNAWAY, "Next": "W",
            "Catch": [{"ErrorEquals": ["States.QueryEvaluationError"], "Next": "W"}]},
        "W": {"Type": "Task", "Resource": "wait", "End": true}}});
    let id = begin(&engine, &definition, json!({})).await;
    until(&engine, &id, |seen| {
        is_doing(seen, "W", RunActivity::Working)
    })
    .await;
    engine.kill().await;
    let by = Claimant {
        worker: "other".to_owned(),
        now_ms: i64::MAX - 1,
        until_ms: i64::MAX,
    };
    let claim = store.claim_one(&id, &by).await.unwrap();
    assert!(claim.snapshot.is_some());
    assert_eq!(claim.entries, []);
}
