//! Executions that start executions.

use ballast_state_machines::core::{ExecutionStatus, RunActivity};
use ballast_state_machines::engine::{
    Engine, EngineSettings, HandlerRegistry, Signal, TaskContext, TaskError,
};
use ballast_state_machines::store::ExecutionQuery;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::world::{
    TestEnvironment, begin, history, is_doing, receive, until, wait_for_end, wait_until_none_held,
};

const SYNC: &str = "arn:aws:states:::states:startExecution.sync";
const SYNC_2: &str = "arn:aws:states:::states:startExecution.sync:2";

/// Starts `child` with this resource.
fn parent(resource: &str, arguments: Value, more: Value) -> Value {
    let mut task = json!({"Type": "Task", "Resource": resource, "Parameters": arguments,
        "End": true});
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    json!({"StartAt": "Start", "States": {"Start": task}})
}

fn child() -> Value {
    json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "work", "Next": "W"},
        "W": {"Type": "Wait", "Seconds": 60, "End": true}}})
}

async fn work(input: Value, _: TaskContext) -> Result<Value, TaskError> {
    match input.get("error").and_then(Value::as_str) {
        Some(error) => Err(TaskError::new(error, "as the input asks")),
        None => Ok(json!({"did": input})),
    }
}

fn working() -> HandlerRegistry {
    HandlerRegistry::new().with_function("work", work)
}

/// A child that waits for a callback and sends its token to the test.
fn asking() -> (HandlerRegistry, mpsc::UnboundedReceiver<String>, Value) {
    let (tell, tokens) = mpsc::unbounded_channel();
    let ask = move |_: Value, context: TaskContext| {
        tell.send(context.token().to_owned()).unwrap();
        async { Ok::<_, TaskError>(json!({})) }
    };
    let registry = HandlerRegistry::new().with_function("ask.waitForTaskToken", ask);
    let child = json!({"StartAt": "Ask", "States": {
        "Ask": {"Type": "Task", "Resource": "ask.waitForTaskToken", "End": true}}});
    (registry, tokens, child)
}

async fn deploy(engine: &Engine, name: &str, definition: &Value) {
    engine.deploy(name, &definition.to_string()).await.unwrap();
}

/// The id of the only child.
async fn only_child(engine: &Engine) -> String {
    let query = ExecutionQuery {
        workflow: Some("child".to_owned()),
        ..ExecutionQuery::newest(9)
    };
    let found = engine.list(&query).await.unwrap();
    assert_eq!(found.len(), 1);
    found[0].id.clone()
}

pub(crate) async fn a_parent_that_waits_uses_no_memory(env: impl TestEnvironment) {
    let engine = env.engine(working()).await;
    deploy(&engine, "child", &child()).await;
    let arguments = json!({"StateMachineArn": "arn:x:states:y:1:stateMachine:child",
        "Input": {"n.$": "$.n"}});
    let definition = parent(SYNC_2, arguments, json!({"HeartbeatSeconds": 10}));
    let id = begin(&engine, &definition, json!({"n": 3})).await;
    let seen = until(&engine, &id, |seen| {
        seen.summary.position[0].child.is_some()
    })
    .await;
    assert!(is_doing(&seen, "Start", RunActivity::Working));
    assert_eq!(engine.pending_callbacks(&id).await.unwrap(), Some(vec![]));
    let child = only_child(&engine).await;
    assert_eq!(seen.summary.position[0].child, Some(child.clone()));
    until(&engine, &child, |seen| {
        is_doing(seen, "W", RunActivity::Waiting)
    })
    .await;
    wait_until_none_held(&engine).await;
    env.clock().advance_ms(60_000);
    let ended = wait_for_end(&engine, &id).await;
    let output = ended.output.unwrap();
    assert_eq!(output["Status"], "SUCCEEDED");
    assert_eq!(output["Output"], json!({"did": {"n": 3}}));
    assert_eq!(output["Input"], json!({"n": 3}));
    assert_eq!(output["ExecutionArn"], json!(child));
    assert_eq!(output["StateMachineArn"], "child");
    let started = ended.summary.started_at_ms;
    assert_eq!(
        (&output["StartDate"], &output["StopDate"]),
        (&json!(started), &json!(started + 60_000))
    );
    let history = history(&engine, &id).await;
    let kinds: Vec<_> = history.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds[1..6],
        [
            "TaskStateEntered",
            "TaskScheduled",
            "TaskStarted",
            "TaskSubmitted",
            "TaskSucceeded"
        ]
    );
}

