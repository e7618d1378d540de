//! Starting and running executions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ballast_state_machines::core::{ExecutionStatus, RunActivity};
use ballast_state_machines::engine::{
    DeployError, HandlerRegistry, StartError, TaskContext, TaskError, TypedTask,
};
use ballast_state_machines::store::{CreateError, ExecutionQuery};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::world::{TestEnvironment, begin, entered, history, is_doing, until, wait_for_end};

/// A typed task.
struct Double;

#[derive(Deserialize)]
struct DoubleInput {
    n: u64,
}

#[derive(Serialize)]
struct DoubleOutput {
    n: u64,
    key: String,
}

impl TypedTask for Double {
    type Input = DoubleInput;
    type Output = DoubleOutput;

    async fn run(
        &self,
        input: DoubleInput,
        context: &TaskContext,
    ) -> Result<DoubleOutput, TaskError> {
        assert_eq!((context.workflow(), context.attempt()), ("w", 0));
        Ok(DoubleOutput {
            n: 2 * input.n,
            key: context.idempotency_key().to_owned(),
        })
    }
}

async fn echo(input: Value, _: TaskContext) -> Result<Value, TaskError> {
    Ok(input)
}

pub(crate) async fn a_workflow_completes(env: impl TestEnvironment) {
    let engine = env
        .engine(HandlerRegistry::new().with_task("double", Double))
        .await;
    let definition = json!({"StartAt": "A", "States": {
        "A": {"Type": "Task", "Resource": "double", "Next": "B"},
        "B": {"Type": "Task", "Resource": "double", "Next": "C"},
        "C": {"Type": "Pass", "End": true}}});
    let id = begin(&engine, &definition, json!({"n": 4})).await;
    assert_eq!(id, "w:1");
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.summary.status, ExecutionStatus::Succeeded);
    assert_eq!(ended.output, Some(json!({"n": 16, "key": "w:1#2"})));
    assert_eq!((ended.error, ended.summary.position), (None, vec![]));
    let history = history(&engine, &id).await;
    assert_eq!(entered(&history), ["A", "B", "C"]);
    assert_eq!(ended.summary.history_len, history.len() as u64);
    let row = env.store().get(&id).await.unwrap().unwrap().row;
    assert_eq!(row.next_seq, 4, "begun, and one entry for each answer");
    assert_eq!(
        engine.list(&ExecutionQuery::newest(9)).await.unwrap().len(),
        1
    );
    engine.stop().await;
    assert_eq!(engine.held_count(), 0);
}

pub(crate) async fn a_retry_waits_for_its_time(env: impl TestEnvironment) {
    let tries = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&tries);
    let busy = move |_: Value, context: TaskContext| {
        let tries = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            assert_eq!(context.attempt(), tries);
            match tries {
                0 | 1 => Err(TaskError::new("Busy", "not now")),
                _ => Ok("at last"),
            }
        }
    };
    let engine = env
        .engine(HandlerRegistry::new().with_function("busy", busy))
        .await;
    let definition = json!({"StartAt": "T", "States": {"T": {
        "Type": "Task", "Resource": "busy", "End": true, "Retry": [
            {"ErrorEquals": ["Busy"], "IntervalSeconds": 2, "BackoffRate": 2.0}]}}});
    let id = begin(&engine, &definition, json!({})).await;
    for (attempt, wait_ms) in [(0, 2_000), (1, 4_000)] {
        until(&engine, &id, |seen| {
            is_doing(seen, "T", RunActivity::BackingOff)
                && seen.summary.position[0].attempt == attempt + 1
                && seen.summary.worker.is_none()
        })
        .await;
        env.clock().advance_ms(wait_ms - 1);
        assert_eq!(tries.load(Ordering::SeqCst), attempt + 1);
        env.clock().advance_ms(1);
    }
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output, Some(json!("at last")));
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

pub(crate) async fn branches_and_iterations_run(env: impl TestEnvironment) {
    let engine = env
        .engine(HandlerRegistry::new().with_function("echo", echo))
        .await;
    let task = json!({"Type": "Task", "Resource": "echo", "End": true});
    let definition = json!({"StartAt": "P", "States": {
        "P": {"Type": "Parallel", "Next": "M", "Branches": [
            {"StartAt": "A", "States": {"A": task}}, {"StartAt": "B", "States": {"B": task}}]},
        "M": {"Type": "Map", "End": true, "MaxConcurrency": 2, "ItemProcessor":
            {"StartAt": "C", "States": {"C": {"Type": "Task", "Resource": "echo", "Next": "D"},
                "D": {"Type": "Pass", "End": true}}}}}});
    let id = begin(&engine, &definition, json!(7)).await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output, Some(json!([7, 7])));
    history(&engine, &id).await;
    let many: Vec<u64> = (0..300).collect();
    let id = engine.start("w", "many", json!(many)).await.unwrap();
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output, Some(json!([many, many])));
}

