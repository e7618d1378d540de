//! Journey: workflows are deployed, started, watched, paused, signalled and cancelled from the
//! command line; a watch survives `kill -9`.

use std::process::Command;

use crate::support::process::ballast;
use crate::support::{Instance, Process, ProcessExit, eventually};
use serde_json::{Value, json};

/// Passes, chooses by `$.n`, and rests for `$.rest` seconds.
fn choosing() -> Value {
    json!({"Comment": "Chooses by n.", "StartAt": "Begin", "States": {
        "Begin": {"Type": "Pass", "Next": "Large?"},
        "Large?": {"Type": "Choice", "Default": "Small",
            "Choices": [{"Variable": "$.n", "NumericGreaterThan": 5, "Next": "Rest"}]},
        "Rest": {"Type": "Wait", "SecondsPath": "$.rest", "Next": "Done"},
        "Small": {"Type": "Fail", "Error": "TooSmall", "Cause": "n must be above 5"},
        "Done": {"Type": "Pass", "Result": {"rested": true}, "End": true},
    }})
}

/// Works a little, then waits for an approval.
fn approving() -> Value {
    json!({"StartAt": "Work", "States": {
        "Work": {"Type": "Task", "Resource": "ballast:work", "ResultPath": null, "Next": "Ask",
            "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1}]},
        "Ask": {"Type": "Task", "Resource": "ballast:approval.waitForTaskToken",
            "Catch": [{"ErrorEquals": ["Denied"], "Next": "Denied"}], "End": true},
        "Denied": {"Type": "Fail", "Error": "Denied", "CausePath": "$.Cause"},
    }})
}

/// A command with the instance's address and token.
fn command(it: &Instance, arguments: &[&str]) -> Command {
    let mut command = ballast();
    command
        .args(arguments)
        .current_dir(it.home())
        .env("BALLAST_URL", &it.admin)
        .env("BALLAST_TOKEN", &it.token);
    command
}

async fn run(it: &Instance, arguments: &[&str]) -> ProcessExit {
    Process::spawn(&mut command(it, arguments))
        .wait_for_end()
        .await
}

/// Checks that a command succeeded, and returns its output.
#[track_caller]
fn good(ended: ProcessExit) -> String {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

/// The JSON that a command printed.
#[track_caller]
fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|bad| panic!("{bad}: {text}"))
}

fn write(it: &Instance, name: &str, definition: &Value) {
    std::fs::write(it.home().join(name), definition.to_string()).unwrap();
}

/// Waits until a process prints this.
async fn wait_until_printed(process: &Process, what: &str) {
    eventually(what, async || process.stdout().contains(what).then_some(())).await;
}

#[tokio::test]
async fn a_workflow_is_deployed_started_and_read() {
    let it = Instance::start().await;
    write(&it, "choosing.asl.json", &choosing());
    let reply = good(run(&it, &["workflow", "deploy", "choosing.asl.json"]).await);
    assert!(reply.contains("deployed workflow choosing"), "{reply}");
    let list = good(run(&it, &["workflow", "list"]).await);
    let line = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("choosing").contains("yes"), "{list}");
    assert!(line("move-tenant").contains("yes"), "{list}");
    let shown = good(run(&it, &["workflow", "show", "choosing"]).await);
    assert!(shown.contains("Chooses by n."), "{shown}");
    let drawn = good(run(&it, &["workflow", "graph", "choosing"]).await);
    assert!(drawn.contains("○ Large? (Choice)"), "{drawn}");

    // A document that is not a definition is refused with a pointer, too.
    write(&it, "list.json", &json!([1]));
    for verb in [
        ["workflow", "deploy", "list.json"],
        ["execution", "start", "./list.json"],
    ] {
        let refused = run(&it, &verb).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let reply = "/: expected an object";
        assert!(refused.stderr.contains(reply), "{refused:?}");
    }

    let start = ["execution", "start", "choosing", "--name", "one"];
    let input = ["--input", "{\"n\": 6, \"rest\": 0}"];
    let all = [start.as_slice(), &input].concat();
    assert_eq!(good(run(&it, &all).await), "choosing:one\n");
    let again = run(&it, &[all.as_slice(), &["--wait"]].concat()).await;
    assert!(again.stderr.contains("already started"), "{again:?}");
    assert_eq!(document(&good(again)), json!({"rested": true}));
    let other = run(&it, &start).await;
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stderr.contains("another input"), "{other:?}");

    // A file is deployed first. A failed execution gives exit code 1.
    let file = ["execution", "start", "./choosing.asl.json", "--as", "other"];
    let small = ["--input", "{\"n\": 1}", "--watch"];
    let failed = run(&it, &[file.as_slice(), &small].concat()).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    for line in [
        "entered Large?",
        "entered Small",
        "FAILED after",
        "TooSmall",
    ] {
        assert!(failed.stdout.contains(line), "{line}: {}", failed.stdout);
    }
    let waited = run(
        &it,
        &[file.as_slice(), &small[..2], &["--wait", "--json"]].concat(),
    )
    .await;
    assert_eq!(waited.code, Some(1), "{waited:?}");
    assert_eq!(document(&waited.stdout)["error"], "TooSmall");

    let shown = good(run(&it, &["execution", "show", "choosing:one"]).await);
    assert!(shown.contains("SUCCEEDED"), "{shown}");
    let listed = ["execution", "list", "--status", "failed", "--all", "--json"];
    let listed = document(&good(run(&it, &listed).await));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
    let history = ["execution", "history", "choosing:one"];
    let table = good(run(&it, &history).await);
    assert!(table.contains("WaitStateEntered"), "{table}");
    let newest = [history.as_slice(), &["--newest-first", "--limit", "2"]].concat();
    let newest = run(&it, &newest).await;
    assert!(newest.stderr.contains("--cursor"), "{newest:?}");
    assert!(newest.stdout.contains("ExecutionSucceeded"), "{newest:?}");
    let pages = [history.as_slice(), &["--limit", "3", "--all", "--json"]].concat();
    let pages = document(&good(run(&it, &pages).await));
    let ids = pages["events"].as_array().unwrap().iter();
    let ids: Vec<u64> = ids.map(|event| event["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    assert_eq!(ids.len(), table.lines().count() - 1);

    let none = run(&it, &["execution", "watch", "choosing:none"]).await;
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.stderr.contains("ballast execution list"), "{none:?}");
}

