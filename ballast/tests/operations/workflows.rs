//! Journey: workflows and executions over the admin API, on a real instance.

use crate::support::{HttpAnswer, Instance, eventually, text};
use serde_json::{Value, json};

/// Passes, and has a comment.
fn passing() -> Value {
    json!({"Comment": "Adds nothing.", "StartAt": "Pass", "States": {
        "Pass": {"Type": "Pass", "Result": {"passed": true}, "End": true}}})
}

/// Waits for a signal, then ends with its output.
fn approving() -> Value {
    json!({"StartAt": "Ask", "States": {
        "Ask": {"Type": "Task", "Resource": "ballast:approval.waitForTaskToken",
            "Catch": [{"ErrorEquals": ["Denied"], "Next": "Denied"}], "End": true},
        "Denied": {"Type": "Fail", "Error": "Denied", "CausePath": "$.Cause"}}})
}

/// Works for a while, and reports progress.
fn working() -> Value {
    json!({"StartAt": "Work", "States": {
        "Work": {"Type": "Task", "Resource": "ballast:work", "Next": "Rest"},
        "Rest": {"Type": "Wait", "SecondsPath": "$.rest", "End": true}}})
}

async fn deploy(it: &Instance, name: &str, definition: &Value) -> Value {
    let call = it.call("PUT", &format!("/workflows/{name}"));
    call.json(definition).send().await.expect(200)
}

async fn start(it: &Instance, body: &Value) -> HttpAnswer {
    it.call("POST", "/executions").json(body).send().await
}

async fn ask(it: &Instance, id: &str, verb: &str, body: &Value) -> HttpAnswer {
    let path = format!("/executions/{id}/{verb}");
    it.call("POST", &path).json(body).send().await
}

/// Waits until an execution meets a condition.
async fn until(it: &Instance, id: &str, such: impl Fn(&Value) -> bool) -> Value {
    eventually("the expected state", async || {
        let now = it.get(&format!("/executions/{id}")).await;
        such(&now).then_some(now)
    })
    .await
}

fn has_ended(execution: &Value) -> bool {
    execution["status"] != "RUNNING"
}

#[tokio::test]
async fn a_workflow_is_deployed_listed_and_run() {
    let it = Instance::start().await;
    let own: Vec<_> = it.all("/workflows").await;
    let names: Vec<_> = own.iter().map(|known| text(&known["workflow"])).collect();
    assert_eq!(names, ["drain-shard", "move-tenant", "rebalance"]);
    assert!(own.iter().all(|known| known["builtIn"] == true));

    let deployed = deploy(&it, "trial", &passing()).await;
    assert_eq!(deployed["workflow"], "trial");
    assert_eq!(deployed["comment"], "Adds nothing.");
    assert_eq!(deployed["problems"], json!([]));
    assert_eq!(deployed["missingHandlers"], json!([]));
    let shown = it.get("/workflows/trial").await;
    assert_eq!(shown["definition"], passing());
    assert_eq!(shown["definitionHash"], deployed["definitionHash"]);

    let first = json!({"workflow": "trial", "name": "one", "input": {"n": 1}});
    let started = start(&it, &first).await.expect(201);
    assert_eq!(started["executionID"], "trial:one");
    let ended = until(&it, "trial:one", has_ended).await;
    assert_eq!(ended["status"], "SUCCEEDED");
    assert_eq!(ended["output"], json!({"passed": true}));
    assert_eq!(ended["input"], json!({"n": 1}));
    assert_eq!(ended["position"], json!([]));

    // The same request returns the same execution; another input is refused.
    let again = start(&it, &first).await.expect(200);
    assert_eq!(again["startedAt"], ended["startedAt"]);
    let other = json!({"workflow": "trial", "name": "one", "input": {"n": 2}});
    start(&it, &other)
        .await
        .expect_error(409, "execution-exists");

    let history = it.get("/executions/trial:one/history").await;
    let kinds = history["events"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|event| text(&event["type"])).collect();
    let all = [
        "ExecutionStarted",
        "PassStateEntered",
        "PassStateExited",
        "ExecutionSucceeded",
    ];
    assert_eq!(kinds, all);
    assert_eq!(history.get("nextToken"), None);
    let page = it
        .get("/executions/trial:one/history?limit=3&newestFirst=true")
        .await;
    assert_eq!(page["events"][0]["type"], "ExecutionSucceeded");
    let next = text(&page["nextToken"]);
    let path = format!("/executions/trial:one/history?limit=3&newestFirst=true&cursor={next}");
    let rest = it.get(&path).await;
    assert_eq!(rest["events"][0]["type"], "ExecutionStarted");
    let runs = it.get("/executions/trial:one/definition").await;
    assert_eq!(runs["definition"], passing());
}

