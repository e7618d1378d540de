//! Unfilled substitutions, and the available fields of `$states`.

use ballast_state_machines::language::{ProblemCode, check, draw};
use serde_json::{Value, json};

use super::case::{RuleCase, jsonata, state, task, with};

pub(crate) fn cases() -> Vec<RuleCase> {
    let mut cases = vec![state(
        "unfilled",
        "/States/S/TimeoutSeconds",
        "${T} is not filled in",
        task(json!({"TimeoutSeconds": "${T}"})),
        task(json!({"TimeoutSeconds": 5, "Parameters": {"Table": "${Table}"}})),
    )];
    let result = "{% $states.result %}";
    let error = "{% $states.errorOutput.Cause %}";
    let catching = |more: Value| {
        let catcher = json!({"ErrorEquals": ["States.ALL"], "Next": "T"});
        task(json!({ "Catch": [with(catcher, more)] }))
    };
    let kept = || {
        let mut kept = catching(json!({"Output": error, "Assign": {"e": error}}));
        kept["Output"] = json!({ "r": result });
        kept["Assign"] = json!({ "r": result });
        kept
    };
    let wrong = [
        ("/Arguments/a", task(json!({"Arguments": {"a": result}}))),
        ("/Output/0", task(json!({"Output": [error]}))),
        ("/Assign/e", task(json!({"Assign": {"e": error}}))),
        ("/TimeoutSeconds", task(json!({"TimeoutSeconds": result}))),
        ("/Catch/0/Output", catching(json!({"Output": result}))),
        (
            "/Catch/0/Assign/r",
            catching(json!({"Assign": {"r": result}})),
        ),
        (
            "/Output",
            json!({"Type": "Pass", "Output": result, "End": true}),
        ),
        (
            "/Seconds",
            json!({"Type": "Wait", "Seconds": result, "End": true}),
        ),
        ("/Output", json!({"Type": "Succeed", "Output": error})),
        ("/Cause", json!({"Type": "Fail", "Cause": error})),
        (
            "/Choices/0/Condition",
            json!({"Type": "Choice", "Choices": [
                {"Condition": "{% $states.result = 1 %}", "Next": "T"}]}),
        ),
        (
            "/Items",
            json!({"Type": "Map", "Items": result, "End": true, "ItemProcessor": {
                "StartAt": "I", "States": {"I": {"Type": "Succeed"}}}}),
        ),
    ];
    for (at, broken) in wrong {
        cases.push(jsonata(
            "no-such-value",
            &format!("/States/S{at}"),
            "is not available here",
            broken,
            kept(),
        ));
    }
    cases
}

/// A substitution can replace any value. Each document is valid except for its
/// substitution.
#[test]
fn substitutions_do_not_make_a_definition_invalid() {
    for document in with_tokens() {
        let checked = check(&document.to_string());
        let errors: Vec<_> = checked
            .problems
            .iter()
            .filter(|one| one.is_error())
            .collect();
        assert!(errors.is_empty(), "{document}\n{errors:#?}");
        let unfilled = checked.problems.iter();
        let unfilled = unfilled
            .filter(|one| one.code == ProblemCode::Unfilled)
            .count();
        assert!(unfilled > 0, "{document}");
        // It can be drawn, but not run.
        if let Some(definition) = &checked.definition {
            assert_eq!(definition.unfilled().len(), unfilled, "{document}");
            let marks = draw::Marks::default();
            draw::text(definition, &marks);
            draw::mermaid(definition, &marks);
            draw::dot(definition, &marks);
        } else {
            // Only a substitution in place of the states leaves nothing to draw.
            let text = document.to_string().replace('[', "");
            let is_shapeless = ["Type", "States", "Branches", "Choices", "ItemProcessor"]
                .iter()
                .any(|name| text.contains(&format!("\"{name}\":\"${{X}}\"")));
            assert!(is_shapeless, "{document} cannot be drawn");
        }
    }
}

