//! Tasks that misbehave.

use std::sync::Arc;

use ballast_state_machines::core::ExecutionStatus;
use ballast_state_machines::engine::{
    EngineClock, HandlerRegistry, ProgressReport, TaskContext, TaskError,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use super::world::{TestEnvironment, begin, entered, history, receive, until, wait_for_end};

/// A handler that reports its begin and its cancellation, and sends a heartbeat
/// when the test asks for one.
struct StubbornTask {
    registry: HandlerRegistry,
    said: mpsc::UnboundedReceiver<&'static str>,
    beat: mpsc::UnboundedSender<()>,
}

fn stubborn() -> StubbornTask {
    let (tell, said) = mpsc::unbounded_channel();
    let (beat, beats) = mpsc::unbounded_channel();
    let beats = Arc::new(Mutex::new(beats));
    let work = move |_: Value, context: TaskContext| {
        let (tell, beats) = (tell.clone(), Arc::clone(&beats));
        async move {
            tell.send("begun").unwrap();
            let mut beats = beats.lock().await;
            loop {
                tokio::select! {
                    () = context.cancelled() => break,
                    Some(()) = beats.recv() => {
                        context.heartbeat(ProgressReport {
                            done: 3,
                            total: Some(4),
                            unit: "rows".to_owned(),
                            note: None,
                        });
                        tell.send("beaten").unwrap();
                    }
                }
            }
            assert!(context.is_cancelled());
            let _ = tell.send("cancelled");
            Ok::<_, TaskError>(json!("too late"))
        }
    };
    StubbornTask {
        registry: HandlerRegistry::new().with_function("work", work),
        said,
        beat,
    }
}

fn definition(patience: &Value) -> Value {
    let mut task = json!({"Type": "Task", "Resource": "work", "End": true, "Catch": [
        {"ErrorEquals": ["States.HeartbeatTimeout"], "Next": "Silent"},
        {"ErrorEquals": ["States.Timeout"], "Next": "Late"},
        {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Broken"}]});
    for (name, value) in patience.as_object().unwrap() {
        task[name] = value.clone();
    }
    json!({"StartAt": "T", "States": {
        "T": task,
        "Silent": {"Type": "Succeed"},
        "Late": {"Type": "Succeed"},
        "Broken": {"Type": "Succeed"}}})
}

pub(crate) async fn a_task_that_times_out_is_stopped(env: impl TestEnvironment) {
    let StubbornTask {
        registry, mut said, ..
    } = stubborn();
    let engine = env.engine(registry).await;
    let definition = definition(&json!({"TimeoutSeconds": 5}));
    let id = begin(&engine, &definition, json!({})).await;
    assert_eq!(receive(&mut said).await, "begun");
    env.clock().advance_ms(4_999);
    assert!(!engine.get(&id).await.unwrap().unwrap().is_ended());
    env.clock().advance_ms(1);
    assert_eq!(receive(&mut said).await, "cancelled");
    wait_for_end(&engine, &id).await;
    let history = history(&engine, &id).await;
    assert_eq!(entered(&history), ["T", "Late"]);
}

pub(crate) async fn a_task_without_heartbeats_is_stopped(env: impl TestEnvironment) {
    let StubbornTask {
        registry,
        mut said,
        beat,
    } = stubborn();
    let engine = env.engine(registry).await;
    let definition = definition(&json!({"TimeoutSeconds": 60, "HeartbeatSeconds": 5}));
    let id = begin(&engine, &definition, json!({})).await;
    assert_eq!(receive(&mut said).await, "begun");
    for _ in 0..4 {
        env.clock().advance_ms(4_999);
        beat.send(()).unwrap();
        assert_eq!(receive(&mut said).await, "beaten");
    }
    let seen = until(&engine, &id, |seen| !seen.progress.is_empty()).await;
    assert_eq!(seen.progress, engine.progress(&id));
    let progress = &seen.progress[0];
    assert_eq!((progress.state.as_str(), progress.progress.done), ("T", 3));
    assert_eq!(progress.at_ms, env.clock().now_ms());
    env.clock().advance_ms(5_000);
    assert_eq!(receive(&mut said).await, "cancelled");
    wait_for_end(&engine, &id).await;
    let history = history(&engine, &id).await;
    assert_eq!(entered(&history), ["T", "Silent"]);
}

pub(crate) async fn a_panic_fails_the_task(env: impl TestEnvironment) {
    let work = |_: Value, context: TaskContext| async move {
        assert!(context.attempt() > 9, "it cannot be helped");
        Ok::<_, TaskError>(())
    };
    let engine = env
        .engine(HandlerRegistry::new().with_function("work", work))
        .await;
    let id = begin(&engine, &definition(&json!({})), json!({})).await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(
        ended.output.unwrap()["error"],
        json!({"Error": "Task.Panicked",
            "Cause": "the handler of \"work\" panicked: it cannot be helped"})
    );
}

pub(crate) async fn an_input_that_cannot_be_parsed_fails_the_task(env: impl TestEnvironment) {
    let work = |_: u64, _: TaskContext| async move { Ok::<_, TaskError>(()) };
    let engine = env
        .engine(HandlerRegistry::new().with_function("work", work))
        .await;
    let plain = json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "work", "End": true}}});
    let id = begin(&engine, &plain, json!("three")).await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.summary.status, ExecutionStatus::Failed);
    assert_eq!(ended.error.as_deref(), Some("Task.BadInput"));
    assert!(ended.cause.unwrap().contains("\"three\""));
}

/// A result that the store would always refuse because of its size fails the task,
/// and can be caught.
pub(crate) async fn a_result_that_is_too_large_fails_the_task(env: impl TestEnvironment) {
    let work = |_: Value, _: TaskContext| async move { Ok::<_, TaskError>("x".repeat(17 << 20)) };
    let engine = env
        .engine(HandlerRegistry::new().with_function("work", work))
        .await;
    let id = begin(&engine, &definition(&json!({})), json!({})).await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.summary.status, ExecutionStatus::Succeeded);
    let error = &ended.output.unwrap()["error"];
    assert_eq!(error["Error"], "States.DataLimitExceeded");
    assert_eq!(entered(&history(&engine, &id).await), ["T", "Broken"]);
}
