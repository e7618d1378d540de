//! Tests of the model and the graph of definitions.

use ballast_state_machines::data::{Path, ReferencePath};
use ballast_state_machines::language::graph::{Graph, GraphEdge};
use ballast_state_machines::language::model::{
    ExecutionType, FieldValue, ItemsSource, Jitter, NextState, PathSelection, ProcessorMode,
    QueryLanguage, ResultTarget, RuleTest, StateKind, TextValue, WaitUntil,
};
use ballast_state_machines::language::{Definition, State};
use petgraph::visit::EdgeRef;
use serde_json::{Value, json};

fn read(definition: &Value) -> Definition {
    Definition::parse(&definition.to_string()).unwrap()
}

/// Parses a definition of one state `S`, with a target `T` if needed.
fn parse_state(state: Value) -> State {
    let mut states = json!({ "S": state });
    if refers_to_target(&states) {
        states["T"] = json!({"Type": "Succeed"});
    }
    let definition = read(&json!({"StartAt": "S", "States": states}));
    definition.find("S").unwrap().clone()
}

fn refers_to_target(states: &Value) -> bool {
    states.to_string().contains(r#":"T""#)
}

#[test]
fn a_definition_preserves_its_order_and_source() {
    let written = json!({"Comment": "c", "TimeoutSeconds": 5, "StartAt": "B", "States": {
        "B": {"Type": "Pass", "Next": "A"}, "A": {"Type": "Fail"}}});
    let definition = read(&written);
    let names: Vec<&str> = definition
        .states()
        .iter()
        .map(|state| state.name.as_str())
        .collect();
    assert_eq!(names, ["B", "A"]);
    assert_eq!(definition.start_at(), "B");
    assert_eq!(definition.comment(), Some("c"));
    assert_eq!(definition.version(), "1.0");
    assert_eq!(definition.timeout_seconds(), Some(5));
    assert_eq!(definition.query_language(), QueryLanguage::JsonPath);
    assert_eq!(definition.source(), &written);
}

#[test]
fn a_task_has_its_defaults_filled_in() {
    let state = parse_state(
        json!({"Type": "Task", "Resource": "r", "Next": "T", "Retry": [{"ErrorEquals": ["E"]}]}),
    );
    let StateKind::Task(task) = &state.kind else {
        panic!("{state:?}");
    };
    assert_eq!(
        (&state.input, &state.output_path),
        (&PathSelection::Whole, &PathSelection::Whole)
    );
    assert_eq!(
        (&task.result, &task.next),
        (&ResultTarget::Whole, &NextState::State("T".to_owned()))
    );
    assert_eq!(
        (&task.timeout_seconds, &task.heartbeat_seconds),
        (&None, &None)
    );
    let retrier = &task.retry[0];
    assert_eq!((retrier.interval_seconds, retrier.attempts_max), (1, 3));
    assert_eq!(
        (retrier.delay_seconds_max, retrier.jitter),
        (None, Jitter::None)
    );
    assert!((retrier.backoff_rate - 2.0).abs() < f64::EPSILON);
}

#[test]
fn a_task_has_its_fields() {
    let state = parse_state(
        json!({"Type": "Task", "Resource": "r", "End": true, "InputPath": null, "OutputPath": "$.o",
        "ResultPath": "$.r", "TimeoutSecondsPath": "$.t", "HeartbeatSeconds": 7,
        "Catch": [{"ErrorEquals": ["E", "F"], "Next": "T", "ResultPath": null}]}),
    );
    assert_eq!(state.input, PathSelection::Nothing);
    assert_eq!(
        state.output_path,
        PathSelection::Path(Path::parse("$.o").unwrap())
    );
    assert!(state.is_end());
    let StateKind::Task(task) = &state.kind else {
        panic!("{state:?}");
    };
    assert_eq!(
        task.result,
        ResultTarget::At(ReferencePath::parse("$.r").unwrap())
    );
    assert_eq!(
        task.timeout_seconds,
        Some(FieldValue::Path(Path::parse("$.t").unwrap()))
    );
    assert_eq!(task.heartbeat_seconds, Some(FieldValue::Fixed(7)));
    assert_eq!(state.catch()[0].errors, ["E", "F"]);
    assert_eq!(state.catch()[0].result, ResultTarget::Nowhere);
}

#[test]
fn the_simple_states() {
    let wait =
        parse_state(json!({"Type": "Wait", "Timestamp": "1970-01-01T00:01:00Z", "End": true}));
    assert!(
        matches!(&wait.kind, StateKind::Wait(wait) if matches!(&wait.until, WaitUntil::Timestamp(FieldValue::Fixed(time)) if time.unix_timestamp() == 60))
    );
    let wait = parse_state(
        json!({"Type": "Wait", "QueryLanguage": "JSONata", "Seconds": "{% 1 %}", "End": true}),
    );
    assert!(
        matches!(&wait.kind, StateKind::Wait(wait) if matches!(&wait.until, WaitUntil::Seconds(FieldValue::Expression(_))))
    );
    let pass = parse_state(json!({"Type": "Pass", "Result": null, "ResultPath": "$", "End": true}));
    assert!(
        matches!(&pass.kind, StateKind::Pass(pass) if pass.result == Some(Value::Null) && pass.result_place == ResultTarget::Whole)
    );
    let fail =
        parse_state(json!({"Type": "Fail", "Error": "E", "CausePath": "States.Format('{}', $.c)"}));
    let StateKind::Fail(fail) = &fail.kind else {
        panic!("{fail:?}");
    };
    assert_eq!(fail.error, Some(TextValue::Fixed("E".to_owned())));
    assert!(matches!(fail.cause, Some(TextValue::Function(_))));
}

#[test]
fn a_choice_has_rules() {
    let state = parse_state(
        json!({"Type": "Choice", "QueryLanguage": "JSONata", "Default": "T", "Output": 1, "Choices": [
        {"Condition": "{% $x %}", "Next": "T", "Comment": "c", "Assign": {"a": 1}}, {"Condition": false, "Next": "T"}]}),
    );
    let StateKind::Choice(choice) = &state.kind else {
        panic!("{state:?}");
    };
    assert!(state.output.is_some());
    assert!(
        matches!(choice.rules[0].test, RuleTest::Expression(_)) && choice.rules[0].assign.is_some()
    );
    assert_eq!(choice.rules[1].test, RuleTest::Fixed(false));
    assert_eq!(
        (choice.rules[0].summary.as_str(), choice.default.as_deref()),
        ("$x", Some("T"))
    );
}

#[test]
fn a_map_and_its_processor() {
    let state = parse_state(
        json!({"Type": "Map", "End": true, "ItemsPath": "$.i", "MaxConcurrencyPath": "$.n",
        "ToleratedFailurePercentage": 5, "Label": "l",
        "ItemReader": {"Resource": "r", "Parameters": {}, "ReaderConfig": {"InputType": "JSON", "MaxItems": 4}},
        "ItemBatcher": {"MaxItemsPerBatch": 2}, "ResultWriter": {"Resource": "w"},
        "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
            "StartAt": "I", "States": {"I": {"Type": "Succeed"}}}}),
    );
    let StateKind::Map(map) = &state.kind else {
        panic!("{state:?}");
    };
    assert_eq!(
        map.processor.mode,
        ProcessorMode::Distributed(ExecutionType::Express)
    );
    assert_eq!(map.items, ItemsSource::Path(Path::parse("$.i").unwrap()));
    assert_eq!(
        map.concurrency_max,
        Some(FieldValue::Path(Path::parse("$.n").unwrap()))
    );
    assert_eq!(
        map.distributed.failures_percent_max,
        Some(FieldValue::Fixed(5.0))
    );
    assert_eq!(map.distributed.label.as_deref(), Some("l"));
    let reader = map.distributed.reader.as_ref().unwrap();
    assert_eq!(
        (&reader.items_max, &reader.config["InputType"]),
        (&Some(FieldValue::Fixed(4)), &json!("JSON"))
    );
    assert_eq!(
        map.distributed.batcher.as_ref().unwrap().items_max,
        Some(FieldValue::Fixed(2))
    );
    assert_eq!(
        map.distributed.writer.as_ref().unwrap().resource.as_deref(),
        Some("w")
    );
    assert_eq!(state.machines()[0].start_at(), "I");
}