/// Errors outside of a substitution remain errors.
#[test]
fn errors_outside_of_substitutions_remain() {
    let wrong = [
        (task(json!({"Timeout": "${X}"})), ProblemCode::UnknownField),
        (
            task(json!({"Seconds": "${X}"})),
            ProblemCode::MisplacedField,
        ),
        (
            task(json!({"TimeoutSeconds": "${X"})),
            ProblemCode::WrongType,
        ),
        (
            task(json!({"TimeoutSeconds": "${}"})),
            ProblemCode::WrongType,
        ),
        (
            task(json!({"TimeoutSeconds": "${X}", "HeartbeatSeconds": 0})),
            ProblemCode::OutOfRange,
        ),
        (
            json!({"Type": "Choice", "Choices": [
                {"Variable": "$.a", "StringEqual": "${X}", "Next": "T"}]}),
            ProblemCode::Condition,
        ),
        (
            json!({"Type": "Wait", "Seconds": "${X}", "Timestamp": "${X}", "End": true}),
            ProblemCode::OnlyOneOf,
        ),
    ];
    for (broken, code) in wrong {
        let mut states = json!({ "S": broken });
        if code == ProblemCode::Condition {
            states["T"] = json!({"Type": "Succeed"});
        }
        let text = json!({"StartAt": "S", "States": states}).to_string();
        let found = check(&text).problems;
        assert!(
            found
                .iter()
                .any(|problem| problem.code == code && problem.is_error()),
            "{text}\n{found:#?}"
        );
    }
}

fn with_tokens() -> Vec<Value> {
    let mut documents = Vec::new();
    for (fields, base) in fields() {
        for (name, value) in fields {
            let mut state = base.clone();
            state[name] = value;
            let mut states = json!({ "S": state });
            if states.to_string().contains(r#""T""#) {
                states["T"] = json!({"Type": "Succeed"});
            }
            documents.push(json!({"StartAt": "S", "States": states}));
        }
    }
    let succeed = json!({"S": {"Type": "Succeed"}});
    for name in [
        "Version",
        "TimeoutSeconds",
        "QueryLanguage",
        "StartAt",
        "States",
    ] {
        let mut document = json!({"StartAt": "S", "States": succeed});
        document[name] = json!("${X}");
        documents.push(document);
    }
    // The query language is unknown until it is filled in.
    documents.push(json!({"StartAt": "S", "QueryLanguage": "${X}", "States": {
        "S": {"Type": "Pass", "Output": "{% 1 %}", "End": true}}}));
    documents.push(json!({"StartAt": "S", "States": {
        "S": {"Type": "Pass", "QueryLanguage": "${X}", "Output": "{% 1 %}", "End": true}}}));
    documents
}

