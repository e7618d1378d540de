//! Numbers, times, variables, and values that are resolved when a state runs.

use ballast_state_machines::language::check;
use serde_json::{Value, json};

use super::case::{RuleCase, jsonata, state, task, whole};

fn wait(fields: Value) -> Value {
    super::case::with(json!({"Type": "Wait", "End": true}), fields)
}

fn assign(variables: Value) -> Value {
    json!({"Type": "Pass", "Assign": variables, "End": true})
}

/// A branch with an assignment, a Map with one in another branch, and an outer catcher and
/// state with assignments.
fn scopes(branch: Value, items: Value, outer: &str) -> Value {
    json!({"StartAt": "P", "States": {
        "P": {"Type": "Parallel", "Next": "Z",
            "Catch": [{"ErrorEquals": ["States.ALL"], "Assign": {"y": 1}, "Next": "Z"}],
            "Branches": [
                {"StartAt": "A", "States": {"A": {"Type": "Pass", "Assign": branch, "End": true}}},
                {"StartAt": "M", "States": {"M": {"Type": "Map", "End": true, "ItemProcessor": {
                    "StartAt": "B", "States": {
                        "B": {"Type": "Pass", "Assign": items, "End": true}}}}}}]},
        "Z": {"Type": "Pass", "Assign": {outer: 1}, "End": true}}})
}

pub(crate) fn cases() -> Vec<RuleCase> {
    vec![
        state(
            "missing-field",
            "/States/S",
            "a Wait needs one of",
            wait(json!({})),
            wait(json!({"Seconds": 0})),
        ),
        state(
            "only-one-of",
            "/States/S",
            "Seconds, TimestampPath",
            wait(json!({"Seconds": 1, "TimestampPath": "$.t"})),
            wait(json!({"TimestampPath": "$.t"})),
        ),
        state(
            "out-of-range",
            "/States/S/Seconds",
            "from 0 to 99999999",
            wait(json!({"Seconds": -1})),
            wait(json!({"SecondsPath": "$.s"})),
        ),
        state(
            "wrong-type",
            "/States/S/Seconds",
            "a whole number",
            wait(json!({"Seconds": "{% 1 %}"})),
            wait(json!({"Seconds": 99_999_999})),
        ),
        jsonata(
            "wrong-type",
            "/States/S/Seconds",
            "a whole number",
            wait(json!({"Seconds": "1"})),
            wait(json!({"Seconds": "{% 1 %}"})),
        ),
        state(
            "timestamp",
            "/States/S/Timestamp",
            "is not a time",
            wait(json!({"Timestamp": "tomorrow"})),
            wait(json!({"Timestamp": "2016-03-14T01:59:00Z"})),
        ),
        jsonata(
            "timestamp",
            "/States/S/Timestamp",
            "is not a time",
            wait(json!({"Timestamp": "2016-03-14"})),
            wait(json!({"Timestamp": "{% $now() %}"})),
        ),
        state(
            "wrong-type",
            "/States/S/Timestamp",
            "a string",
            wait(json!({"Timestamp": null})),
            wait(json!({"Timestamp": "2016-03-14T01:59:00.5+01:00"})),
        ),
        state(
            "out-of-range",
            "/States/S/TimeoutSeconds",
            "from 1",
            task(json!({"TimeoutSeconds": 0})),
            task(json!({"TimeoutSeconds": 1})),
        ),
        state(
            "only-one-of",
            "/States/S",
            "TimeoutSeconds, TimeoutSecondsPath",
            task(json!({"TimeoutSeconds": 1, "TimeoutSecondsPath": "$.t"})),
            task(json!({"TimeoutSecondsPath": "$.t"})),
        ),
        state(
            "out-of-range",
            "/States/S/HeartbeatSeconds",
            "less than \"TimeoutSeconds\", which is 5",
            task(json!({"TimeoutSeconds": 5, "HeartbeatSeconds": 5})),
            task(json!({"TimeoutSeconds": 5, "HeartbeatSeconds": 4})),
        ),
        state(
            "only-one-of",
            "/States/S",
            "HeartbeatSeconds, HeartbeatSecondsPath",
            task(json!({"HeartbeatSeconds": 1, "HeartbeatSecondsPath": "$.t"})),
            task(json!({"HeartbeatSecondsPath": "$.t"})),
        ),
        state(
            "only-one-of",
            "/States/S",
            "Error, ErrorPath",
            json!({"Type": "Fail", "Error": "E", "ErrorPath": "$.e"}),
            json!({"Type": "Fail", "ErrorPath": "$.e", "CausePath": "States.Format('{}', $.c)"}),
        ),
        state(
            "only-one-of",
            "/States/S",
            "Cause, CausePath",
            json!({"Type": "Fail", "Cause": "C", "CausePath": "$.c"}),
            json!({"Type": "Fail", "Error": "E", "Cause": "C"}),
        ),
        state(
            "wrong-type",
            "/States/S/Error",
            "a string",
            json!({"Type": "Fail", "Error": 42}),
            json!({"Type": "Fail", "Error": "42"}),
        ),
        state(
            "wrong-type",
            "/States/S/InputPath",
            "a string",
            json!({"Type": "Pass", "InputPath": 1, "End": true}),
            json!({"Type": "Pass", "InputPath": null, "OutputPath": null, "ResultPath": null, "End": true}),
        ),
        jsonata(
            "expression",
            "/States/S/Arguments",
            "between {% and %}",
            task(json!({"Arguments": "$states.input"})),
            task(json!({"Arguments": "{% $states.input %}"})),
        ),
        state(
            "wrong-type",
            "/States/S/Assign",
            "an object",
            assign(json!("x")),
            assign(json!({"x.$": "$.x"})),
        ),
        whole(
            "outer-variable",
            "/States/P/Branches/0/States/A/Assign/x.$",
            "at /States/Z/Assign/x;",
            // The outer state may come later.
            scopes(json!({"x.$": "$.a"}), json!({}), "x"),
            scopes(json!({"y.$": "$.a"}), json!({}), "x"),
        ),
        whole(
            "outer-variable",
            "/States/P/Branches/1/States/M/ItemProcessor/States/B/Assign/x",
            "so use another name here",
            // Two levels down; a sibling branch is not an outer machine.
            scopes(json!({"y": 1}), json!({"x": 1, "y": 2}), "x"),
            scopes(json!({"y": 1}), json!({"y": 2}), "x"),
        ),
        state(
            "variable-name",
            "/States/S/Assign/a-b",
            "is not a variable's name",
            assign(json!({"a-b": 1})),
            assign(json!({"a_b": 1})),
        ),
        state(
            "variable-name",
            "/States/S/Assign/1a.$",
            "begins with a letter",
            assign(json!({"1a.$": "$.a"})),
            assign(json!({"a1.$": "$.a"})),
        ),
        state(
            "variable-name",
            "/States/S/Assign/states",
            "reserved",
            assign(json!({"states": 1})),
            assign(json!({"größe": 1})),
        ),
        RuleCase {
            at: format!("/States/S/Assign/{}", "x".repeat(81)),
            ..state(
                "variable-name",
                "",
                "at most 80",
                assign(json!({"x".repeat(81): 1})),
                assign(json!({"x".repeat(80): 1})),
            )
        },
    ]
}

