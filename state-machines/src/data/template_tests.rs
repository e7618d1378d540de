//! Templates of both languages.

use serde_json::{Value, json};

use super::Template;
use crate::data::testing::with_scope;
use crate::data::{EvaluationFault, StatesField, errors};

fn fill(
    template: Result<Template, Vec<crate::data::SyntaxError>>,
) -> Result<Value, EvaluationFault> {
    let input = json!({"a": 1, "b": {"c": [1, 2]}, "flagged": 7, "vals": [0, 10, 20, 30, 40, 50]});
    with_scope(&input, |scope| template.unwrap().fill(scope))
}

fn json_path(value: Value) -> Result<Value, EvaluationFault> {
    fill(Template::json_path(&value))
}

fn jsonata(value: Value) -> Result<Value, EvaluationFault> {
    fill(Template::jsonata(&value))
}

#[test]
fn paths_fill_the_fields_that_are_marked() {
    let cases = [
        (
            json!({"flagged": true, "parts": {"first.$": "$.vals[0]", "last3.$": "$.vals[3:]"}}),
            json!({"flagged": true, "parts": {"first": 0, "last3": [30, 40, 50]}}),
        ),
        (
            json!({"x.$": "$.a", "y": "$.a"}),
            json!({"x": 1, "y": "$.a"}),
        ),
        (
            json!({"all.$": "$", "id.$": "$$.Execution.Id", "v.$": "$x"}),
            json!({"all": {"a": 1, "b": {"c": [1, 2]}, "flagged": 7, "vals": [0, 10, 20, 30, 40, 50]}, "id": "run-1", "v": 42}),
        ),
        (
            json!([{"x.$": "$.a"}, [[{"y.$": "States.Array($.a)"}]], 5]),
            json!([{"x": 1}, [[{"y": [1]}]], 5]),
        ),
        (
            json!({"none.$": "$.missing[*]", "some.$": "$.missing[1:].x"}),
            json!({"none": [], "some": []}),
        ),
        (
            json!({"x.$": "States.Format('{}-{}', $.a, $.b.c)"}),
            json!({"x": "1-[1, 2]"}),
        ),
        (json!({".$": "$.a"}), json!({"": 1})),
        (json!({"a.$.b": "$.a"}), json!({"a.$.b": "$.a"})),
        (json!("$.a"), json!("$.a")),
        (json!(null), json!(null)),
        (
            json!({"x": "{% $states.input %}"}),
            json!({"x": "{% $states.input %}"}),
        ),
    ];
    for (template, expected) in cases {
        assert_eq!(json_path(template.clone()), Ok(expected), "{template}");
    }
    let order = json_path(json!({"z.$": "$.a", "a": 1, "m.$": "$.a"})).unwrap();
    assert_eq!(order.to_string(), "{\"z\":1,\"a\":1,\"m\":1}");
}

#[test]
fn jsonata_fills_the_texts_that_are_marked() {
    let cases = [
        (json!("{% $states.input.a %}"), json!(1)),
        (
            json!({"x": "{% $x %}", "y": ["{% 1 + 1 %}", "plain"], "z.$": "$.a"}),
            json!({"x": 42, "y": [2, "plain"], "z.$": "$.a"}),
        ),
        (
            json!({"deep": [[{"a": "{% $states.input.b %}"}]]}),
            json!({"deep": [[{"a": {"c": [1, 2]}}]]}),
        ),
        (json!("no {% mark %} here"), json!("no {% mark %} here")),
        (json!(5), json!(5)),
    ];
    for (template, expected) in cases {
        assert_eq!(jsonata(template.clone()), Ok(expected), "{template}");
    }
}

#[test]
fn syntax_errors_have_a_location() {
    let places = |template: Result<Template, Vec<crate::data::SyntaxError>>| {
        let errors = template.unwrap_err();
        errors.into_iter().map(|error| error.at).collect::<Vec<_>>()
    };
    let template =
        json!({"a.$": "nope", "b": [{"c/d.$": 5}, {"e.$": "$.x["}], "f.$": "States.Nope()"});
    assert_eq!(
        places(Template::json_path(&template)),
        ["/a.$", "/b/0/c~1d.$", "/b/1/e.$", "/f.$"]
    );
    let clash = json!({"a": 1, "in": {"b.$": "$.a", "b": 2}});
    assert_eq!(places(Template::json_path(&clash)), ["/in/b.$"]);
    let template = json!({"a": "{% ( %}", "b": ["{% 1"], "c": "{% $eval('1') %}"});
    assert_eq!(places(Template::jsonata(&template)), ["/a", "/b/0", "/c"]);
    let deep = (0..200).fold(json!(1), |value, _| json!([value]));
    assert_eq!(places(Template::json_path(&deep)).len(), 1);
}

#[test]
fn a_fault_has_an_error_name_and_a_location() {
    let fault = json_path(json!({"in": {"x.$": "$.missing"}})).unwrap_err();
    assert_eq!(fault.error, errors::RUNTIME);
    assert!(fault.cause.ends_with("(at /in/x.$)"), "{}", fault.cause);
    let fault = json_path(json!({"x.$": "States.MathAdd($.b, 1)"})).unwrap_err();
    assert_eq!(fault.error, errors::INTRINSIC_FAILURE);
    let fault = jsonata(json!({"x": ["{% $nope %}"]})).unwrap_err();
    assert_eq!(fault.error, errors::QUERY_EVALUATION_ERROR);
    assert!(fault.cause.ends_with("(at /x/0)"), "{}", fault.cause);
}

#[test]
fn random_values_differ_within_one_fill() {
    let filled = json_path(json!({"a.$": "States.UUID()", "b": {"c.$": "States.UUID()"}})).unwrap();
    assert_ne!(filled["a"], filled["b"]["c"]);
    let filled = jsonata(json!(["{% $uuid() %}", "{% $uuid() %}"])).unwrap();
    assert_ne!(filled[0], filled[1]);
}

#[test]
fn a_template_lists_what_it_mentions() {
    let template =
        Template::jsonata(&json!({"a": "{% $states.result.x %}", "b": ["{% $y %}", 1]})).unwrap();
    assert_eq!(template.mentions(StatesField::Result), ["/a"]);
    assert_eq!(template.variables(), [("/b/0".to_owned(), "y".to_owned())]);
    let template = Template::json_path(&json!({"a.$": "$y.z", "b": 1})).unwrap();
    assert_eq!(template.variables(), [("/a".to_owned(), "y".to_owned())]);
    assert!(!template.is_fixed());
    assert!(Template::json_path(&json!({"a": [1]})).unwrap().is_fixed());
}