pub(crate) async fn responses_have_the_shape_of_step_functions(env: impl TestEnvironment) {
    let engine = env.engine(working()).await;
    let at_once = json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "work", "End": true}}});
    deploy(&engine, "child", &at_once).await;
    // A child with a name may exist already, and may have ended.
    let arguments = json!({"StateMachineArn": "${Child}", "Name": "one", "Input": "{\"a\": 1}"});
    deploy(&engine, "w", &parent(SYNC, arguments.clone(), json!({}))).await;
    for name in ["1", "2"] {
        let id = engine.start("w", name, json!({})).await.unwrap();
        let ended = wait_for_end(&engine, &id).await;
        let output = ended.output.unwrap();
        assert_eq!(output["Output"], json!(r#"{"did":{"a":1}}"#));
        assert_eq!(output["Input"], json!(r#"{"a":1}"#));
        assert_eq!(
            (&output["Name"], &output["ExecutionArn"]),
            (&json!("one"), &json!("child:one"))
        );
    }
    let resource = "arn:aws:states:::states:startExecution";
    deploy(&engine, "w", &parent(resource, arguments, json!({}))).await;
    let id = engine.start("w", "3", json!({})).await.unwrap();
    let ended = wait_for_end(&engine, &id).await;
    let started = ended.summary.started_at_ms;
    assert_eq!(
        ended.output,
        Some(json!({"ExecutionArn": "child:one", "StartDate": started}))
    );
}

pub(crate) async fn a_child_that_fails_fails_its_task(env: impl TestEnvironment) {
    let engine = env.engine(working()).await;
    deploy(&engine, "child", &child()).await;
    let arguments = json!({"StateMachineArn": "child", "Input": {"error": "Test.Broken"}});
    let id = begin(&engine, &parent(SYNC_2, arguments, json!({})), json!({})).await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.error.as_deref(), Some("States.TaskFailed"));
    let cause: Value = serde_json::from_str(&ended.cause.unwrap()).unwrap();
    assert_eq!(cause["Status"], "FAILED");
    assert_eq!(
        (&cause["Error"], &cause["Cause"]),
        (&json!("Test.Broken"), &json!("as the input asks"))
    );
}

pub(crate) async fn a_child_that_cannot_start_fails_its_task(env: impl TestEnvironment) {
    let engine = env.engine(working()).await;
    deploy(&engine, "child", &child()).await;
    engine.start("child", "taken", json!(1)).await.unwrap();
    for (name, arguments, error, cause) in [
        (
            "1",
            json!({"StateMachineArn": "missing"}),
            "StepFunctions.StateMachineDoesNotExistException",
            "deploy it first",
        ),
        (
            "2",
            json!({}),
            "StepFunctions.ValidationException",
            "StateMachineArn",
        ),
        (
            "3",
            json!({"StateMachineArn": "child", "Name": "a b"}),
            "StepFunctions.InvalidNameException",
            "invalid name",
        ),
        (
            "4",
            json!({"StateMachineArn": "child", "Name": "taken", "Input": 2}),
            "StepFunctions.ExecutionAlreadyExistsException",
            "another input",
        ),
    ] {
        deploy(&engine, "w", &parent(SYNC_2, arguments, json!({}))).await;
        let id = engine.start("w", name, json!({})).await.unwrap();
        let ended = wait_for_end(&engine, &id).await;
        assert_eq!(ended.error.as_deref(), Some(error));
        let actual = ended.cause.unwrap();
        assert!(actual.contains(cause), "{actual}");
    }
}

pub(crate) async fn a_workflow_that_starts_itself_ends(env: impl TestEnvironment) {
    let engine = env.engine(HandlerRegistry::new()).await;
    let arguments = json!({"StateMachineArn": "w"});
    let id = begin(&engine, &parent(SYNC_2, arguments, json!({})), json!({})).await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.error.as_deref(), Some("States.TaskFailed"));
    let cause = ended.cause.unwrap();
    assert!(cause.contains("nested more than 10 deep"), "{cause}");
    assert_eq!(
        engine
            .list(&ExecutionQuery::newest(99))
            .await
            .unwrap()
            .len(),
        11
    );
}

/// A waiting parent must not use a task permit or stay in memory: otherwise parents
/// and children would deadlock here.
pub(crate) async fn parents_need_no_task_permits(env: impl TestEnvironment) {
    const MANY: usize = 50;
    let settings = EngineSettings {
        tasks_max: 1,
        held_max: 2,
        ..EngineSettings::default()
    };
    let engine = env.engine_with(working(), settings).await;
    let at_once = json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "work", "End": true}}});
    deploy(&engine, "child", &at_once).await;
    let arguments = json!({"StateMachineArn": "child"});
    deploy(&engine, "w", &parent(SYNC_2, arguments, json!({}))).await;
    let mut ids = Vec::new();
    for name in 0..MANY {
        let id = engine.start("w", &name.to_string(), json!({})).await;
        ids.push(id.unwrap());
    }
    for id in ids {
        let ended = wait_for_end(&engine, &id).await;
        assert_eq!(ended.summary.status, ExecutionStatus::Succeeded);
    }
    let all = engine.list(&ExecutionQuery::newest(1_000)).await.unwrap();
    assert_eq!(all.len(), 2 * MANY);
}