#[tokio::test]
async fn an_execution_is_watched_paused_and_signalled() {
    let it = Instance::start().await;
    write(&it, "approving.json", &approving());
    let work = "{\"seconds\": 0.2, \"units\": 40, \"unit\": \"rows\", \"failures\": 1}";
    let start = [
        "execution",
        "start",
        "approving.json",
        "--name",
        "a",
        "--input",
        work,
    ];
    assert_eq!(good(run(&it, &start).await), "approving:a\n");
    let mut watch = Process::spawn(&mut command(&it, &["execution", "watch", "approving:a"]));
    let mut json = ["execution", "watch", "approving:a", "--json"];
    let mut documents = Process::spawn(&mut command(&it, &json));
    wait_until_printed(&watch, "Ask: waits for a signal").await;
    wait_until_printed(&watch, "ballast execution signal approving:a --state Ask").await;
    let marked = ["workflow", "graph", "--execution", "approving:a"];
    let drawn = good(run(&it, &marked).await);
    assert!(drawn.contains("✓ Work (Task)"), "{drawn}");
    assert!(drawn.contains("▶ Ask (Task)"), "{drawn}");

    let paused = good(run(&it, &["execution", "pause", "approving:a"]).await);
    assert!(paused.contains("RUNNING, paused"), "{paused}");
    wait_until_printed(&watch, " paused\n").await;
    let why = ["--reason", "all are there"];
    let resumed = ["execution", "resume", "approving:a"];
    good(run(&it, &[resumed.as_slice(), &why].concat()).await);
    wait_until_printed(&watch, " resumed\n").await;
    let wrong = ["execution", "signal", "approving:a", "--state", "Work"];
    let wrong = run(&it, &wrong).await;
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    let yes = [
        "execution",
        "signal",
        "approving:a",
        "--output",
        "{\"yes\": 1}",
    ];
    good(run(&it, &yes).await);
    let seen = watch.wait_for_end().await;
    assert!(good(seen).ends_with("{\"yes\":1}\n"));
    let lines = good(documents.wait_for_end().await);
    let last = document(lines.lines().last().unwrap());
    assert_eq!(last["output"], json!({"yes": 1}));
    assert!(
        lines
            .lines()
            .all(|line| document(line)["executionID"] == "approving:a")
    );

    // One execution is denied, another is cancelled.
    let second = [
        "execution",
        "start",
        "approving",
        "--name",
        "b",
        "--input",
        "{\"seconds\": 0}",
    ];
    good(run(&it, &second).await);
    let mut watch = Process::spawn(&mut command(&it, &["execution", "watch", "approving:b"]));
    wait_until_printed(&watch, "Ask: waits for a signal").await;
    let no = [
        "execution",
        "signal",
        "approving:b",
        "--error",
        "Denied",
        "--cause",
        "too dear",
    ];
    good(run(&it, &no).await);
    let denied = watch.wait_for_end().await;
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(denied.stdout.contains("left Ask, which failed: Denied"));
    assert!(denied.stdout.contains("too dear"), "{}", denied.stdout);
    let third = ["execution", "start", "approving", "--name", "c"];
    good(run(&it, &third).await);
    json[2] = "approving:c";
    let mut documents = Process::spawn(&mut command(&it, &json));
    wait_until_printed(&documents, "awaitingCallback").await;
    let cancel = ["execution", "cancel", "approving:c", "--cause", "a mistake"];
    let reply = good(run(&it, &cancel).await);
    assert!(reply.contains("ABORTED"), "{reply}");
    let ended = documents.wait_for_end().await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(
        document(ended.stdout.lines().last().unwrap())["cause"],
        "a mistake"
    );
    let late = run(&it, &cancel).await;
    assert_eq!(late.code, Some(1), "{late:?}");
    let drawn = ["workflow", "graph", "--execution", "approving:c"];
    let drawn = good(run(&it, &drawn).await);
    assert!(drawn.contains("■ Ask (Task)"), "{drawn}");
    let asked = ["event", "list", "--kind", "execution"];
    let asked = good(run(&it, &asked).await);
    assert!(asked.contains("signal Ask"), "{asked}");
    assert!(!asked.contains('→'), "{asked}");
}

