//! Journey: workflow definitions are checked, drawn and tested by the command line, without an
//! instance.

use std::path::Path;

use crate::support::Process;
use crate::support::process::{ProcessExit, ballast};
use serde_json::{Value, json};

async fn run(arguments: &[&str]) -> ProcessExit {
    Process::spawn(ballast().args(arguments))
        .wait_for_end()
        .await
}

/// Writes a file, runs a command on it, and parses the JSON output.
async fn run_on_file(verb: &str, text: &str) -> (Option<i32>, Value) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file.json");
    std::fs::write(&file, text).unwrap();
    let ended = run(&["workflow", verb, file.to_str().unwrap(), "--json"]).await;
    (ended.code, serde_json::from_str(&ended.stdout).unwrap())
}

#[tokio::test]
async fn a_definition_is_checked_and_its_problems_are_listed() {
    let good = json!({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}});
    let (code, told_of_it) = run_on_file("check", &good.to_string()).await;
    assert_eq!(code, Some(0));
    assert_eq!(told_of_it, json!({"valid": true, "problems": []}));
    let bad = json!({"StartAt": "Copy", "States": {
        "Copy": {"Type": "Pass", "Next": "Verfy"}, "Verify": {"Type": "Succeed"}}});
    let (code, told_of_it) = run_on_file("check", &bad.to_string()).await;
    assert_eq!((code, &told_of_it["valid"]), (Some(1), &json!(false)));
    let problem = &told_of_it["problems"][0];
    assert_eq!(problem["path"], "/States/Copy/Next");
    assert_eq!(problem["severity"], "error");
    let message = problem["message"].as_str().unwrap();
    assert!(message.contains("did you mean \"Verify\"?"), "{message}");
    for nonsense in ["", "{", "[]", "null", "\u{0}"] {
        let (code, told_of_it) = run_on_file("check", nonsense).await;
        assert_eq!((code, &told_of_it["valid"]), (Some(1), &json!(false)));
        assert!(!told_of_it["problems"].as_array().unwrap().is_empty());
    }
    let marked = format!("\u{feff}{good}");
    assert_eq!(
        run_on_file("check", &marked).await.0,
        Some(0),
        "a byte order mark"
    );
    let known = run(&["workflow", "check", "move-tenant"]).await;
    assert_eq!(known.code, Some(0), "{known:?}");
    assert!(known.stdout.contains("move-tenant: valid"), "{known:?}");
    let gone = run(&["workflow", "check", "not-there.json"]).await;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    for reply in ["No definition to check", "not-there.json", "next:"] {
        assert!(gone.stderr.contains(reply), "{reply}: {}", gone.stderr);
    }
    let gone = run(&["workflow", "check", "not-there.json", "--json"]).await;
    let answer: Value = serde_json::from_str(&gone.stdout).unwrap();
    assert_eq!((gone.code, &answer["valid"]), (Some(1), &json!(false)));
}

#[tokio::test]
async fn a_test_case_is_run_and_compared() {
    let case = |expected: Value| {
        json!({
            "definition": {"StartAt": "T", "States": {"T": {"Type": "Task",
                "Resource": "any:thing", "Next": "W"}, "W": {"Type": "Wait",
                "Seconds": 86_400, "End": true}}},
            "input": {"n": 1},
            "tasks": [{"state": "T", "result": {"done": true}}],
            "expected": expected,
        })
    };
    let good = json!({"status": "SUCCEEDED", "output": {"done": true}});
    let (code, outcome) = run_on_file("test", &case(good.clone()).to_string()).await;
    assert_eq!(code, Some(0));
    assert_eq!(outcome["output"], json!({"done": true}));
    assert_eq!(outcome["statesEntered"], json!(["T", "W"]));
    assert_eq!(outcome["events"][0]["type"], "ExecutionStarted");
    let (code, outcome) = run_on_file("test", &case(json!({"status": "FAILED"})).to_string()).await;
    assert_eq!((code, &outcome["status"]), (Some(1), &json!("SUCCEEDED")));
    let differences = json!(["the status is SUCCEEDED instead of FAILED"]);
    assert_eq!(outcome["differences"], differences);
    assert_eq!(outcome.get("remarks"), None);
    let mut idle = case(good.clone());
    idle["tasks"] = json!([{"state": "T", "result": {"done": true}}, {"state": "W"}]);
    let (code, outcome) = run_on_file("test", &idle.to_string()).await;
    assert_eq!((code, outcome.get("differences")), (Some(0), None));
    let remark = outcome["remarks"][0].as_str().unwrap();
    assert!(remark.starts_with("/tasks/1 can never be used"), "{remark}");
    assert_eq!(run_on_file("test", "{\"cases\": []}").await.0, Some(2));
    let (code, _) = run_on_file("test", "{\"definition\": {}}").await;
    assert_eq!(code, Some(2));
    let (code, _) = run_on_file("test", "not a case").await;
    assert_eq!(code, Some(2));
    let mut other = case(json!({"output": 5}));
    other["id"] = json!("the other");
    let many = json!({"cases": [case(good), other]});
    let (code, summary) = run_on_file("test", &many.to_string()).await;
    assert_eq!(code, Some(1));
    assert_eq!(summary["failing"], json!(["the other"]));
    assert_eq!(
        (&summary["passed"], &summary["failed"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn usage_marks_only_required_arguments_as_required() {
    let mut command = ballast();
    command.args(["workflow", "check"]);
    command.env("BALLAST_URL", "http://127.0.0.1:1/admin/v1");
    let reply = Process::spawn(&mut command).wait_for_end().await.stderr;
    let usage = "Usage: ballast workflow check [OPTIONS] <NAME|FILE>";
    assert!(reply.contains(usage), "{reply}");
}

#[tokio::test]
async fn workflows_are_listed_and_drawn() {
    let list = run(&["workflow", "list", "--json"]).await;
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    for workflow in list["items"].as_array().unwrap() {
        let name = workflow["name"].as_str().unwrap();
        let drawn = run(&["workflow", "graph", name]).await;
        assert_eq!(drawn.code, Some(0), "{drawn:?}");
        let start = workflow["startAt"].as_str().unwrap();
        assert!(drawn.stdout.contains(start), "{}", drawn.stdout);
    }
    let mermaid = run(&["workflow", "graph", "move-tenant", "--format", "mermaid"]).await;
    assert!(mermaid.stdout.starts_with("flowchart TD"), "{mermaid:?}");
    let folded = run(&["workflow", "graph", "move-tenant"]).await.stdout;
    let all = run(&["workflow", "graph", "move-tenant", "--all"])
        .await
        .stdout;
    assert!(all.lines().count() > folded.lines().count());
    let none = run(&["workflow", "graph", "mvoe-tenant"]).await;
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("move-tenant"), "{}", none.stderr);
    assert!(!Path::new("mvoe-tenant").exists());
}