/// Syntax errors of `data` are reported with their location in the definition.
#[test]
fn syntax_errors_are_reported_with_their_location() {
    let choice = json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": null, "Next": "T"}], "Default": "T"});
    let cases = [
        (
            "path",
            "/States/S/InputPath",
            json!({"Type": "Pass", "InputPath": "x", "End": true}),
        ),
        (
            "path",
            "/States/S/ResultPath",
            json!({"Type": "Pass", "ResultPath": "$.a[*]", "End": true}),
        ),
        (
            "path",
            "/States/S/CausePath",
            json!({"Type": "Fail", "CausePath": "States.Nothing($.a)"}),
        ),
        (
            "template",
            "/States/S/Parameters/a/b.$",
            json!({"Type": "Pass", "Parameters": {"a": {"b.$": "x"}}, "End": true}),
        ),
        ("condition", "/States/S/Choices/0/IsNull", choice),
        (
            "expression",
            "/States/S/Output/a",
            json!({"Type": "Pass", "QueryLanguage": "JSONata", "Output": {"a": "{% ( %}"}, "End": true}),
        ),
    ];
    for (code, at, state) in cases {
        let mut states = json!({ "S": state });
        if code == "condition" {
            states["T"] = json!({"Type": "Succeed"});
        }
        let checked = check(&json!({"StartAt": "S", "States": states}).to_string());
        let is_reported = checked
            .problems
            .iter()
            .any(|problem| problem.code.as_str() == code && problem.path == at);
        assert!(is_reported, "{code} at {at}: {:#?}", checked.problems);
        assert!(checked.definition.is_none());
    }
}
