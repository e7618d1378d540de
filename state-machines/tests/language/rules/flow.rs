//! Transitions and names of states.

use serde_json::{Value, json};

use super::case::{RuleCase, state, whole};

fn two(first: Value, second: Value) -> Value {
    json!({"StartAt": "A", "States": {"A": first, "B": second}})
}

pub(crate) fn cases() -> Vec<RuleCase> {
    let end = json!({"Type": "Pass", "End": true});
    let to_b = json!({"Type": "Pass", "Next": "B"});
    let to_a = json!({"Type": "Pass", "Next": "A"});
    let long = "x".repeat(81);
    let branch = |name: &str| json!({"StartAt": name, "States": {name: {"Type": "Succeed"}}});
    let fan = |left: &str, right: &str| json!({"Type": "Parallel", "Branches": [branch(left), branch(right)], "End": true});
    let loop_of = |middle: Value| {
        json!({"StartAt": "A", "States": {
            "A": {"Type": "Pass", "Next": "B"},
            "B": middle,
            "C": {"Type": "Choice", "Choices": [{"Variable": "$.x", "IsPresent": true, "Next": "A"}], "Default": "D"},
            "D": {"Type": "Succeed"}}})
    };
    vec![
        whole("unknown-target", "/States/A/Next", "did you mean \"B\"?",
            two(json!({"Type": "Pass", "Next": "b"}), end.clone()), two(to_b.clone(), end.clone())),
        whole("unknown-target", "/StartAt", "no state named \"Z\"",
            json!({"StartAt": "Z", "States": {"A": end}}), json!({"StartAt": "A", "States": {"A": end}})),
        state("unknown-target", "/States/S/Catch/0/Next", "no state named",
            json!({"Type": "Task", "Resource": "r", "End": true, "Catch": [{"ErrorEquals": ["E"], "Next": "Nowhere"}]}),
            json!({"Type": "Task", "Resource": "r", "End": true, "Catch": [{"ErrorEquals": ["E"], "Next": "T"}]})),
        state("unknown-target", "/States/S/Choices/0/Next", "no state named",
            json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "U"}], "Default": "T"}),
            json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "T"}], "Default": "T"})),
        state("unknown-target", "/States/S/Default", "no state named",
            json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "T"}], "Default": "U"}),
            json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "T"}], "Default": "T"})),
        state("unknown-target", "/States/S/Branches/0/States/A/Next", "no state named \"T\"",
            // A branch cannot leave its machine.
            json!({"Type": "Parallel", "Next": "T", "Branches": [{"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "T"}}}]}),
            json!({"Type": "Parallel", "Next": "T", "Branches": [{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}]})),
        whole("unreachable", "/States/B", "no transition leads to \"B\"",
            two(end.clone(), end.clone()), two(to_b.clone(), end.clone())),
        whole("unreachable", "/States/B", "no transition leads to \"B\"",
            // A transition to itself does not make a state reachable.
            two(end.clone(), json!({"Type": "Pass", "Next": "B"})), two(to_b.clone(), end.clone())),
        whole("no-end", "/States", "never ends",
            two(to_b.clone(), to_a), two(to_b.clone(), json!({"Type": "Fail"}))),
        whole("next-and-end", "/States/A", "not both",
            two(json!({"Type": "Pass", "Next": "B", "End": true}), end.clone()),
            two(json!({"Type": "Pass", "Next": "B", "End": false}), end.clone())),
        state("missing-field", "/States/S", "add \"Next\", or \"End\"",
            json!({"Type": "Pass"}), json!({"Type": "Pass", "End": true})),
        state("missing-field", "/States/S", "add \"Next\", or \"End\"",
            json!({"Type": "Pass", "End": false}), json!({"Type": "Pass", "End": true})),
        whole("state-name", "/States/", "1 to 80",
            json!({"StartAt": "", "States": {"": end}}), json!({"StartAt": "x", "States": {"x": end}})),
        RuleCase {
            code: "state-name",
            at: format!("/States/{long}"),
            says: "81",
            broken: json!({"StartAt": long, "States": {long.as_str(): end}}).to_string(),
            accepted: json!({"StartAt": "ü".repeat(80), "States": {"ü".repeat(80): end}}).to_string(),
        },
        state("duplicate-state", "/States/S/Branches/1/States/A", "another state named \"A\" at /States/S/Branches/0/States/A",
            fan("A", "A"), fan("A", "B")),
        state("duplicate-state", "/States/S/Branches/0/States/S", "rename one", fan("S", "B"), fan("A", "B")),
        RuleCase {
            code: "duplicate-key",
            at: "/States/A".to_owned(),
            says: "duplicate key",
            broken: r#"{"StartAt": "A", "States": {"A": {"Type": "Succeed"}, "A": {"Type": "Fail"}}}"#.to_owned(),
            accepted: r#"{"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "B"}, "B": {"Type": "Fail"}}}"#.to_owned(),
        },
        RuleCase {
            code: "not-json",
            at: "".to_owned(),
            says: "line 2 column",
            broken: "{\"StartAt\":\n A}".to_owned(),
            accepted: json!({"StartAt": "A", "States": {"A": end}}).to_string(),
        },
        RuleCase {
            code: "too-deep",
            at: "".to_owned(),
            says: "nested deeper than 127 levels",
            broken: format!("{}{}", "[".repeat(128), "]".repeat(128)),
            accepted: json!({"StartAt": "A", "States": {"A": end}}).to_string(),
        },
        RuleCase {
            code: "too-large",
            at: "".to_owned(),
            says: "1048576",
            broken: format!("{}{}", json!({"StartAt": "A", "States": {"A": end}}), " ".repeat(1024 * 1024)),
            accepted: format!("{}{}", json!({"StartAt": "A", "States": {"A": end}}), " ".repeat(1024 * 1000)),
        },
        whole("no-way-out", "/States/B", "\"B\" cannot reach an end",
            json!({"StartAt": "A", "States": {
                "A": {"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "C"}], "Default": "B"},
                "B": {"Type": "Wait", "Seconds": 1, "Next": "B"},
                "C": {"Type": "Succeed"}}}),
            two(to_b, end)),
        whole("cycle-without-wait", "/States/A", "\"A\", \"B\", \"C\"",
            loop_of(json!({"Type": "Pass", "Next": "C"})),
            loop_of(json!({"Type": "Wait", "Seconds": 1, "Next": "C"}))),
        whole("cycle-without-wait", "/States/A", "put a Wait between",
            // A nested Wait counts too.
            loop_of(json!({"Type": "Parallel", "Next": "C", "Branches": [branch("I")]})),
            loop_of(json!({"Type": "Parallel", "Next": "C", "Branches": [
                {"StartAt": "I", "States": {"I": {"Type": "Wait", "Seconds": 1, "End": true}}}]}))),
        state("task-without-catch", "/States/S", "add a \"Catch\"",
            json!({"Type": "Task", "Resource": "r", "End": true}),
            json!({"Type": "Task", "Resource": "r", "End": true, "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "T"}]})),
        state("task-without-catch", "/States/S/Branches/0/States/A", "around it",
            json!({"Type": "Parallel", "Next": "T", "Branches": [{"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "r", "End": true}}}]}),
            json!({"Type": "Parallel", "Next": "T", "Branches": [{"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "r", "End": true}}}],
                "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "T"}]})),
        state("no-default", "/States/S", "add a \"Default\"",
            json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "T"}]}),
            json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "T"}], "Default": "T"})),
    ]
}
