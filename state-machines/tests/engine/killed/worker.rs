//! The process that is killed: it runs executions in a SQLite file until all
//! have ended.

use std::path::Path;
use std::sync::Arc;

use ballast_state_machines::engine::{
    Clock, Engine, Registry, Settings, Signal, SystemClock, TaskContext, TaskError,
};
use ballast_state_machines::store::{Query, SqliteStore, Status};
use serde_json::{Value, json};

/// Counts to ten, in a task and in a Map's, with waits and retries on the way;
/// starts an execution and waits for it, and asks somebody. What is to come of
/// it stands in the input: `fails` says whether it fails.
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

/// What it starts.
const CHILD: &str = r#"{"StartAt": "One", "States": {
    "One": {"Type": "Task", "Resource": "one", "Next": "Nap"},
    "Nap": {"Type": "Wait", "Seconds": 1, "End": true}}}"#;

/// How often somebody looks who waits for an answer.
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

/// Answers whoever waits, and whoever waited when the process was killed.
async fn answer(engine: &Engine) {
    loop {
        let query = Query {
            status: Some(Status::Running),
            ..Query::newest(1_000)
        };
        let open = engine.list(&query).await.unwrap();
        let positions = open.into_iter().flat_map(|seen| seen.position);
        for token in positions.filter_map(|position| position.token) {
            // It may have been heard since it was looked at.
            let _ = engine.signal(&token, Signal::Success(json!("yes"))).await;
        }
        SystemClock
            .sleep_until(SystemClock.now_ms() + LOOK_MS)
            .await;
    }
}

pub(crate) async fn run(file: &Path, many: u64) {
    let store = Arc::new(SqliteStore::open(file).await.unwrap());
    let registry = Registry::new()
        .function("count", count)
        .function("one", one)
        .function("ask.waitForTaskToken", ask);
    let settings = Settings::default();
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
            engine.ended(&format!("counting:{number}")).await.unwrap();
        }
    };
    tokio::select! {
        () = all => {}
        () = answer(&engine) => {}
    }
    engine.stop().await;
}