#[test]
fn a_graph_has_an_edge_for_every_transition() {
    let definition = read(&json!({"StartAt": "Fan", "States": {
        "Fan": {"Type": "Parallel", "Next": "Pick", "Catch": [{"ErrorEquals": ["E"], "Next": "Out"}], "Branches": [
            {"StartAt": "L", "States": {"L": {"Type": "Succeed"}}},
            {"StartAt": "M", "States": {"M": {"Type": "Map", "End": true, "ItemProcessor":
                {"StartAt": "I", "States": {"I": {"Type": "Task", "Resource": "r", "End": true}}}}}}]},
        "Pick": {"Type": "Choice", "Choices": [{"Variable": "$.x", "IsNull": true, "Next": "Fan"}], "Default": "Out"},
        "Out": {"Type": "Succeed"}}}));
    let graph = Graph::from_definition(&definition);
    let inner = graph.inner();
    let edges: Vec<String> = inner
        .edge_references()
        .map(|edge| {
            let label = match edge.weight() {
                GraphEdge::Next => "next".to_owned(),
                GraphEdge::Choice(n, words) => format!("choice {n} {words}"),
                GraphEdge::Default => "default".to_owned(),
                GraphEdge::Catch(n, errors) => format!("catch {n} {}", errors.join(",")),
                GraphEdge::Branch(n) => format!("branch {n}"),
                GraphEdge::Item => "item".to_owned(),
            };
            format!(
                "{} -{label}- {}",
                inner[edge.source()].name,
                inner[edge.target()].name
            )
        })
        .collect();
    assert_eq!(
        edges,
        [
            "Fan -next- Pick",
            "Fan -catch 0 E- Out",
            "Fan -branch 0- L",
            "Fan -branch 1- M",
            "M -item- I",
            "Pick -choice 0 $.x IsNull true- Fan",
            "Pick -default- Out",
        ]
    );
    assert_eq!(graph.start(), graph.node("Fan"));
    assert_eq!(inner[graph.node("I").unwrap()].within.as_deref(), Some("M"));
    // Caught by the enclosing Parallel.
    assert!(graph.tasks_without_catch().is_empty());
    let cycles: Vec<Vec<&str>> = graph
        .cycles_without_wait()
        .iter()
        .map(|cycle| cycle.iter().map(|node| node.name.as_str()).collect())
        .collect();
    assert_eq!(cycles, [["Fan", "Pick"]]);
    assert!(graph.without_way_out().is_empty() && graph.unreachable().is_empty());
}
