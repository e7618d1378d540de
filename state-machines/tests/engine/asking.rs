//! Commands to running executions.

use std::sync::Arc;

use ballast_state_machines::core::{ExecutionStatus, RunActivity};
use ballast_state_machines::engine::{
    CommandError, Engine, EngineClock, HandlerRegistry, ProgressReport, Signal, TaskContext,
    TaskError,
};
use ballast_state_machines::store::PostError;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::world::{
    TestEnvironment, begin, entered, history, is_doing, receive, until, wait_for_end,
    wait_until_none_held,
};

fn approval(more: Value) -> Value {
    let mut task = json!({"Type": "Task", "Resource": "ask.waitForTaskToken", "Next": "Done"});
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    json!({"StartAt": "Ask", "States": {"Ask": task, "Done": {"Type": "Succeed"}}})
}

/// A handler that sends its token to the test.
fn asking() -> (HandlerRegistry, mpsc::UnboundedReceiver<String>) {
    let (tell, tokens) = mpsc::unbounded_channel();
    let ask = move |_: Value, context: TaskContext| {
        tell.send(context.token().to_owned()).unwrap();
        async { Ok::<_, TaskError>(json!({"sent": true})) }
    };
    (
        HandlerRegistry::new().with_function("ask.waitForTaskToken", ask),
        tokens,
    )
}

async fn parked(engine: &Engine, id: &str) {
    until(engine, id, |seen| {
        is_doing(seen, "Ask", RunActivity::AwaitingCallback) && seen.summary.worker.is_none()
    })
    .await;
}

pub(crate) async fn a_callback_task_waits_for_its_signal(env: impl TestEnvironment) {
    let (registry, mut tokens) = asking();
    let engine = env.engine(registry.clone()).await;
    let id = begin(&engine, &approval(json!({})), json!({})).await;
    let token = receive(&mut tokens).await;
    parked(&engine, &id).await;
    // The task was submitted before the crash and is not submitted again.
    engine.kill().await;
    let engine = env.engine(registry).await;
    let yes = Signal::Success(json!("yes"));
    let forged = format!("{}#{:016x}", token.rsplit_once('#').unwrap().0, 1);
    assert!(matches!(
        engine.signal(&forged, yes.clone()).await.unwrap_err(),
        CommandError::NotWaiting { id: named } if named == id
    ));
    assert!(matches!(
        engine.signal("nonsense", yes.clone()).await.unwrap_err(),
        CommandError::BadToken
    ));
    engine.signal(&token, yes.clone()).await.unwrap();
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output, Some(json!("yes")));
    engine.signal(&token, yes).await.unwrap();
    let refused = engine.signal(&token, Signal::Success(json!("no"))).await;
    assert!(matches!(
        refused.unwrap_err(),
        CommandError::Post(PostError::Conflict { .. })
    ));
    assert!(tokens.try_recv().is_err());
    let history = history(&engine, &id).await;
    let kinds: Vec<_> = history.iter().map(|event| event.kind.as_str()).collect();
    assert!(kinds.contains(&"TaskSubmitted"), "{kinds:?}");
}

/// A running execution only accepts signals that it waits for; the same signal may
/// be repeated.
pub(crate) async fn only_awaited_tokens_are_accepted(env: impl TestEnvironment) {
    let (registry, mut tokens) = asking();
    let engine = env.engine(registry).await;
    let mut definition = approval(json!({"Next": "Again"}));
    definition["States"]["Again"] =
        json!({"Type": "Task", "Resource": "ask.waitForTaskToken", "Next": "Done"});
    let id = begin(&engine, &definition, json!({})).await;
    let first = receive(&mut tokens).await;
    parked(&engine, &id).await;
    let waiting = engine.pending_callbacks(&id).await.unwrap().unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(
        (waiting[0].state.as_str(), &waiting[0].token),
        ("Ask", &first)
    );
    assert_eq!(waiting[0].since_ms, env.clock().now_ms());
    let (yes, no) = (Signal::Success(json!("yes")), Signal::Success(json!("no")));
    engine.signal(&first, yes.clone()).await.unwrap();
    let second = receive(&mut tokens).await;
    until(&engine, &id, |seen| {
        is_doing(seen, "Again", RunActivity::AwaitingCallback)
    })
    .await;
    engine.signal(&first, yes.clone()).await.unwrap();
    assert!(matches!(
        engine.signal(&first, no.clone()).await.unwrap_err(),
        CommandError::Post(PostError::Conflict { .. })
    ));
    let never = format!("{id}#7#{:016x}", 1);
    for _ in 0..2 {
        let refused = engine.signal(&never, yes.clone()).await.unwrap_err();
        assert!(
            matches!(refused, CommandError::NotWaiting { .. }),
            "{refused}"
        );
    }
    let refused = engine.heartbeat(&first, ProgressReport::default()).await;
    assert!(matches!(refused, Err(CommandError::NotWaiting { .. })));
    engine.signal(&second, no.clone()).await.unwrap();
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output, Some(json!("no")));
    assert_eq!(engine.pending_callbacks(&id).await.unwrap(), Some(vec![]));
    assert_eq!(engine.pending_callbacks("w:missing").await.unwrap(), None);
    assert!(matches!(
        engine.signal(&never, yes).await.unwrap_err(),
        CommandError::Post(PostError::Ended { .. })
    ));
}