type TokenFields = Vec<(&'static str, Value)>;

/// Fields with substitutions, and the states to test them in.
fn fields() -> Vec<(TokenFields, Value)> {
    let x = || json!("${X}");
    let retry = |name: &str| {
        let mut retrier = json!({"ErrorEquals": ["E"]});
        retrier[name] = x();
        json!([retrier])
    };
    let inner = json!({"StartAt": "I", "States": {"I": {"Type": "Succeed"}}});
    let rule = |name: &str, value: Value| {
        let mut rule = json!({"Variable": "$.a", "Next": "T"});
        rule[name] = value;
        json!([rule])
    };
    vec![
        (
            vec![
                ("Type", x()),
                ("TimeoutSeconds", x()),
                ("TimeoutSecondsPath", x()),
                ("HeartbeatSeconds", x()),
                ("HeartbeatSecondsPath", json!("$.${X}")),
                ("InputPath", x()),
                ("OutputPath", json!("$.a.${X}")),
                ("ResultPath", x()),
                ("Parameters", json!({"a.$": "${X}"})),
                (
                    "ResultSelector",
                    json!({"a": {"b.$": "States.Format(${X})"}}),
                ),
                ("Retry", x()),
                ("Retry", retry("IntervalSeconds")),
                ("Retry", retry("MaxAttempts")),
                ("Retry", retry("BackoffRate")),
                ("Retry", retry("MaxDelaySeconds")),
                ("Retry", retry("JitterStrategy")),
                ("Retry", retry("ErrorEquals")),
                ("Catch", x()),
                ("Catch", json!([{"ErrorEquals": "${X}", "Next": "T"}])),
                ("Catch", json!([{"ErrorEquals": ["${X}"], "Next": "${X}"}])),
                ("Credentials", x()),
                ("Assign", x()),
                ("End", x()),
            ],
            json!({"Type": "Task", "Resource": "${Work}", "End": true}),
        ),
        (vec![("Next", x())], json!({"Type": "Pass"})),
        (
            vec![("Seconds", x()), ("Timestamp", json!("${X}T00:00:00Z"))],
            json!({"Type": "Wait", "End": true}),
        ),
        (
            vec![("SecondsPath", x()), ("TimestampPath", x())],
            json!({"Type": "Wait", "End": true}),
        ),
        (
            vec![
                ("Choices", x()),
                ("Default", x()),
                ("Choices", rule("NumericEquals", x())),
                ("Choices", rule("BooleanEquals", x())),
                ("Choices", rule("TimestampLessThan", x())),
                ("Choices", rule("StringEqualsPath", x())),
                ("Choices", rule("IsNull", x())),
                (
                    "Choices",
                    json!([{"Variable": "${X}", "IsNull": true, "Next": "T"}]),
                ),
                ("Choices", json!([{"And": "${X}", "Next": "T"}])),
                (
                    "Choices",
                    json!([{"Not": {"Variable": "${X}", "IsNull": true}, "Next": "T"}]),
                ),
                (
                    "Choices",
                    json!([{"Variable": "$.a", "IsNull": true, "Next": "${X}"}]),
                ),
            ],
            json!({"Type": "Choice", "Default": "T", "Choices": [
                {"Variable": "$.a", "IsNull": true, "Next": "T"}]}),
        ),
        (
            vec![
                ("MaxConcurrency", x()),
                ("MaxConcurrencyPath", x()),
                ("ItemsPath", x()),
                ("ItemSelector", json!({"a.$": "${X}"})),
                ("ToleratedFailureCount", x()),
                ("ToleratedFailurePercentage", x()),
                ("ItemProcessor", x()),
                ("Label", json!("run-${X}")),
                ("ItemBatcher", json!({"MaxItemsPerBatch": "${X}"})),
                (
                    "ItemReader",
                    json!({"Resource": "r", "ReaderConfig": {"InputType": "${X}", "MaxItems": "${X}"}}),
                ),
            ],
            json!({"Type": "Map", "End": true, "ItemProcessor": {
                "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                "StartAt": "I", "States": {"I": {"Type": "Succeed"}}}}),
        ),
        (
            vec![
                (
                    "ItemProcessor",
                    json!({"ProcessorConfig": {"Mode": "${X}"},
                    "StartAt": "I", "States": {"I": {"Type": "Succeed"}}}),
                ),
                (
                    "ItemProcessor",
                    json!({"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "${X}"},
                    "StartAt": "I", "States": {"I": {"Type": "Succeed"}}}),
                ),
            ],
            json!({"Type": "Map", "End": true}),
        ),
        (
            vec![("Branches", x()), ("Branches", json!(["${X}"]))],
            json!({"Type": "Parallel", "End": true, "Branches": [inner]}),
        ),
        (
            vec![
                ("Arguments", x()),
                ("Arguments", json!({"a": "{% $states.input.n > ${X} %}"})),
                ("TimeoutSeconds", x()),
                ("TimeoutSeconds", json!("{% ${X} + 1 %}")),
            ],
            json!({"Type": "Task", "Resource": "r", "QueryLanguage": "JSONata", "End": true}),
        ),
        (
            vec![
                ("Choices", json!([{"Condition": "${X}", "Next": "T"}])),
                (
                    "Choices",
                    json!([{"Condition": "{% 1 < ${X} %}", "Next": "T"}]),
                ),
            ],
            json!({"Type": "Choice", "QueryLanguage": "JSONata"}),
        ),
        (
            vec![("Items", x())],
            json!({"Type": "Map", "QueryLanguage": "JSONata", "End": true,
                "ItemProcessor": inner}),
        ),
    ]
}