pub(crate) async fn a_child_ends_with_its_parent(env: impl TestEnvironment) {
    let (registry, mut tokens, child) = asking();
    let engine = env.engine(registry).await;
    deploy(&engine, "child", &child).await;
    let arguments = json!({"StateMachineArn": "child"});
    deploy(
        &engine,
        "w",
        &parent(SYNC_2, arguments, json!({"TimeoutSeconds": 3_600})),
    )
    .await;
    for is_late in [false, true] {
        let id = engine
            .start("w", &is_late.to_string(), json!({}))
            .await
            .unwrap();
        let token = receive(&mut tokens).await;
        let child = token.split('#').next().unwrap();
        until(&engine, &id, |seen| {
            seen.summary.position[0].child.is_some() && seen.summary.worker.is_none()
        })
        .await;
        match is_late {
            true => env.clock().advance_ms(3_600_000),
            false => engine.cancel(&id, None, None).await.unwrap(),
        }
        let ended = wait_for_end(&engine, &id).await;
        let expected = if is_late {
            ExecutionStatus::Failed
        } else {
            ExecutionStatus::Aborted
        };
        assert_eq!(ended.summary.status, expected);
        let ended = wait_for_end(&engine, child).await;
        assert_eq!(ended.summary.status, ExecutionStatus::Aborted);
        assert!(ended.cause.unwrap().contains("no longer waits for it"));
    }
}

/// A child that another start created continues when a parent gives it up. A parent
/// finds its end by a periodic check.
pub(crate) async fn a_parent_checks_a_child_of_another_start(env: impl TestEnvironment) {
    let (registry, mut tokens, child) = asking();
    let engine = env.engine(registry).await;
    deploy(&engine, "child", &child).await;
    let child = engine.start("child", "theirs", json!({})).await.unwrap();
    let token = receive(&mut tokens).await;
    let arguments = json!({"StateMachineArn": "child", "Name": "theirs"});
    deploy(&engine, "w", &parent(SYNC_2, arguments, json!({}))).await;
    let waits = async |name: &str| {
        let id = engine.start("w", name, json!({})).await.unwrap();
        until(&engine, &id, |seen| {
            seen.summary.position[0].child.is_some() && seen.summary.worker.is_none()
        })
        .await;
        id
    };
    let gives_up = waits("1").await;
    engine.cancel(&gives_up, None, None).await.unwrap();
    wait_for_end(&engine, &gives_up).await;
    let stays = waits("2").await;
    engine
        .signal(&token, Signal::Success(json!("done")))
        .await
        .unwrap();
    let ended = wait_for_end(&engine, &child).await;
    assert_eq!(ended.output, Some(json!("done")));
    assert!(!engine.get(&stays).await.unwrap().unwrap().is_ended());
    env.clock().advance_ms(5_000);
    let ended = wait_for_end(&engine, &stays).await;
    assert_eq!(ended.output.unwrap()["Output"], json!("done"));
}

/// Kills the engine while parent and child wait.
pub(crate) async fn parents_and_children_survive_a_crash(env: impl TestEnvironment) {
    let (registry, mut tokens, child) = asking();
    let mut engine = env.engine(registry.clone()).await;
    deploy(&engine, "child", &child).await;
    let arguments = json!({"StateMachineArn": "child"});
    let id = begin(&engine, &parent(SYNC_2, arguments, json!({})), json!({})).await;
    let token = receive(&mut tokens).await;
    for _ in 0..3 {
        engine.kill().await;
        engine = env.engine(registry.clone()).await;
    }
    engine
        .signal(&token, Signal::Success(json!("done")))
        .await
        .unwrap();
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output.unwrap()["Output"], json!("done"));
    only_child(&engine).await;
    history(&engine, &id).await;
}
