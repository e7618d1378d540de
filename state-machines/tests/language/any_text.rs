//! Properties of `check` for any text: it never panics, and an accepted definition can
//! be converted to a graph, drawn, and parsed again.

use ballast_state_machines::language::draw::{Marks, dot, mermaid, text};
use ballast_state_machines::language::graph::Graph;
use ballast_state_machines::language::{DefinitionProblem, ProblemCode, check};
use ballast_state_machines::testing::case_count;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A definition that uses every feature of the language.
fn full_definition() -> Value {
    json!({
        "Comment": "all", "Version": "1.0", "TimeoutSeconds": 60, "StartAt": "Task",
        "States": {
            "Task": {"Type": "Task", "Resource": "arn:${x}:y", "Parameters": {"a.$": "$.a"}, "ResultSelector": {"b.$": "$.b"},
                "ResultPath": "$.c", "InputPath": "$.d", "OutputPath": null, "TimeoutSeconds": 9, "HeartbeatSecondsPath": "$.h",
                "Credentials": {"RoleArn": "r"}, "Next": "Choice",
                "Retry": [{"ErrorEquals": ["E"], "IntervalSeconds": 1, "MaxAttempts": 2, "BackoffRate": 1.5, "MaxDelaySeconds": 9, "JitterStrategy": "FULL"}],
                "Catch": [{"ErrorEquals": ["E"], "Next": "Fail", "ResultPath": "$.e", "Assign": {"v": 1}}, {"ErrorEquals": ["States.ALL"], "Next": "Wait"}]},
            "Choice": {"Type": "Choice", "Default": "Wait", "Choices": [
                {"Not": {"Variable": "$.x", "IsPresent": true}, "Next": "Parallel"},
                {"And": [{"Variable": "$.y", "NumericLessThan": 3}, {"Variable": "$.z", "StringEqualsPath": "$.w"}], "Next": "Task"}]},
            "Wait": {"Type": "Wait", "Timestamp": "2016-03-14T01:59:00Z", "Next": "Pass"},
            "Pass": {"Type": "Pass", "QueryLanguage": "JSONata", "Output": "{% $states.input %}", "Assign": {"x": "{% 1 %}"}, "Next": "Parallel"},
            "Parallel": {"Type": "Parallel", "Next": "Map", "Branches": [
                {"StartAt": "P1", "States": {"P1": {"Type": "Pass", "Result": [1], "End": true}}},
                {"StartAt": "P2", "States": {"P2": {"Type": "Wait", "Seconds": 1, "Next": "P3"}, "P3": {"Type": "Succeed"}}}]},
            "Map": {"Type": "Map", "ItemsPath": "$.i", "ItemSelector": {"v.$": "$$.Map.Item.Value"}, "MaxConcurrency": 4, "Label": "l",
                "ToleratedFailurePercentage": 5.5, "ItemReader": {"Resource": "r", "ReaderConfig": {"InputType": "CSV", "MaxItems": 3}},
                "ItemBatcher": {"MaxItemsPerBatch": 2}, "ResultWriter": {"Resource": "w", "Parameters": {"k": 1}},
                "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
                    "StartAt": "M1", "States": {"M1": {"Type": "Task", "Resource": "r", "QueryLanguage": "JSONata", "Arguments": {"a": "{% 1 %}"}, "TimeoutSeconds": "{% 1 %}", "End": true}}},
                "End": true},
            "Fail": {"Type": "Fail", "ErrorPath": "$.e", "Cause": "c"}
        }
    })
}

/// A change of a definition; the numbers select locations.
#[derive(Debug, Clone)]
enum Mutation {
    Remove(usize),
    Replace(usize, Value),
    Rename(usize, String),
    CopyOver(usize, usize),
}

fn any_value() -> impl Strategy<Value = Value> {
    let known = prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!([]),
        json!({}),
        json!("Task"),
        json!("Wait"),
        json!("Pass"),
        json!("Fail"),
        json!("Map"),
        json!("Nowhere"),
        json!("JSONata"),
        json!("$.a"),
        json!("{% 1 %}"),
        json!("{%"),
        json!("${x"),
        json!(["States.ALL"]),
        json!({"a.$": "$.b"}),
    ]);
    let leaf = prop_oneof![
        known,
        any::<String>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((any_name(), inner), 0..3).prop_map(|fields| Value::Object(
                fields.into_iter().collect::<Map<String, Value>>()
            )),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "Type",
        "Next",
        "End",
        "States",
        "StartAt",
        "Catch",
        "Retry",
        "Choices",
        "Default",
        "Branches",
        "Iterator",
        "ItemProcessor",
        "QueryLanguage",
        "Output",
        "Assign",
        "Items",
        "Seconds",
        "Pass",
        "Task",
        "a\"b\n[c]",
    ]);
    prop_oneof![known.prop_map(str::to_owned), any::<String>()]
}

fn any_mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        any::<usize>().prop_map(Mutation::Remove),
        (any::<usize>(), any_value()).prop_map(|(at, value)| Mutation::Replace(at, value)),
        (any::<usize>(), any_name()).prop_map(|(at, name)| Mutation::Rename(at, name)),
        (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Mutation::CopyOver(from, to)),
    ]
}

