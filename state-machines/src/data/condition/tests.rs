//! Every comparison: when it matches, when it does not, and what is refused.

use serde_json::{Value, json};

use super::ChoiceCondition;
use crate::data::testing::with_scope;
use crate::data::{EvaluationFault, errors};

fn input() -> Value {
    json!({
        "text": "m", "number": 5, "float": 5.0, "big": 9007199254740993_i64, "yes": true, "no": false, "null": null,
        "time": "2020-01-01T12:00:00Z", "other_time": "2020-01-01T13:00:00+01:00", "later": "2020-01-01T12:00:00.001Z",
        "list": [1], "object": {}, "empty": "",
    })
}

fn holds(rule: Value) -> Result<bool, EvaluationFault> {
    let condition =
        ChoiceCondition::parse(&rule).unwrap_or_else(|errors| panic!("{rule}: {errors:?}"));
    with_scope(&input(), |scope| condition.holds(scope))
}

fn compare(variable: &str, operator: &str, operand: Value) -> Result<bool, EvaluationFault> {
    holds(json!({"Variable": variable, operator: operand, "Next": "x", "Comment": "c"}))
}

#[test]
fn ordered_kinds_compare_in_all_ways() {
    // Kind, variable, something less, equal and greater than it.
    let kinds = [
        ("String", "$.text", json!("a"), json!("m"), json!("z")),
        ("Numeric", "$.number", json!(4.5), json!(5), json!(6)),
        ("Numeric", "$.float", json!(4), json!(5), json!(5.5)),
        (
            "Numeric",
            "$.big",
            json!(9007199254740992_i64),
            json!(9007199254740993_i64),
            json!(9007199254740994_i64),
        ),
        (
            "Timestamp",
            "$.time",
            json!("2020-01-01T12:30:00+01:00"),
            json!("2020-01-01T12:00:00.000Z"),
            json!("2020-01-01T12:00:01Z"),
        ),
    ];
    for (kind, variable, less, equal, greater) in kinds {
        let outcomes = [
            ("Equals", false, true, false),
            ("LessThan", false, false, true),
            ("GreaterThan", true, false, false),
            ("LessThanEquals", false, true, true),
            ("GreaterThanEquals", true, true, false),
        ];
        for (relation, with_less, with_equal, with_greater) in outcomes {
            let operator = format!("{kind}{relation}");
            for (operand, expected) in [
                (&less, with_less),
                (&equal, with_equal),
                (&greater, with_greater),
            ] {
                let outcome = compare(variable, &operator, operand.clone());
                assert_eq!(outcome, Ok(expected), "{variable} {operator} {operand}");
            }
        }
    }
}

#[test]
fn paths_are_compared_with_paths() {
    let cases = [
        ("$.text", "StringEqualsPath", "$.text", true),
        ("$.text", "StringLessThanPath", "$.empty", false),
        ("$.text", "StringGreaterThanPath", "$.empty", true),
        ("$.number", "NumericEqualsPath", "$.float", true),
        ("$.number", "NumericLessThanPath", "$x", true),
        ("$.number", "NumericGreaterThanEqualsPath", "$.float", true),
        ("$.yes", "BooleanEqualsPath", "$.yes", true),
        ("$.yes", "BooleanEqualsPath", "$.no", false),
        ("$.time", "TimestampEqualsPath", "$.other_time", true),
        ("$.time", "TimestampLessThanPath", "$.later", true),
        ("$.time", "TimestampGreaterThanPath", "$.text", false),
        ("$.number", "StringEqualsPath", "$.number", false),
        (
            "$$.Execution.Id",
            "StringEqualsPath",
            "$$.Execution.Id",
            true,
        ),
    ];
    for (variable, operator, path, expected) in cases {
        assert_eq!(
            compare(variable, operator, json!(path)),
            Ok(expected),
            "{variable} {operator} {path}"
        );
    }
}

#[test]
fn another_type_is_neither_equal_nor_less_nor_greater() {
    for variable in ["$.null", "$.list", "$.object", "$.yes"] {
        for relation in [
            "Equals",
            "LessThan",
            "GreaterThan",
            "LessThanEquals",
            "GreaterThanEquals",
        ] {
            for (kind, operand) in [
                ("String", json!("a")),
                ("Numeric", json!(1)),
                ("Timestamp", json!("2020-01-01T12:00:00Z")),
            ] {
                let operator = format!("{kind}{relation}");
                assert_eq!(
                    compare(variable, &operator, operand),
                    Ok(false),
                    "{variable} {operator}"
                );
            }
        }
    }
    assert_eq!(compare("$.number", "StringEquals", json!("5")), Ok(false));
    assert_eq!(compare("$.text", "BooleanEquals", json!(true)), Ok(false));
    assert_eq!(
        compare("$.text", "TimestampEquals", json!("2020-01-01T12:00:00Z")),
        Ok(false)
    );
    assert_eq!(compare("$.number", "StringMatches", json!("*")), Ok(false));
}

#[test]
fn type_tests_distinguish_types() {
    let table = [
        ("IsNull", "$.null", "$.text"),
        ("IsString", "$.text", "$.number"),
        ("IsString", "$.time", "$.null"),
        ("IsNumeric", "$.number", "$.text"),
        ("IsNumeric", "$.float", "$.yes"),
        ("IsBoolean", "$.no", "$.null"),
        ("IsTimestamp", "$.time", "$.text"),
        ("IsPresent", "$.null", "$.missing"),
        ("IsPresent", "$.list[0]", "$.list[1]"),
        ("IsPresent", "$x", "$unset"),
    ];
    for (operator, is, is_not) in table {
        assert_eq!(
            compare(is, operator, json!(true)),
            Ok(true),
            "{operator} {is}"
        );
        assert_eq!(
            compare(is, operator, json!(false)),
            Ok(false),
            "{operator} {is}"
        );
        assert_eq!(
            compare(is_not, operator, json!(true)),
            Ok(false),
            "{operator} {is_not}"
        );
        assert_eq!(
            compare(is_not, operator, json!(false)),
            Ok(true),
            "{operator} {is_not}"
        );
    }
}

