//! Failing cases and invalid files, and how they are reported.

use ballast_state_machines::trial::{CaseError, CaseFile, TestCase, differences, run};
use serde_json::{Value, json};

fn case(json: Value) -> TestCase {
    match CaseFile::parse(&json.to_string()).unwrap() {
        CaseFile::One(case) => *case,
        CaseFile::Many(_) => panic!("it is one case"),
    }
}

fn list_differences(json: Value) -> Vec<String> {
    let case = case(json);
    let trial = run(&case).unwrap();
    let mut found = trial.remarks.clone();
    found.extend(differences(&case, &trial));
    found
}

fn task() -> Value {
    json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "test:work", "End": true}}})
}

#[test]
fn unexpected_outcomes_are_reported() {
    let expected = json!({
        "status": "FAILED", "error": "E", "output": 1, "states_entered": ["U"],
        "events": [{"type": "ExecutionStarted"}, {"type": "TaskStateEntered", "name": "U"}]});
    let tasks = json!([{"state": "T", "result": 2}]);
    let found =
        list_differences(json!({"definition": task(), "tasks": tasks, "expected": expected}));
    assert_eq!(
        found,
        [
            "the status is SUCCEEDED instead of FAILED",
            "the output is 2 instead of 1",
            "the error is null instead of \"E\"",
            "the states entered are [\"T\"] instead of [\"U\"]",
            "the events differ at number 2: TaskStateEntered \"T\" instead of TaskStateEntered \"U\"",
        ]
    );
}

#[test]
fn a_task_without_a_mock_is_always_reported() {
    let found = list_differences(json!({
        "definition": task(), "input": {"a": 1},
        "expected": {"status": "FAILED", "error": "States.Runtime"}}));
    assert_eq!(
        found,
        ["the case has no result left for the task of \"T\" with the input {\"a\":1}"]
    );
}

#[test]
fn a_task_with_another_input_is_reported() {
    let tasks = |parameters: Value| json!([{"parameters": parameters, "result": 1}]);
    let with =
        |parameters| json!({"definition": task(), "input": {"a": "x"}, "tasks": tasks(parameters)});
    assert_eq!(
        list_differences(with(json!({"a": "y"}))),
        ["the task of \"T\" has the input {\"a\":\"x\"} instead of {\"a\":\"y\"}"]
    );
    assert!(list_differences(with(json!({"a": "<any>"}))).is_empty());
}

#[test]
fn a_cause_is_compared_if_a_mock_contains_it() {
    let with = |cause: &str| {
        list_differences(json!({
            "definition": task(),
            "tasks": [{"error": "E", "cause": "mine"}, {"error": "E", "cause": cause}],
            "expected": {"status": "FAILED", "error": "E", "cause": cause}}))
    };
    assert!(with("mine").is_empty());
    assert_eq!(
        with("other"),
        ["the cause is \"mine\" instead of \"other\""]
    );
}

#[test]
fn placeholders_are_compared_by_their_type() {
    let with = |result: Value| {
        list_differences(json!({
            "definition": task(), "tasks": [{"result": result}],
            "placeholder_paths": ["/id"],
            "expected": {"status": "SUCCEEDED", "output": {"id": "<id>", "n": 1}}}))
    };
    assert!(with(json!({"id": "7f", "n": 1.0})).is_empty());
    assert_eq!(with(json!({"id": 7, "n": 1})).len(), 1);
    assert_eq!(with(json!({"id": "7f", "n": 2})).len(), 1);
}

#[test]
fn results_are_serialised_as_documented() {
    let written = |tasks: Value| {
        let case = case(json!({"definition": task(), "tasks": tasks}));
        serde_json::to_value(run(&case).unwrap()).unwrap()
    };
    let good = written(json!([{"result": {"a": 1}}]));
    let keys: Vec<&String> = good.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["status", "output", "statesEntered", "events"]);
    assert_eq!(
        good["events"][1],
        json!({"type": "TaskStateEntered", "name": "T"})
    );
    let bad = written(json!([{"error": "E", "cause": "C"}]));
    let keys: Vec<&String> = bad.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["status", "error", "cause", "statesEntered", "events"]
    );
    assert_eq!(bad["status"], "FAILED");
}

#[test]
fn an_endless_loop_in_a_distributed_map_fails() {
    let found = list_differences(json!({
        "definition": {"StartAt": "M", "States": {"M": {"Type": "Map", "End": true, "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "A", "States": {
                "A": {"Type": "Wait", "Seconds": 1, "Next": "C"},
                "C": {"Type": "Choice", "Choices": [
                    {"Variable": "$", "IsPresent": true, "Next": "A"}], "Default": "E"},
                "E": {"Type": "Succeed"}}}}}},
        "input": [1],
        "expected": {"status": "FAILED", "error": "States.ExceedToleratedFailureThreshold"}}));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn invalid_files_are_explained() {
    let unusable = |text: &str| match CaseFile::parse(text) {
        Err(CaseError::Unreadable(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(unusable("not JSON").contains("line 1"));
    assert!(unusable("{}").contains("definition"));
    assert!(unusable(r#"{"cases": 7}"#).contains("sequence"));
    assert!(unusable(r#"{"cases": []}"#).contains("empty"));
    assert!(unusable(&"[".repeat(200)).contains("nested deeper than 127 levels"));
    assert!(CaseFile::parse("\u{feff}{\"definition\": {}}").is_ok());
    let invalid = case(json!({"definition": {"StartAt": "A", "States": {}}}));
    let why = run(&invalid).unwrap_err().to_string();
    assert!(
        why.contains("the definition is not valid: /States"),
        "{why}"
    );
}

#[test]
fn unused_parts_are_reported() {
    let definition = json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "test:work", "Next": "W"},
        "W": {"Type": "Wait", "Seconds": 1, "End": true}}});
    let case = case(
        json!({"definition": definition, "type": "EXPRES", "tasks": [
        {"state": "T", "result": 1}, {"state": "T", "result": 2}, {"state": "U"},
        {"state": "W"}, {"iteration": [["T", 0]]}]}),
    );
    let trial = run(&case).unwrap();
    assert_eq!(
        trial.unused,
        [
            "the type \"EXPRES\" is neither STANDARD nor EXPRESS; it was run as STANDARD",
            "/tasks/1 was not used",
            "/tasks/2 can never be used: there is no state named \"U\"",
            "/tasks/3 can never be used: \"W\" is a Wait, which runs no task",
            "/tasks/4 can never be used: there is no Map named \"T\"",
        ]
    );
    assert!(trial.remarks.is_empty(), "{:?}", trial.remarks);
}
