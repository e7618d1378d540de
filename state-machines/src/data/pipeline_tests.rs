//! The steps from input to output, one by one and combined.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::*;
use crate::data::testing::with_scope;

fn select(field: Value) -> PathSelect {
    PathSelect::parse(Some(&field)).unwrap()
}

#[test]
fn input_and_output_are_selected() {
    let input = json!({"a": {"b": 1}, "list": [1, 2]});
    with_scope(&input, |scope| {
        let cases = [
            (PathSelect::parse(None).unwrap(), input.clone()),
            (select(json!("$")), input.clone()),
            (select(json!(null)), json!({})),
            (select(json!("$.a.b")), json!(1)),
            (select(json!("$.list[*]")), json!([1, 2])),
            (select(json!("$.missing[*]")), json!([])),
            (select(json!("$$.Execution.Id")), json!("run-1")),
            (select(json!("$x")), json!(42)),
        ];
        for (select, expected) in cases {
            assert_eq!(*input_path(&select, scope).unwrap(), expected, "{select:?}");
            assert_eq!(
                *output_path(&select, &input, scope).unwrap(),
                expected,
                "{select:?}"
            );
        }
        let fault = input_path(&select(json!("$.missing")), scope).unwrap_err();
        assert_eq!(fault.error, errors::RUNTIME);
        assert!(matches!(
            input_path(&PathSelect::All, scope),
            Ok(Cow::Borrowed(_))
        ));
    });
    assert!(PathSelect::parse(Some(&json!(1))).is_err());
    assert!(PathSelect::parse(Some(&json!("a"))).is_err());
}

#[test]
fn results_are_placed() {
    let raw = json!({"a": 1});
    let cases = [
        (None, json!("r")),
        (Some(json!(null)), json!({"a": 1})),
        (Some(json!("$")), json!("r")),
        (Some(json!("$.x.y")), json!({"a": 1, "x": {"y": "r"}})),
    ];
    for (field, expected) in cases {
        let placement = ResultPlacement::parse(field.as_ref()).unwrap();
        assert_eq!(
            result_path(&placement, raw.clone(), json!("r")),
            Ok(expected)
        );
    }
    assert!(ResultPlacement::parse(Some(&json!("$.a[*]"))).is_err());
    assert!(ResultPlacement::parse(Some(&json!(7))).is_err());
    let unfit = ResultPlacement::parse(Some(&json!("$.a.b"))).unwrap();
    let fault = unfit.apply(raw, json!("r")).unwrap_err();
    assert_eq!(fault.error, errors::RESULT_PATH_MATCH_FAILURE);
}

#[test]
fn the_steps_follow_each_other() {
    let raw = json!({"order": {"id": 7, "n": 2}, "keep": true});
    with_scope(&raw, |scope| {
        let input = input_path(&select(json!("$.order")), scope).unwrap();
        let template = Template::json_path(&json!({"id.$": "$.id", "v.$": "$x"})).unwrap();
        let effective = parameters(Some(&template), input, scope).unwrap();
        assert_eq!(*effective, json!({"id": 7, "v": 42}));
        let result = json!({"Payload": {"ok": true}, "Meta": 1});
        let selector = Template::json_path(&json!({"ok.$": "$.Payload.ok"})).unwrap();
        let selected = result_selector(Some(&selector), Cow::Owned(result), scope).unwrap();
        let placement = ResultPlacement::parse(Some(&json!("$.answer"))).unwrap();
        let whole = result_path(&placement, raw.clone(), selected.into_owned()).unwrap();
        let output = output_path(&select(json!("$.answer")), &whole, scope).unwrap();
        assert_eq!(*output, json!({"ok": true}));
        let unchanged = parameters(None, Cow::Borrowed(&raw), scope).unwrap();
        assert!(matches!(unchanged, Cow::Borrowed(_)));
    });
}

#[test]
fn two_fields_have_different_random_values() {
    let template = Template::json_path(&json!({"id.$": "States.UUID()"})).unwrap();
    with_scope(&json!({}), |scope| {
        let one = parameters(Some(&template), Cow::Borrowed(scope.input), scope).unwrap();
        let two = result_selector(Some(&template), Cow::Borrowed(scope.input), scope).unwrap();
        assert_ne!(one, two);
        assert_ne!(assign(&template, scope).unwrap()["id"], one["id"]);
    });
}

#[test]
fn assign_sees_the_values_before() {
    with_scope(&json!({"n": 1}), |scope| {
        let template =
            Template::json_path(&json!({"x.$": "$.n", "y.$": "$x", "z": "fixed"})).unwrap();
        let set = assign(&template, scope).unwrap();
        assert_eq!(Value::Object(set), json!({"x": 1, "y": 42, "z": "fixed"}));
        let template = Template::jsonata(&json!({"x": "{% $x + 1 %}", "y": "{% $x %}"})).unwrap();
        let set = assign(&template, scope).unwrap();
        assert_eq!(Value::Object(set), json!({"x": 43, "y": 42}));
        let template = Template::json_path(&json!([1])).unwrap();
        assert!(assign(&template, scope).is_err());
        let large = Template::json_path(&json!({"x": "a".repeat(PAYLOAD_BYTES_MAX)})).unwrap();
        assert_eq!(
            assign(&large, scope).unwrap_err().error,
            errors::DATA_LIMIT_EXCEEDED
        );
    });
}

#[test]
fn names_of_variables_are_checked() {
    for good in ["x", "_x", "camelCase2", "größe", "変数"] {
        assert!(check_variable_name(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "2x",
        "a-b",
        "a.b",
        "a b",
        "$x",
        "states",
        &"x".repeat(81),
    ] {
        assert!(check_variable_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn payloads_have_a_size() {
    // Two quotes, and characters of one, two and three bytes.
    for (unit, bytes) in [("a", 1), ("é", 2), ("あ", 3)] {
        let fits = unit.repeat((PAYLOAD_BYTES_MAX - 2) / bytes);
        assert!(check_size(&json!(fits), "the input").is_ok());
        let fault = check_size(&json!(format!("{fits}{unit}")), "the input").unwrap_err();
        assert_eq!(fault.error, errors::DATA_LIMIT_EXCEEDED);
    }
    let value = json!({"a": [1, 2.5, null, true, "x\n\"é"], "b": {}});
    assert_eq!(json_bytes(&value), value.to_string().len());
}