pub(crate) async fn a_name_means_one_execution(env: impl TestEnvironment) {
    let engine = env
        .engine(HandlerRegistry::new().with_function("echo", echo))
        .await;
    let definition = json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "echo", "End": true}}});
    let id = begin(&engine, &definition, json!(1)).await;
    let starts = (0..20).map(|_| engine.start("w", "1", json!(1)));
    for again in join_all(starts).await {
        assert_eq!(again.unwrap(), id);
    }
    wait_for_end(&engine, &id).await;
    assert_eq!(engine.start("w", "1", json!(1)).await.unwrap(), id);
    let refused = engine.start("w", "1", json!(2)).await.unwrap_err();
    let is_conflict = matches!(
        refused,
        StartError::Create(CreateError::Conflict {
            differs: "input",
            ..
        })
    );
    assert!(is_conflict, "{refused}");
    // Starting again returns the same execution even after the workflow was
    // deployed again.
    let anew = json!({"Comment": "anew", "StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "echo", "End": true}}});
    let (hash, _) = engine.deploy("w", &anew.to_string()).await.unwrap();
    assert_eq!(engine.start("w", "1", json!(1)).await.unwrap(), id);
    let found = engine.get(&id).await.unwrap().unwrap();
    assert_ne!(found.summary.definition, hash);
    assert_eq!(
        engine.list(&ExecutionQuery::newest(9)).await.unwrap().len(),
        1
    );
}

pub(crate) async fn invalid_starts_are_refused(env: impl TestEnvironment) {
    let engine = env
        .engine(HandlerRegistry::new().with_function("echo", echo))
        .await;
    let deploy = async |definition: Value| engine.deploy("w", &definition.to_string()).await;
    let unhandled = json!({"StartAt": "A", "States": {
        "A": {"Type": "Task", "Resource": "${Copy}", "Next": "B"},
        "B": {"Type": "Task", "Resource": "echo", "Next": "C"},
        "C": {"Type": "Task", "Resource": "arn:aws:states:::sns:publish", "End": true}}});
    let refused = deploy(unhandled.clone()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no handler is registered for ${Copy}, arn:aws:states:::sns:publish; register one for each"
    );
    let invalid = json!({"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "Z"}}});
    let refused = deploy(invalid).await.unwrap_err();
    assert!(matches!(&refused, DeployError::Invalid { problems } if !problems.is_empty()));
    let unfilled = json!({"StartAt": "A", "States": {
        "A": {"Type": "Wait", "Seconds": "${Delay}", "End": true}}});
    let refused = deploy(unfilled).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the definition has open substitutions; fill them in before deploying: \
         /States/A/Seconds: ${Delay} is not filled in, so this is not checked"
    );
    let refused = engine.start("w", "1", json!({})).await.unwrap_err();
    assert!(
        matches!(refused, StartError::NoWorkflow { .. }),
        "{refused}"
    );
    let refused = engine.start("w", "a b", json!({})).await.unwrap_err();
    assert!(refused.to_string().contains("invalid name"), "{refused}");
    // One byte more than AWS allows; the quotes count.
    deploy(json!({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}))
        .await
        .unwrap();
    let large = json!("x".repeat(262_143));
    let refused = engine.start("w", "large", large).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the input has 262145 bytes, the limit is 262144"
    );
    assert_eq!(engine.get("w:large").await.unwrap(), None);
    let largest = json!("x".repeat(262_142));
    engine.start("w", "largest", largest).await.unwrap();
    // Deployed by an engine with the handlers, started by one without.
    let whole = HandlerRegistry::new()
        .with_function("Copy", echo)
        .with_function("echo", echo)
        .with_function("arn:aws:states:::sns:publish", echo);
    let other = env.engine(whole).await;
    other.deploy("w", &unhandled.to_string()).await.unwrap();
    let refused = engine.start("w", "1", json!({})).await.unwrap_err();
    assert!(matches!(refused, StartError::NoHandler(_)), "{refused}");
}

/// A loop of 400 turns has a journal longer than a snapshot. A crash in the middle
/// changes nothing.
pub(crate) async fn long_runs_are_resumed_from_a_snapshot(env: impl TestEnvironment) {
    let count = |input: Value, _: TaskContext| async move {
        let n = input["n"].as_u64().unwrap_or_default();
        Ok::<_, TaskError>(json!({"n": n + 1, "ballast": "x".repeat(100)}))
    };
    let registry = HandlerRegistry::new().with_function("count", count);
    let engine = env.engine(registry.clone()).await;
    let definition = json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "count", "Next": "C"},
        "C": {"Type": "Choice", "Choices": [
            {"Variable": "$.n", "NumericEquals": 400, "Next": "E"},
            {"Variable": "$.n", "NumericEquals": 300, "Next": "W"}], "Default": "T"},
        "W": {"Type": "Wait", "Seconds": 3_600, "Next": "T"},
        "E": {"Type": "Succeed"}}});
    let id = begin(&engine, &definition, json!({"n": 0})).await;
    until(&engine, &id, |seen| {
        is_doing(seen, "W", RunActivity::Waiting)
    })
    .await;
    engine.kill().await;
    let engine = env.engine(registry).await;
    env.clock().advance_ms(3_600_000);
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output.unwrap()["n"], json!(400));
    history(&engine, &id).await;
}

pub(crate) async fn ten_thousand_waits_use_no_memory(env: impl TestEnvironment) {
    const MANY: usize = 10_000;
    let engine = env.engine(HandlerRegistry::new()).await;
    let definition = json!({"StartAt": "W", "States": {
        "W": {"Type": "Wait", "Seconds": 3_600, "End": true}}});
    engine.deploy("w", &definition.to_string()).await.unwrap();
    let names: Vec<String> = (0..MANY).map(|n| n.to_string()).collect();
    let starts = names.iter().map(|name| engine.start("w", name, json!({})));
    for started in join_all(starts).await {
        started.unwrap();
    }
    assert_eq!(engine.held_count(), 0);
    assert_eq!(
        engine
            .list(&ExecutionQuery::newest(1_000))
            .await
            .unwrap()
            .len(),
        1_000
    );
    let ended = engine.start("w", "last", json!({})).await.unwrap();
    env.clock().advance_ms(3_600_000);
    // Executions that are due at the same time run in order of creation, so the
    // last one ends last.
    wait_for_end(&engine, &ended).await;
    until(&engine, "w:0", |seen| seen.is_ended()).await;
}