#[test]
fn missing_values_are_faults() {
    let cases = [
        compare("$.missing", "StringEquals", json!("a")),
        compare("$.missing", "IsNull", json!(true)),
        compare("$.missing", "IsString", json!(false)),
        compare("$unset", "NumericEquals", json!(1)),
        compare("$.text", "StringEqualsPath", json!("$.missing")),
    ];
    for outcome in cases {
        assert_eq!(outcome.unwrap_err().error, errors::RUNTIME);
    }
}

#[test]
fn combinations_short_circuit() {
    let yes = json!({"Variable": "$.yes", "BooleanEquals": true});
    let no = json!({"Variable": "$.no", "BooleanEquals": true});
    let fault = json!({"Variable": "$.missing", "BooleanEquals": true});
    let cases = [
        (json!({"And": [yes, yes]}), Some(true)),
        (json!({"And": [yes, no]}), Some(false)),
        (json!({"And": [no, fault]}), Some(false)),
        (json!({"And": [yes, fault]}), None),
        (json!({"Or": [no, yes]}), Some(true)),
        (json!({"Or": [no, no]}), Some(false)),
        (json!({"Or": [yes, fault]}), Some(true)),
        (json!({"Or": [no, fault]}), None),
        (json!({"Not": no}), Some(true)),
        (json!({"Not": {"Not": no}}), Some(false)),
        (json!({"Not": fault}), None),
        (
            json!({"And": [{"Or": [no, yes]}, {"Not": {"And": [yes, no]}}], "Next": "a"}),
            Some(true),
        ),
    ];
    for (rule, expected) in cases {
        assert_eq!(holds(rule.clone()).ok(), expected, "{rule}");
    }
}

#[test]
fn invalid_rules_are_reported_with_their_location() {
    let cases = [
        (json!(1), ""),
        (json!({}), ""),
        (json!({"Variable": "$.a"}), ""),
        (json!({"Next": "x"}), ""),
        (json!({"StringEquals": "a"}), ""),
        (json!({"Variable": 1, "StringEquals": "a"}), "/Variable"),
        (json!({"Variable": "a", "StringEquals": "a"}), "/Variable"),
        (
            json!({"Variable": "$.a", "StringEquals": 1}),
            "/StringEquals",
        ),
        (
            json!({"Variable": "$.a", "NumericEquals": "1"}),
            "/NumericEquals",
        ),
        (
            json!({"Variable": "$.a", "BooleanEquals": "true"}),
            "/BooleanEquals",
        ),
        (
            json!({"Variable": "$.a", "BooleanLessThan": true}),
            "/BooleanLessThan",
        ),
        (
            json!({"Variable": "$.a", "TimestampEquals": "today"}),
            "/TimestampEquals",
        ),
        (json!({"Variable": "$.a", "IsNull": "yes"}), "/IsNull"),
        (
            json!({"Variable": "$.a", "StringMatches": 1}),
            "/StringMatches",
        ),
        (
            json!({"Variable": "$.a", "StringEqualsPath": "b"}),
            "/StringEqualsPath",
        ),
        (
            json!({"Variable": "$.a", "StringEqualsPath": 1}),
            "/StringEqualsPath",
        ),
        (
            json!({"Variable": "$.a", "StringEquals": "a", "StringLessThan": "b"}),
            "",
        ),
        (
            json!({"Variable": "$.a", "StringEqual": "a"}),
            "/StringEqual",
        ),
        (json!({"And": []}), "/And"),
        (json!({"And": {}}), "/And"),
        (json!({"Not": []}), "/Not"),
        (
            json!({"And": [{"Variable": "$.a", "IsNull": true, "Next": "x"}]}),
            "/And/0/Next",
        ),
        (
            json!({"Or": [{"Variable": "$.a", "IsNull": true}, {"Not": {"Variable": "$.a", "IsNul": true}}]}),
            "/Or/1/Not/IsNul",
        ),
        (json!({"Condition": "{% true %}"}), "/Condition"),
    ];
    for (rule, at) in cases {
        let errors = ChoiceCondition::parse(&rule).expect_err(&rule.to_string());
        assert_eq!(errors[0].at, at, "{rule}: {errors:?}");
    }
    let hint = ChoiceCondition::parse(&json!({"Variable": "$.a", "StringEqual": "a"})).unwrap_err();
    assert_eq!(
        hint[0].reason,
        "there is no comparison 'StringEqual'; did you mean StringEquals?"
    );
    let both = ChoiceCondition::parse(&json!({"Variable": "a", "IsNull": 1})).unwrap_err();
    assert_eq!(both.len(), 2);
}

#[test]
fn a_condition_lists_its_variables() {
    let rule = json!({"And": [
        {"Variable": "$order.id", "StringEqualsPath": "$x"},
        {"Not": {"Variable": "$.a", "IsNull": true}},
    ]});
    assert_eq!(
        ChoiceCondition::parse(&rule).unwrap().variables(),
        ["order", "x"]
    );
}
