//! The process that is killed: it runs executions in a SQLite file until all
//! have ended.

use std::path::Path;
use std::sync::Arc;

use ballast_state_machines::engine::{
    Engine, Registry, Settings, SystemClock, TaskContext, TaskError,
};
use ballast_state_machines::store::SqliteStore;
use serde_json::{Value, json};

/// Counts to ten, in a task and in a Map's, with waits and retries on the way.
/// What is to come of it stands in the input: `fails` says whether it fails.
const DEFINITION: &str = r#"{"StartAt": "Count", "States": {
    "Count": {"Type": "Task", "Resource": "count", "Next": "IsTen",
        "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "MaxAttempts": 3}]},
    "IsTen": {"Type": "Choice", "Default": "Count", "Choices": [
        {"Variable": "$.n", "NumericEquals": 10, "Next": "Rest"}]},
    "Rest": {"Type": "Wait", "Seconds": 1, "Next": "Each"},
    "Each": {"Type": "Map", "ItemsPath": "$.items", "ResultPath": "$.items", "Next": "How",
        "ItemProcessor": {"StartAt": "One", "States": {
            "One": {"Type": "Task", "Resource": "one", "End": true}}}},
    "How": {"Type": "Choice", "Default": "Well", "Choices": [
        {"Variable": "$.fails", "BooleanEquals": true, "Next": "Badly"}]},
    "Badly": {"Type": "Fail", "Error": "As.Asked"},
    "Well": {"Type": "Succeed"}}}"#;

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

pub(crate) async fn run(file: &Path, many: u64) {
    let store = Arc::new(SqliteStore::open(file).await.unwrap());
    let registry = Registry::new()
        .function("count", count)
        .function("one", one);
    let settings = Settings::default();
    let engine = Engine::new(store, registry, Arc::new(SystemClock), settings);
    let engine = engine.await.unwrap();
    engine.deploy("counting", DEFINITION).await.unwrap();
    for number in 0..many {
        let input = json!({"n": 0, "fails": number % 5 == 0, "items": [number, 1, 2]});
        let name = number.to_string();
        engine.start("counting", &name, input).await.unwrap();
    }
    for number in 0..many {
        engine.ended(&format!("counting:{number}")).await.unwrap();
    }
    engine.stop().await;
}