/// A signal may arrive before the handler returns.
pub(crate) async fn a_signal_may_arrive_early(env: impl TestEnvironment) {
    let (tell, mut tokens) = mpsc::unbounded_channel();
    let ask = move |_: Value, context: TaskContext| {
        tell.send(context.token().to_owned()).unwrap();
        async move {
            context.cancelled().await;
            Ok::<_, TaskError>(json!({"sent": true}))
        }
    };
    let registry = HandlerRegistry::new().with_function("ask.waitForTaskToken", ask);
    let engine = env.engine(registry).await;
    let id = begin(&engine, &approval(json!({})), json!({})).await;
    let token = receive(&mut tokens).await;
    assert_eq!(engine.pending_callbacks(&id).await.unwrap(), Some(vec![]));
    let yes = Signal::Success(json!("yes"));
    engine.signal(&token, yes.clone()).await.unwrap();
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output, Some(json!("yes")));
    engine.signal(&token, yes).await.unwrap();
}

pub(crate) async fn a_callback_task_can_time_out(env: impl TestEnvironment) {
    let (registry, mut tokens) = asking();
    let engine = env.engine(registry).await;
    let definition = approval(json!({"TimeoutSeconds": 3_600, "HeartbeatSeconds": 60}));
    let id = begin(&engine, &definition, json!({})).await;
    let token = receive(&mut tokens).await;
    // Wait until each heartbeat shows as progress before moving the clock on.
    for done in 1..=3 {
        env.clock().advance_ms(59_000);
        let progress = ProgressReport {
            done,
            ..ProgressReport::default()
        };
        engine.heartbeat(&token, progress).await.unwrap();
        until(&engine, &id, |seen| {
            seen.progress
                .first()
                .is_some_and(|reported| reported.progress.done == done)
        })
        .await;
    }
    env.clock().advance_ms(60_000);
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.error.as_deref(), Some("States.Timeout"));
    // Without heartbeats the execution is parked, and the timeout still counts.
    let definition = approval(json!({"TimeoutSeconds": 3_600}));
    engine.deploy("w", &definition.to_string()).await.unwrap();
    let id = engine.start("w", "2", json!({})).await.unwrap();
    parked(&engine, &id).await;
    // The park is durable before the driver releases the execution.
    wait_until_none_held(&engine).await;
    env.clock().advance_ms(3_600_000);
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.error.as_deref(), Some("States.Timeout"));
}

/// A handler that waits for the test's approval.
fn nodding() -> (
    HandlerRegistry,
    Arc<Notify>,
    mpsc::UnboundedReceiver<&'static str>,
) {
    let nod = Arc::new(Notify::new());
    let (tell, said) = mpsc::unbounded_channel();
    let nodded = Arc::clone(&nod);
    let work = move |_: Value, context: TaskContext| {
        let (nod, tell) = (Arc::clone(&nodded), tell.clone());
        async move {
            tell.send("begun").unwrap();
            tokio::select! {
                () = nod.notified() => Ok(json!("nodded")),
                () = context.cancelled() => {
                    let _ = tell.send("cancelled");
                    Err(TaskError::new("Given.Up", "it was cancelled"))
                }
            }
        }
    };
    (
        HandlerRegistry::new().with_function("work", work),
        nod,
        said,
    )
}

fn two_tasks() -> Value {
    json!({"StartAt": "A", "States": {
        "A": {"Type": "Task", "Resource": "work", "Next": "B"},
        "B": {"Type": "Task", "Resource": "work", "End": true}}})
}

pub(crate) async fn a_paused_execution_starts_no_tasks(env: impl TestEnvironment) {
    let (registry, nod, mut said) = nodding();
    let engine = env.engine(registry).await;
    let id = begin(&engine, &two_tasks(), json!({})).await;
    assert_eq!(receive(&mut said).await, "begun");
    engine.pause(&id).await.unwrap();
    until(&engine, &id, |seen| seen.summary.paused).await;
    nod.notify_one();
    // The result is recorded, and the execution is parked.
    until(&engine, &id, |seen| {
        is_doing(seen, "A", RunActivity::Ready) && seen.summary.worker.is_none()
    })
    .await;
    assert!(said.try_recv().is_err());
    engine.resume(&id).await.unwrap();
    assert_eq!(receive(&mut said).await, "begun");
    nod.notify_one();
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output, Some(json!("nodded")));
}

pub(crate) async fn a_cancelled_execution_stops_its_tasks(env: impl TestEnvironment) {
    let (registry, _nod, mut said) = nodding();
    let engine = env.engine(registry).await;
    let id = begin(&engine, &two_tasks(), json!({})).await;
    assert_eq!(receive(&mut said).await, "begun");
    let cause = Some("not needed".to_owned());
    engine.cancel(&id, None, cause.clone()).await.unwrap();
    assert_eq!(receive(&mut said).await, "cancelled");
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.summary.status, ExecutionStatus::Aborted);
    assert_eq!((ended.error, ended.cause), (None, cause));
    assert_eq!(entered(&history(&engine, &id).await), ["A"]);
    let refused = engine.pause(&id).await.unwrap_err();
    assert!(matches!(
        refused,
        CommandError::Post(PostError::Ended { .. })
    ));
}

pub(crate) async fn commands_to_missing_executions_are_refused(env: impl TestEnvironment) {
    let engine = env.engine(HandlerRegistry::new()).await;
    let refused = engine.pause("w:missing").await.unwrap_err();
    assert!(matches!(
        refused,
        CommandError::Post(PostError::NotFound { .. })
    ));
    assert_eq!(engine.get("w:missing").await.unwrap(), None);
    assert_eq!(engine.wait_for_end("w:missing").await.unwrap(), None);
    assert_eq!(engine.position("w:missing").await.unwrap(), None);
}
