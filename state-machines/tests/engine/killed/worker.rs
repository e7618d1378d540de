//! The worker process that the test kills: runs executions in a SQLite file until all
//! have ended.

use std::path::Path;
use std::sync::Arc;

use ballast_state_machines::engine::{
    Engine, EngineClock, EngineSettings, HandlerRegistry, Signal, SystemClock, TaskContext,
    TaskError,
};
use ballast_state_machines::store::{ExecutionQuery, SqliteStore, StoredStatus};
use serde_json::{Value, json};

/// Counts to ten in tasks, some in a Map, with waits and retries. Then starts a child,
/// waits for it, and waits for a callback. `fails` in the input decides the outcome.
const DEFINITION: &str = r#"{"StartAt": "Count", "States": {
    "Count": {"Type": "Task", "Resource": "count", "Next": "IsTen",
        "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "MaxAttempts": 3}]},
    "IsTen": {"Type": "Choice", "Default": "Count", "Choices": [
        {"Variable": "$.n", "NumericEquals": 10, "Next": "Rest"}]},
    "Rest": {"Type": "Wait", "Seconds": 1, "Next": "Each"},
    "Each": {"Type": "Map", "ItemsPath": "$.items", "ResultPath": "$.items", "Next": "Child",
        "ItemProcessor": {"StartAt": "One", "States": {
            "One": {"Type": "Task", "Resource": "one", "End": true}}}},
    "Child": {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2",
        "Parameters": {"StateMachineArn": "doubling", "Input.$": "$.items[0]"},
        "ResultSelector": {"output.$": "$.Output"}, "ResultPath": "$.child", "Next": "Ask"},
    "Ask": {"Type": "Task", "Resource": "ask.waitForTaskToken", "ResultPath": "$.answer",
        "Next": "How"},
    "How": {"Type": "Choice", "Default": "Well", "Choices": [
        {"Variable": "$.fails", "BooleanEquals": true, "Next": "Badly"}]},
    "Badly": {"Type": "Fail", "Error": "As.Asked"},
    "Well": {"Type": "Succeed"}}}"#;

/// The child workflow.
const CHILD: &str = r#"{"StartAt": "One", "States": {
    "One": {"Type": "Task", "Resource": "one", "Next": "Nap"},
    "Nap": {"Type": "Wait", "Seconds": 1, "End": true}}}"#;

/// How often to look for pending callbacks.
const LOOK_MS: i64 = 20;

async fn count(mut input: Value, context: TaskContext) -> Result<Value, TaskError> {
    let n = input["n"].as_u64().unwrap_or_default();
    if n == 5 && context.attempt() == 0 {
        return Err(TaskError::new("Busy", "not now"));
    }
    input["n"] = json!(n + 1);
    Ok(input)
}

async fn one(input: u64, _: TaskContext) -> Result<u64, TaskError> {
    Ok(2 * input)
}

async fn ask(_: Value, _: TaskContext) -> Result<Value, TaskError> {
    Ok(json!({"asked": true}))
}

/// Answers all pending callbacks, also those from before a kill.
async fn answer(engine: &Engine) {
    loop {
        let query = ExecutionQuery {
            status: Some(StoredStatus::Running),
            ..ExecutionQuery::newest(1_000)
        };
        let open = engine.list(&query).await.unwrap();
        let positions = open.into_iter().flat_map(|seen| seen.position);
        for token in positions.filter_map(|position| position.token) {
            // Its execution may have moved on since.
            let _ = engine.signal(&token, Signal::Success(json!("yes"))).await;
        }
        SystemClock
            .sleep_until(SystemClock.now_ms() + LOOK_MS)
            .await;
    }
}

pub(crate) async fn run(file: &Path, many: u64) {
    let store = Arc::new(SqliteStore::open(file).await.unwrap());
    let registry = HandlerRegistry::new()
        .with_function("count", count)
        .with_function("one", one)
        .with_function("ask.waitForTaskToken", ask);
    let settings = EngineSettings::default();
    let engine = Engine::new(store, registry, Arc::new(SystemClock), settings);
    let engine = engine.await.unwrap();
    engine.deploy("doubling", CHILD).await.unwrap();
    engine.deploy("counting", DEFINITION).await.unwrap();
    for number in 0..many {
        let input = json!({"n": 0, "fails": number % 5 == 0, "items": [number, 1, 2]});
        let name = number.to_string();
        engine.start("counting", &name, input).await.unwrap();
    }
    let all = async {
        for number in 0..many {
            engine
                .wait_for_end(&format!("counting:{number}"))
                .await
                .unwrap();
        }
    };
    tokio::select! {
        () = all => {}
        () = answer(&engine) => {}
    }
    engine.stop().await;
}