/// Collects all locations in a value, as JSON pointers.
fn collect_pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut visit = |key: String, inner: &Value| {
        let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(at.clone());
        collect_pointers(inner, &at, found);
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, inner)| visit(key.clone(), inner)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(n, inner)| visit(n.to_string(), inner)),
        _ => {}
    }
}

fn mutate(value: &mut Value, mutation: &Mutation) {
    let mut found = Vec::new();
    collect_pointers(value, "", &mut found);
    if found.is_empty() {
        return;
    }
    let place = |at: usize| found[at % found.len()].as_str();
    match mutation {
        Mutation::Replace(at, new) => {
            if let Some(old) = value.pointer_mut(place(*at)) {
                *old = new.clone();
            }
        }
        Mutation::CopyOver(from, to) => {
            let copied = value.pointer(place(*from)).cloned();
            if let (Some(copied), Some(old)) = (copied, value.pointer_mut(place(*to))) {
                *old = copied;
            }
        }
        Mutation::Remove(at) => {
            let _ = remove_at(value, place(*at));
        }
        Mutation::Rename(at, name) => {
            let (parent, _) = place(*at).rsplit_once('/').unwrap();
            if let (Some(removed), Some(Value::Object(fields))) =
                (remove_at(value, place(*at)), value.pointer_mut(parent))
            {
                fields.insert(name.clone(), removed);
            }
        }
    }
}

fn remove_at(value: &mut Value, at: &str) -> Option<Value> {
    let (parent, key) = at.rsplit_once('/')?;
    match value.pointer_mut(parent)? {
        Value::Object(fields) => fields.shift_remove(&key.replace("~1", "/").replace("~0", "~")),
        Value::Array(list) => Some(list.remove(key.parse().ok()?)),
        _ => None,
    }
}

/// Checks a text, and the invariants of the result. Returns whether it is accepted.
fn check_invariants(written: &str) -> bool {
    let checked = check(written);
    let is_refused = checked.problems.iter().any(DefinitionProblem::is_error);
    let mut problems = checked.problems.iter();
    let is_unfilled = problems.any(|problem| problem.code == ProblemCode::Unfilled);
    // An unfilled substitution in place of the states leaves no definition.
    if !is_unfilled || is_refused {
        assert_eq!(checked.definition.is_none(), is_refused);
    }
    assert_eq!(check(written), checked, "the result is deterministic");
    let Some(definition) = checked.definition else {
        return false;
    };
    let graph = Graph::from_definition(&definition);
    assert!(is_unfilled || graph.unreachable().is_empty());
    let plain = Marks::default();
    let folded = Marks::default().folding(&definition, |state| state.name.len() % 2 == 0);
    for marks in [plain, folded] {
        assert!(mermaid(&definition, &marks).starts_with("flowchart TD\n"));
        assert!(dot(&definition, &marks).ends_with("}\n"));
        let drawn = text(&definition, &marks);
        assert!(
            drawn.lines().all(|line| line.chars().count() <= 80),
            "{drawn}"
        );
    }
    let again = check(&definition.source().to_string());
    assert_eq!(again.definition, Some(definition));
    true
}

#[test]
fn the_unmutated_definition_is_accepted() {
    assert!(
        check_invariants(&full_definition().to_string()),
        "{:#?}",
        check(&full_definition().to_string()).problems
    );
}

/// As many states as a definition can hold, each with a transition to the next.
fn long_definition(step: impl Fn(usize) -> String) -> String {
    let states: Vec<String> = (0..12_000)
        .map(|n| format!("\"{n}\":{}", step(n + 1)))
        .collect();
    format!(
        r#"{{"StartAt":"0","States":{{{},"12000":{{"Type":"Succeed"}}}}}}"#,
        states.join(",")
    )
}

#[test]
fn a_very_long_definition_does_not_overflow_the_stack() {
    assert!(check_invariants(&long_definition(|next| format!(
        r#"{{"Type":"Pass","Next":"{next}"}}"#
    ))));
    let choice = |next: usize| {
        format!(
            r#"{{"Type":"Choice","Choices":[{{"Variable":"$.a","IsNull":true,"Next":"{next}"}}]}}"#
        )
    };
    assert!(check(&long_definition(choice)).definition.is_some());
    let dangling = long_definition(|next| format!(r#"{{"Type":"Pass","Next":"x{next}"}}"#));
    assert!(check(&dangling).problems.len() >= 12_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(case_count(500)))]

    #[test]
    fn a_mutated_definition_is_checked_without_a_panic(mutations in prop::collection::vec(any_mutation(), 1..6)) {
        let mut value = full_definition();
        for mutation in &mutations {
            mutate(&mut value, mutation);
        }
        check_invariants(&value.to_string());
    }

    #[test]
    fn any_text_is_checked_without_a_panic(written in any::<String>()) {
        check_invariants(&written);
    }

    #[test]
    fn a_definition_cut_off_is_checked_without_a_panic(at in any::<usize>(), patch in any::<String>()) {
        let whole = full_definition().to_string();
        let prefix: String = whole.chars().take(at % whole.chars().count()).collect();
        check_invariants(&format!("{prefix}{patch}"));
    }
}
