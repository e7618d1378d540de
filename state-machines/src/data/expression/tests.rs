//! The scope of expressions, their limits, and the precision of numbers.

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::{Expression, StatesField};
use crate::data::testing::with_scope;
use crate::data::{EvaluationFault, EvaluationScope, errors};

fn input() -> Value {
    json!({
        "a": {"b": 1}, "list": [3, 1, 2], "one": [7], "none": [], "void": null, "float": 1.0, "frac": 0.1,
        "big": 9223372036854775807_i64, "huge": 18446744073709551615_u64, "near": 9007199254740993_i64,
        "rows": [{"n": 1, "t": ["x"]}, {"n": 2, "t": ["y", "z"]}], "text": "hello",
    })
}

fn evaluate(text: &str) -> Result<Value, EvaluationFault> {
    evaluate_in(text, |scope| *scope)
}

fn evaluate_in(
    text: &str,
    change: impl for<'a> FnOnce(&EvaluationScope<'a>) -> EvaluationScope<'a>,
) -> Result<Value, EvaluationFault> {
    let text = format!("{{% {text} %}}");
    let expression = Expression::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    with_scope(&input(), |scope| expression.evaluate(&change(scope)))
}

#[test]
fn expressions_see_states_and_variables() {
    let cases = [
        ("$states.input.a.b", json!(1)),
        ("$states.input.a", json!({"b": 1})),
        ("$states.input.one", json!([7])),
        ("$states.input.none", json!([])),
        ("$states.input.void", json!(null)),
        ("$states.input.rows.n", json!([1, 2])),
        ("$states.input.rows.t", json!(["x", "y", "z"])),
        ("$states.input.list[0]", json!(3)),
        ("$states.context.Execution.Id", json!("run-1")),
        ("$x", json!(42)),
        ("$x + 1", json!(43)),
        ("$order.lines.sku", json!(["a", "b"])),
        ("$order.lines[sku = 'b'].sku", json!("b")),
        ("{'n': $x, 'id': $order.id}", json!({"n": 42, "id": "o-1"})),
        ("$sum($states.input.list)", json!(6)),
        (
            "$map($states.input.list, function($v) { $v * 2 })",
            json!([6, 2, 4]),
        ),
        ("($y := 2; $y * $x)", json!(84)),
        ("$keys($states)", json!(["input", "context"])),
        ("$states.input.list ~> $sort()", json!([1, 2, 3])),
        ("1", json!(1)),
        ("'a' & 'b'", json!("ab")),
        ("null", json!(null)),
        ("[]", json!([])),
        ("{}", json!({})),
    ];
    for (text, expected) in cases {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
    let result = evaluate_in("$states.result.ok & $states.errorOutput.Error", |scope| {
        EvaluationScope {
            result: Some(scope.variables.get("order").unwrap()),
            error_output: Some(scope.context),
            ..*scope
        }
    });
    assert_eq!(result, Ok(json!("")));
}

#[test]
fn results_that_are_not_json_are_faults() {
    let cases = [
        "$unset",
        "$states.input.missing",
        "$states.input.a.b.c",
        "$states.result",
        "$states.result.x",
        "missing",
        "$",
        "$$",
        "$fn := function($x) { $x }",
        "function($x) { $x }",
        "$sum",
        "/a/",
        "[$sum]",
        "{'f': function() { 1 }}",
        "1 / 0",
        "1 + 'a'",
        "$nope(1)",
        "$error('stop')",
        "$number('x')",
        "()",
        "$states.input.void.x",
    ];
    for text in cases {
        let fault = evaluate(text).expect_err(text);
        assert_eq!(fault.error, errors::QUERY_EVALUATION_ERROR, "{text}");
    }
    assert!(evaluate("1 + 'a'").unwrap_err().cause.contains("T2002"));
    assert!(
        evaluate("$randomSeeded(1)")
            .unwrap_err()
            .cause
            .contains("T1006")
    );
}

#[test]
fn states_have_functions_of_their_own() {
    let cases = [
        ("$partition([1,2,3,4,5], 2)", json!([[1, 2], [3, 4], [5]])),
        ("$partition([0], 3)", json!([[0]])),
        ("$partition($states.input.list, 2)", json!([[3, 1], [2]])),
        ("$range(0, 9, 3)", json!([0, 3, 6, 9])),
        ("$range(1, 9, 9)", json!(1)),
        ("$range(3, 1, -1)", json!([3, 2, 1])),
        ("$range(0, 1, 0.5)", json!([0, 0.5, 1])),
        (
            "$hash('abc', 'MD5')",
            json!("900150983cd24fb0d6963f7d28e17f72"),
        ),
        ("$parse('{\"a\": [1, null]}')", json!({"a": [1, null]})),
        ("$parse('-0')", json!(0)),
        ("$parse('\"x\"')", json!("x")),
        ("$map(['1', '2'], $parse)", json!([1, 2])),
        ("$uuid() = $uuid()", json!(false)),
        ("$length($uuid())", json!(36)),
        ("$random() != $random()", json!(true)),
        ("$random(7) = $random(7)", json!(true)),
        ("$random(7) = $random(8)", json!(false)),
        ("$count($shuffle([1..100]))", json!(100)),
        ("$sum($shuffle([1..100]))", json!(5050)),
    ];
    for (text, expected) in cases {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
    for text in [
        "$partition([1], 0)",
        "$partition('a', 1)",
        "$partition([1])",
        "$range(1, 2, 0)",
        "$range(1)",
        "$range('a', 2, 1)",
        "$range(0, 1e9, 1)",
        "$hash('a', 'x')",
        "$hash('a')",
        "$parse('{')",
        "$parse(1)",
        "$random('a')",
        "($e := $eval; $e('1'))",
    ] {
        assert!(evaluate(text).is_err(), "{text}");
    }
    assert!(Expression::parse("{% $eval('1') %}").is_err());
}

#[test]
fn time_and_random_values_come_from_the_scope() {
    let at = |text: &str, seconds: i64| {
        let now = OffsetDateTime::from_unix_timestamp(seconds).unwrap();
        evaluate_in(text, |scope| EvaluationScope { now, ..*scope }).unwrap()
    };
    assert_eq!(at("$millis()", 1_600_000_000), json!(1_600_000_000_000_i64));
    assert_eq!(
        at("$now()", 1_600_000_000),
        json!("2020-09-13T12:26:40.000Z")
    );
    assert_eq!(at("$now('[Y]/[M01]')", 1_600_000_000), json!("2020/09"));
    assert_eq!(
        at("$now('[H01]:[m01]', '+0100')", 1_600_000_000),
        json!("13:26")
    );
    assert_eq!(at("($f := $millis; $f())", 5), json!(5000));
    let seeded = |text: &str, seed: u64| {
        evaluate_in(text, |scope| EvaluationScope { seed, ..*scope }).unwrap()
    };
    for text in [
        "$uuid()",
        "$random()",
        "$shuffle([1..50])",
        "[$uuid(), $uuid()]",
    ] {
        assert_eq!(seeded(text, 1), seeded(text, 1), "{text}");
        assert_ne!(seeded(text, 1), seeded(text, 2), "{text}");
    }
}

#[test]
fn large_integers_stay_exact() {
    let text = |value: Value| value.to_string();
    let cases = [
        ("$states.input.big", "9223372036854775807"),
        ("$states.input.huge", "18446744073709551615"),
        ("$states.input.float", "1.0"),
        ("{'n': $states.input.near}", "{\"n\":9007199254740993}"),
        (
            "$merge([{'n': $states.input.near}, {'m': 1}])",
            "{\"n\":9007199254740993,\"m\":1}",
        ),
        (
            "[$states.input.big, $states.input.near]",
            "[9223372036854775807,9007199254740993]",
        ),
        ("$parse('9007199254740993')", "9007199254740993"),
        ("1", "1"),
        ("2 / 2", "1"),
        ("$states.input.frac", "0.1"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("1e15 + 1", "1000000000000001"),
        ("1e300", "1e+300"),
    ];
    for (expression, expected) in cases {
        assert_eq!(
            text(evaluate(expression).unwrap()),
            expected,
            "{expression}"
        );
    }
    // A computed result is not replaced by an input with the same float value.
    assert_eq!(
        text(evaluate("[$states.input.near, 2 * 4503599627370496]").unwrap()),
        "[9007199254740992,9007199254740992]"
    );
}

#[test]
fn expressions_are_limited() {
    let cases = [
        "($f := function() { $f() }; $f())",
        "($f := function($n) { 1 + $f($n + 1) }; $f(0))",
        "[1..10000000]",
        "$map([1..90000], function($i) { $map([1..90000], function($j) { $i * $j }) })",
        "$range(0, 1000000000000, 1)",
    ];
    for text in cases {
        let fault = evaluate(text).expect_err(text);
        assert_eq!(fault.error, errors::QUERY_EVALUATION_ERROR);
    }
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    assert!(Expression::parse_bare(&deep).is_err());
    let nested = "($f := function($n) { $n = 0 ? 1 : {'a': $f($n - 1)} }; $f(200))";
    assert!(
        evaluate(nested)
            .unwrap_err()
            .cause
            .contains("nested deeper")
    );
}

#[test]
fn both_delimiters_are_required() {
    for text in [
        "{% 1",
        "1 %}",
        "{%",
        "%}",
        "{% 1 %} ",
        " {% 1 %}",
        "{% ( %}",
        "{% %}",
        "{% 1 + %}",
    ] {
        assert!(Expression::parse(text).is_err(), "{text}");
    }
    assert!(Expression::parse("{%1%}").is_ok());
    assert!(Expression::is_marked("{% 1 %}") && Expression::is_marked("{% 1"));
    assert!(!Expression::is_marked("a {% 1 %} b"));
}

#[test]
fn an_expression_lists_what_it_mentions() {
    let of = |text: &str| Expression::parse(&format!("{{% {text} %}}")).unwrap();
    let mentions = |text: &str| {
        let expression = of(text);
        StatesField::ALL
            .into_iter()
            .filter(|field| expression.mentions(*field))
            .map(StatesField::name)
            .collect::<Vec<_>>()
    };
    assert_eq!(mentions("$states.input.a"), ["input"]);
    assert_eq!(
        mentions("$merge([$states.result, {'e': $states.errorOutput.Error}])"),
        ["result", "errorOutput"]
    );
    assert_eq!(
        mentions("$states.input[$states.context.n = 1]"),
        ["input", "context"]
    );
    assert_eq!(mentions("'$states.result'"), Vec::<&str>::new());
    assert_eq!(
        of("$a + ($b := 1; $b + $c.d) & $map($e, function($f) { $f + $g })").variables(),
        ["a", "c", "e", "g"]
    );
    assert_eq!(of("$states.input").variables(), Vec::<&str>::new());
    assert_eq!(
        of("$exists($v[$w = 1]) ? $y : -$z").variables(),
        ["v", "w", "y", "z"]
    );
}

#[test]
fn direct_paths_give_the_same_result_as_jsonata() {
    let input = input();
    for text in [
        "$states.input.a.b",
        "$states.input.one",
        "$states.input.none",
        "$states.input.void",
        "$states.input.missing",
        "$states.input.a.b.c",
        "$states.input.rows",
        "$x",
        "$order.id",
    ] {
        let expression = Expression::parse_bare(text).unwrap();
        assert!(expression.direct.is_some(), "{text}");
        with_scope(&input, |scope| {
            let session = super::EvaluationSession::new(scope);
            let short = expression.evaluate_in(&session, scope).ok();
            assert_eq!(
                short,
                expression.evaluate_tree(&session, scope).unwrap(),
                "{text}"
            );
        });
    }
}

#[test]
fn expressions_evaluate_on_a_plain_document() {
    let expression = Expression::parse_bare("$sum(items.price) * $rate").unwrap();
    let bindings: Map<String, Value> = [("rate".to_owned(), json!(2))].into_iter().collect();
    let document = json!({"items": [{"price": 1}, {"price": 2.5}]});
    assert_eq!(
        expression.evaluate_on(Some(&document), &bindings),
        Ok(Some(json!(7)))
    );
    let nothing = Expression::parse_bare("missing").unwrap();
    assert_eq!(nothing.evaluate_on(Some(&document), &bindings), Ok(None));
}

#[test]
fn expressions_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Expression>();
    shared::<crate::data::Template>();
    shared::<crate::data::ChoiceCondition>();
    shared::<crate::data::Path>();
}
