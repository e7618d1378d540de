//! The two query languages, and express machines.

use ballast_state_machines::language::{Durability, ProblemCode, check, check_for};
use serde_json::{Value, json};

use super::case::{RuleCase, jsonata, state, task, whole};

pub(crate) fn cases() -> Vec<RuleCase> {
    let machine = |language: &str, state: Value| json!({"QueryLanguage": language, "StartAt": "S", "States": {"S": state}});
    let pass = json!({"Type": "Pass", "End": true});
    let in_path = json!({"Type": "Pass", "QueryLanguage": "JSONPath", "End": true});
    let in_nata = json!({"Type": "Pass", "QueryLanguage": "JSONata", "End": true});
    vec![
        whole(
            "not-one-of",
            "/QueryLanguage",
            "did you mean \"JSONPath\"?",
            machine("JsonPath", pass.clone()),
            machine("JSONPath", pass.clone()),
        ),
        whole(
            "language-downgrade",
            "/States/S/QueryLanguage",
            "cannot be in JSONPath",
            machine("JSONata", in_path),
            machine("JSONPath", in_nata),
        ),
        state(
            "not-one-of",
            "/States/S/QueryLanguage",
            "JSONPath, JSONata",
            json!({"Type": "Pass", "QueryLanguage": "SQL", "End": true}),
            pass,
        ),
        state(
            "other-language",
            "/States/S/Output",
            "a field of JSONata",
            json!({"Type": "Pass", "Output": 1, "End": true}),
            json!({"Type": "Pass", "Result": 1, "End": true}),
        ),
        state(
            "other-language",
            "/States/S/Arguments",
            "use \"Parameters\"",
            task(json!({"Arguments": {}})),
            task(json!({"Parameters": {}})),
        ),
        jsonata(
            "other-language",
            "/States/S/Parameters",
            "use \"Arguments\"",
            task(json!({"Parameters": {}})),
            task(json!({"Arguments": {}})),
        ),
        jsonata(
            "other-language",
            "/States/S/InputPath",
            "$states.input",
            task(json!({"InputPath": "$.a"})),
            task(json!({"Arguments": "{% $states.input.a %}"})),
        ),
        jsonata(
            "other-language",
            "/States/S/TimeoutSecondsPath",
            "without \"Path\" in the name",
            task(json!({"TimeoutSecondsPath": "$.t"})),
            task(json!({"TimeoutSeconds": "{% 5 %}"})),
        ),
        state(
            "other-language",
            "/States/S/Choices/0/Condition",
            "use \"Variable\"",
            json!({"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "T"}], "Default": "T"}),
            json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "T"}], "Default": "T"}),
        ),
        jsonata(
            "other-language",
            "/States/S/Choices/0/Variable",
            "use \"Condition\"",
            json!({"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "T"}], "Default": "T"}),
            json!({"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "T", "Output": 1, "Assign": {"a": 1}}], "Default": "T", "Output": 2, "Assign": {"a": 2}}),
        ),
        jsonata(
            "wrong-type",
            "/States/S/Choices/0/Condition",
            "an expression",
            json!({"Type": "Choice", "Choices": [{"Condition": "true", "Next": "T"}], "Default": "T"}),
            json!({"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "T"}], "Default": "T"}),
        ),
    ]
}

#[test]
fn nested_states_have_the_language_of_the_definition() {
    let nested = |inner: Value| {
        json!({"StartAt": "S", "States": {"S": {"Type": "Map", "QueryLanguage": "JSONata", "Items": [1], "End": true,
            "ItemProcessor": {"StartAt": "I", "States": {"I": inner}}}}})
        .to_string()
    };
    let refused = check(&nested(json!({"Type": "Pass", "Output": 1, "End": true})));
    assert_eq!(refused.problems[0].code, ProblemCode::OtherLanguage);
    let accepted = nested(json!({"Type": "Pass", "Parameters": {}, "End": true}));
    assert!(check(&accepted).definition.is_some());
}

#[test]
fn express_machines_cannot_wait() {
    let run = |resource: &str, durability| {
        let text = json!({"StartAt": "S", "States": {"S": {"Type": "Task", "Resource": resource, "End": true}}});
        let checked = check_for(&text.to_string(), durability);
        checked
            .problems
            .iter()
            .any(|problem| problem.code == ProblemCode::Express)
    };
    for resource in [
        "arn:aws:states:::states:startExecution.sync:2",
        "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "arn:aws:states:us-east-1:111111111111:activity:a",
    ] {
        assert!(run(resource, Durability::Express), "{resource}");
        assert!(!run(resource, Durability::Standard), "{resource}");
    }
    assert!(!run("arn:aws:states:::lambda:invoke", Durability::Express));
}

#[test]
fn iterations_of_a_distributed_map_can_be_express() {
    let text = |kind: &str| {
        json!({"StartAt": "S", "States": {"S": {"Type": "Map", "End": true, "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": kind},
            "StartAt": "I", "States": {"I": {"Type": "Task", "Resource": "arn:aws:states:::ecs:runTask.sync", "End": true}}}}}})
        .to_string()
    };
    assert!(check(&text("STANDARD")).definition.is_some());
    let refused = check(&text("EXPRESS"));
    let express = refused
        .problems
        .iter()
        .find(|problem| problem.code == ProblemCode::Express);
    assert_eq!(
        express.unwrap().path,
        "/States/S/ItemProcessor/States/I/Resource"
    );
}