#[tokio::test]
async fn invalid_workflows_and_commands_are_refused_without_effect() {
    let it = Instance::start().await;
    deploy(&it, "trial", &passing()).await;
    let before = it.newest_event().await;
    let put = |name: &str, body: Value| {
        let path = format!("/workflows/{name}");
        it.call("PUT", &path).json(&body).send()
    };
    let broken = json!({"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "B"}}});
    let reply = put("broken", broken)
        .await
        .expect_error(422, "invalid-definition");
    assert_eq!(reply["errors"][0]["pointer"], "/States/A/Next", "{reply}");
    let strange = json!({"StartAt": "A", "States": {
        "A": {"Type": "Task", "Resource": "nobody:does", "End": true}}});
    let reply = put("strange", strange)
        .await
        .expect_error(422, "no-handler");
    assert!(text(&reply["detail"]).contains("nobody:does"), "{reply}");
    let own = put("move-tenant", passing()).await;
    own.expect_error(409, "workflow-built-in");
    put("no%20name", passing())
        .await
        .expect_error(422, "invalid-field");
    let list = it.call("PUT", "/workflows/list").json(&json!([])).send();
    list.await.expect_error(422, "invalid-field");

    let unknown = start(&it, &json!({"workflow": "tral"})).await;
    let reply = unknown.expect_error(404, "workflow-not-found");
    assert!(text(&reply["detail"]).contains("did you mean \"trial\"?"));
    let large = json!({"workflow": "trial", "input": "x".repeat(300_000)});
    let reply = start(&it, &large).await.expect_error(422, "invalid-field");
    assert_eq!(reply["errors"][0]["pointer"], "/input");
    let named = start(&it, &json!({"workflow": "trial", "name": "a b"})).await;
    let reply = named.expect_error(422, "invalid-field");
    assert_eq!(reply["errors"][0]["pointer"], "/name");
    for (path, code) in [
        ("/workflows/none", "workflow-not-found"),
        ("/executions/trial:none", "execution-not-found"),
        ("/executions/trial:none/history", "execution-not-found"),
        ("/executions/trial:none/definition", "execution-not-found"),
        ("/executions/trial:none/watch", "execution-not-found"),
    ] {
        it.call("GET", path).send().await.expect_error(404, code);
    }
    for verb in ["pause", "resume", "cancel"] {
        let answer = ask(&it, "trial:none", verb, &json!({})).await;
        answer.expect_error(404, "execution-not-found");
    }
    let status = it.call("GET", "/executions?status=DONE").send().await;
    assert_eq!(status.status, 422, "{}", status.text);
    assert_eq!(it.all("/executions").await, Vec::<Value>::new());
    assert_eq!(it.newest_event().await, before, "nothing was changed");
}

#[tokio::test]
async fn an_approval_is_given_by_a_signal() {
    let it = Instance::start().await;
    deploy(&it, "approving", &approving()).await;
    let names = ["yes", "no", "token"];
    for name in names {
        let body = json!({"workflow": "approving", "name": name});
        start(&it, &body).await.expect(201);
        let id = format!("approving:{name}");
        let waits = |now: &Value| now["position"][0]["doing"] == "awaitingCallback";
        until(&it, &id, waits).await;
    }
    let said = json!({"output": {"by": "Ada"}});
    let wrong = ask(
        &it,
        "approving:yes",
        "signal",
        &json!({"state": "Tell", "output": 1}),
    )
    .await;
    let reply = wrong.expect_error(409, "nothing-waits");
    assert!(text(&reply["detail"]).contains("Ask"), "{reply}");
    for bad in [json!({}), json!({"output": 1, "error": "E"})] {
        let answer = ask(&it, "approving:yes", "signal", &bad).await;
        answer.expect_error(422, "invalid-field");
    }
    let strange = json!({"token": "approving:yes#1#0000", "output": 1});
    let answer = ask(&it, "approving:no", "signal", &strange).await;
    answer.expect_error(422, "invalid-field");
    let answer = ask(&it, "approving:yes", "signal", &strange).await;
    answer.expect_error(409, "nothing-waits");

    ask(&it, "approving:yes", "signal", &said).await.expect(200);
    let ended = until(&it, "approving:yes", has_ended).await;
    assert_eq!(ended["output"], json!({"by": "Ada"}));
    let late = ask(&it, "approving:yes", "signal", &said).await;
    late.expect_error(409, "execution-ended");

    let no = json!({"state": "Ask", "error": "Denied", "cause": "not today"});
    let answer = ask(&it, "approving:no", "signal", &no).await.expect(200);
    assert_eq!(answer["executionID"], "approving:no");
    let ended = until(&it, "approving:no", has_ended).await;
    assert_eq!(
        (&ended["status"], &ended["error"]),
        (&json!("FAILED"), &json!("Denied"))
    );
    assert_eq!(ended["cause"], "not today");

    // The actor is in the audit log.
    let events = it.all("/events?kind=execution&id=approving:no").await;
    let actions: Vec<_> = events.iter().map(|event| text(&event["action"])).collect();
    assert_eq!(actions, ["execution.signal", "execution.start"]);
    assert_eq!(events[0]["after"]["state"], "Ask");
    assert_eq!(events[0]["actor"]["name"], "first-admin");
}

#[tokio::test]
async fn an_execution_is_paused_resumed_and_cancelled() {
    let it = Instance::start().await;
    deploy(&it, "working", &working()).await;
    let body = json!({"workflow": "working", "name": "long",
        "input": {"seconds": 60, "units": 600, "unit": "rows", "note": "copying"}});
    start(&it, &body).await.expect(201);
    let reply = until(&it, "working:long", |now| now["progress"] != json!([])).await;
    let progress = &reply["progress"][0];
    assert_eq!(progress["state"], "Work");
    assert_eq!(
        (&progress["total"], &progress["unit"]),
        (&json!(600), &json!("rows"))
    );
    assert_eq!(progress["note"], "copying");
    let running = it.all("/executions?status=RUNNING&workflow=working").await;
    assert_eq!(running.len(), 1);
    let paused = ask(&it, "working:long", "pause", &json!({}))
        .await
        .expect(200);
    assert_eq!(paused["paused"], true);
    ask(&it, "working:long", "pause", &json!({}))
        .await
        .expect(200);
    let resumed = ask(&it, "working:long", "resume", &json!({}))
        .await
        .expect(200);
    assert_eq!(resumed["paused"], false);
    let path = "/executions/working:long/cancel?reason=enough";
    let cancelled = it.call("POST", path).send().await.expect(200);
    assert_eq!(cancelled["status"], "ABORTED");
    assert_eq!(cancelled["cause"], "enough");
    let again = ask(&it, "working:long", "cancel", &json!({})).await;
    again.expect_error(409, "execution-ended");
    let events = it.all("/events?kind=execution").await;
    let asked: Vec<_> = events
        .iter()
        .map(|event| text(&event["after"]["asked"]))
        .collect();
    assert_eq!(asked, ["cancel", "resume", "pause", "start"]);
}

#[tokio::test]
async fn watchers_see_changes_and_the_end() {
    let it = Instance::start().await;
    deploy(&it, "working", &working()).await;
    let input = json!({"seconds": 0.5, "units": 10, "unit": "rows"});
    let body = json!({"workflow": "working", "name": "w", "input": input});
    start(&it, &body).await.expect(201);
    // The work's output has no `rest`, so `Rest` fails.
    let seen = it.call("GET", "/executions/working:w/watch").send().await;
    assert_eq!(seen.header("content-type"), "text/event-stream");
    let mut events = Vec::new();
    for event in seen
        .text
        .split("\n\n")
        .filter(|event| event.starts_with("event: "))
    {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        events.push((name.trim_start_matches("event: ").to_owned(), data));
    }
    let (name, last) = events.last().unwrap();
    assert_eq!((name.as_str(), &last["status"]), ("end", &json!("FAILED")));
    assert_eq!(last["error"], "States.Runtime");
    let working = |(_, data): &&(String, Value)| data["position"][0]["state"] == "Work";
    assert!(events.iter().filter(working).count() >= 2, "{}", seen.text);
}

#[tokio::test]
async fn executions_resume_after_a_kill() {
    let it = Instance::start().await;
    let long = json!({"StartAt": "First", "States": {
        "First": {"Type": "Pass", "Result": {"first": true}, "Next": "Ask"},
        "Ask": {"Type": "Task", "Resource": "ballast:approval.waitForTaskToken",
            "ResultPath": "$.said", "Next": "Last"},
        "Last": {"Type": "Task", "Resource": "ballast:work",
            "Parameters": {"seconds": 0.1}, "ResultPath": "$.worked", "End": true}}});
    deploy(&it, "long", &long).await;
    start(&it, &json!({"workflow": "long", "name": "one"}))
        .await
        .expect(201);
    let waits = |now: &Value| now["position"][0]["doing"] == "awaitingCallback";
    until(&it, "long:one", waits).await;
    let mut it = it;
    it.kill9();
    let it = it.restart().await;
    let there = until(&it, "long:one", waits).await;
    assert_eq!(there["position"][0]["state"], "Ask");
    ask(&it, "long:one", "signal", &json!({"output": 7}))
        .await
        .expect(200);
    let ended = until(&it, "long:one", has_ended).await;
    assert_eq!(ended["output"]["said"], 7);
    assert_eq!(ended["output"]["first"], true);
    let history = it.get("/executions/long:one/history?limit=1000").await;
    let events = history["events"].as_array().unwrap();
    let entered = events
        .iter()
        .filter(|event| event["type"] == "PassStateEntered");
    assert_eq!(entered.count(), 1, "what was done is not done again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_signal_and_cancel_are_answered_truthfully() {
    let it = Instance::start().await;
    deploy(&it, "approving", &approving()).await;
    let (mut signalled, mut cancelled) = (0, 0);
    for round in 0..30 {
        let name = format!("r{round}");
        let id = format!("approving:{name}");
        let body = json!({"workflow": "approving", "name": name});
        start(&it, &body).await.expect(201);
        let waits = |now: &Value| now["position"][0]["doing"] == "awaitingCallback";
        until(&it, &id, waits).await;
        let (said, nothing) = (json!({"output": 1}), json!({}));
        let (signal, cancel) = tokio::join!(
            ask(&it, &id, "signal", &said),
            ask(&it, &id, "cancel", &nothing)
        );
        let ended = until(&it, &id, has_ended).await;
        let history = it.get(&format!("/executions/{id}/history")).await;
        let events = history["events"].as_array().unwrap();
        let answered = events.iter().any(|event| event["type"] == "TaskSucceeded");
        if signal.is_ok() {
            assert!(answered, "{}: {history}", signal.text);
            signalled += 1;
        } else {
            assert_eq!(signal.status, 409, "{}", signal.text);
        }
        if cancel.is_ok() {
            assert_eq!(ended["status"], "ABORTED", "{}", cancel.text);
            cancelled += 1;
        } else {
            cancel.expect_error(409, "execution-ended");
        }
    }
    println!("{signalled} signals and {cancelled} cancels came first");
}

#[tokio::test]
async fn external_tasks_send_heartbeats() {
    let it = Instance::start().await;
    deploy(&it, "approving", &approving()).await;
    start(&it, &json!({"workflow": "approving", "name": "one"}))
        .await
        .expect(201);
    // The execution only waits: no process has it in memory.
    let waits = |now: &Value| {
        now["position"][0]["doing"] == "awaitingCallback" && now.get("worker").is_none()
    };
    until(&it, "approving:one", waits).await;
    let sign = json!({"done": 3, "total": 10, "unit": "papers", "note": "reading"});
    ask(&it, "approving:one", "heartbeat", &sign)
        .await
        .expect(200);
    let reply = until(&it, "approving:one", |now| now["progress"] != json!([])).await;
    assert_eq!(reply["progress"][0]["done"], 3);
    assert_eq!(reply["progress"][0]["note"], "reading");
    let strange = json!({"state": "Nowhere"});
    let refused = ask(&it, "approving:one", "heartbeat", &strange).await;
    refused.expect_error(409, "nothing-waits");
}

#[tokio::test]
async fn a_workflow_that_is_taken_away_starts_nothing_more() {
    let it = Instance::start().await;
    deploy(&it, "approving", &approving()).await;
    start(&it, &json!({"workflow": "approving", "name": "one"}))
        .await
        .expect(201);
    let remove = |name: &str| it.call("DELETE", &format!("/workflows/{name}")).send();
    remove("approving").await.expect(204);
    remove("approving")
        .await
        .expect_error(404, "workflow-not-found");
    remove("move-tenant")
        .await
        .expect_error(409, "workflow-built-in");
    let again = start(&it, &json!({"workflow": "approving", "name": "two"})).await;
    again.expect_error(404, "workflow-not-found");
    // The running execution continues, and a repeated start gets its answer.
    let same = start(&it, &json!({"workflow": "approving", "name": "one"})).await;
    assert_eq!(same.expect(200)["executionID"], "approving:one");
    let waits = |now: &Value| now["position"][0]["doing"] == "awaitingCallback";
    until(&it, "approving:one", waits).await;
    ask(&it, "approving:one", "signal", &json!({"output": 1}))
        .await
        .expect(200);
    let ended = until(&it, "approving:one", has_ended).await;
    assert_eq!(ended["status"], "SUCCEEDED");
    let events = it.all("/events?kind=workflow").await;
    let actions: Vec<_> = events.iter().map(|event| text(&event["action"])).collect();
    assert_eq!(actions, ["workflow.remove", "workflow.deploy"]);
}