#[tokio::test]
async fn a_watch_follows_an_execution_across_kill_9() {
    let mut it = Instance::start().await;
    write(&it, "choosing.json", &choosing());
    let start = [
        "execution",
        "start",
        "choosing.json",
        "--name",
        "one",
        "--watch",
    ];
    let input = ["--input", "{\"n\": 6, \"rest\": 6}"];
    let mut watch = Process::spawn(&mut command(&it, &[start.as_slice(), &input].concat()));
    let documents = ["execution", "watch", "choosing:one", "--json"];
    let mut silent = {
        wait_until_printed(&watch, "Rest: waits until").await;
        let same = ["execution", "start", "choosing", "--name", "one", "--wait"];
        Process::spawn(&mut command(&it, &[same.as_slice(), &input].concat()))
    };
    eventually("it waits", async || {
        silent.stderr().contains("waiting for").then_some(())
    })
    .await;
    let mut documents = Process::spawn(&mut command(&it, &documents));
    wait_until_printed(&documents, "\"Rest\"").await;
    it.kill9();
    wait_until_printed(&watch, "connection lost, reconnecting").await;
    let it = it.restart().await;
    let documents = documents.wait_for_end().await;
    let lost = document(documents.stderr.lines().next().unwrap());
    assert_eq!(lost["code"], "connection-lost", "{documents:?}");
    let seen = good(watch.wait_for_end().await);
    assert!(seen.contains("choosing:one started"), "{seen}");
    let place = |what: &str| seen.find(what).unwrap_or_else(|| panic!("{what}: {seen}"));
    assert!(place("entered Rest") < place("connection lost"));
    assert!(place("connection lost") < place("reconnected"));
    assert!(place("reconnected") < place("left Rest"));
    assert!(place("left Rest") < place("SUCCEEDED after"), "{seen}");
    assert_eq!(
        document(&good(silent.wait_for_end().await)),
        json!({"rested": true})
    );
    let history = ["execution", "history", "choosing:one", "--all", "--json"];
    let history = good(run(&it, &history).await);
    assert_eq!(history.matches("WaitStateEntered").count(), 1, "{history}");
}

#[tokio::test]
async fn a_watch_survives_a_restart_but_not_a_revoked_token() {
    let mut it = Instance::start().await;
    write(&it, "approving.json", &approving());
    let start = ["execution", "start", "approving.json", "--name", "one"];
    good(run(&it, &start).await);
    let watch = ["execution", "watch", "approving:one"];
    let mut watching = Process::spawn(&mut command(&it, &watch));
    let (token_id, token) = it.new_token("viewer").await;
    let mut viewing = Process::spawn(command(&it, &watch).env("BALLAST_TOKEN", token));
    let mut impatient = command(&it, &watch);
    let mut impatient = Process::spawn(impatient.args(["--patience", "10ms"]));
    for process in [&watching, &viewing, &impatient] {
        wait_until_printed(process, "Ask: waits for a signal").await;
    }
    // A clean stop ends the stream without an event.
    let revoked = ["token", "revoke", &token_id];
    good(run(&it, &revoked).await);
    it.process().signal("TERM");
    it.process().wait_for_end().await;
    for process in [&watching, &viewing, &impatient] {
        wait_until_printed(process, "connection lost, reconnecting").await;
    }
    assert_eq!(impatient.wait_for_end().await.code, Some(3));
    let it = it.restart().await;
    let refused = viewing.wait_for_end().await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("credential"), "{refused:?}");
    wait_until_printed(&watching, "reconnected").await;
    let yes = ["execution", "signal", "approving:one", "--output", "1"];
    good(run(&it, &yes).await);
    assert!(good(watching.wait_for_end().await).contains("SUCCEEDED"));
}

#[tokio::test]
async fn built_in_workflows_are_listed_without_an_instance() {
    let home = tempfile::tempdir().unwrap();
    let list = |url: Option<&str>| {
        let mut command = ballast();
        command.args(["workflow", "list"]).current_dir(home.path());
        if let Some(url) = url {
            command.env("BALLAST_URL", url).env("BALLAST_TOKEN", "x");
        }
        Process::spawn(&mut command)
    };
    // No process listens on this reserved port.
    for mut process in [list(None), list(Some("http://127.0.0.1:1/admin/v1"))] {
        let ended = process.wait_for_end().await;
        assert!(ended.stderr.contains("no instance answered"), "{ended:?}");
        assert!(good(ended).contains("move-tenant"));
    }
    let mut start = ballast();
    start.args(["execution", "start", "move-tenant"]);
    start
        .env("BALLAST_URL", "http://127.0.0.1:1")
        .env("BALLAST_TOKEN", "x");
    assert_eq!(
        Process::spawn(&mut start).wait_for_end().await.code,
        Some(3)
    );
}
