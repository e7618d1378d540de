//! Properties for any text: parsing never panics, and a value that was inserted at
//! a path is found there.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::testing::with_scope;
use super::{ChoiceCondition, Expression, Path, ReferencePath, Template};

/// Texts made of the tokens of the grammars.
fn near_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "$", "$$", "@", ".", "..", "[", "]", "(", ")", "?", "*", "'", "\"", "\\", ",", ":", "-",
        "1", "99", "a", "b-c", " ", "==", "<", "&&", "||", "!", "=~", "/", "in ", "States.",
        "Format", "Array", "MathAdd", "{}", "\\{", "\\u00e9", "\\ud83d", "é", "日", "length()",
        "true", "null", "{%", "%}", "$states", ":=", "function", "{", "}", "~>", ";", "#", "^",
        "%",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

/// A valid text with one character changed, dropped or doubled.
fn mutated_text() -> impl Strategy<Value = String> {
    let whole = prop::sample::select(vec![
        "$.a.b[0]['c d'][1:3].e[*]",
        "$..book[?(@.price < 10 && @.title =~ /a.*/i || !(@.x))].length()",
        "States.Format('it\\'s {} \\{\\}', $.a, States.MathAdd(1, $x.y[-1]))",
        "{% $map($states.input.list[n > 1], function($v, $i) { {'a': $v.b ~> $sum(), 'c': $i} }) %}",
        "{% $states.context.Execution.Id & ($x := 1; $x ? 'a' : `b c`) %}",
    ]);
    (whole, any::<prop::sample::Index>(), any::<char>(), 0..3_u8).prop_map(|(text, at, c, how)| {
        let mut chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        match how {
            0 => chars[at] = c,
            1 => {
                chars.remove(at);
            }
            _ => chars.insert(at, chars[at]),
        }
        chars.into_iter().collect()
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![near_text(), mutated_text(), ".{0,40}"]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(("[a-z ]{1,3}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::case_count(2_000)))]

    #[test]
    fn reading_and_evaluating_never_panic(text in any_text(), input in json_value()) {
        with_scope(&input, |scope| {
            if let Ok(path) = Path::parse_or_call(&text) {
                let _ = path.read(scope);
            }
            if let Ok(expression) = Expression::parse(&text) {
                let _ = expression.evaluate(scope);
            }
            let _ = ReferencePath::parse(&text).map(|path| path.insert(input.clone(), json!(1)));
            let _ = Template::json_path(&json!({"a.$": text})).map(|template| template.fill(scope));
            let _ = ChoiceCondition::parse(&json!({"Variable": text, "StringMatches": text})).map(|rule| rule.holds(scope));
            let _ = super::parse_timestamp(&text);
        });
    }

    #[test]
    fn bare_jsonata_never_panics(text in near_text()) {
        if let Ok(expression) = Expression::parse_bare(&text) {
            let _ = with_scope(&json!({"a": [1, {"b": "c"}]}), |scope| expression.evaluate(scope));
        }
    }

    #[test]
    fn inserted_values_are_found(
        names in prop::collection::vec("\\PC{0,6}", 1..5),
        document in prop::collection::vec(("[A-Z]{1,3}", json_value()), 0..4),
        value in json_value(),
    ) {
        // Names that no field of the document has.
        let quoted = |name: &String| format!("['_{}']", name.replace('\\', "\\\\").replace('\'', "\\'"));
        let path = format!("${}", names.iter().map(quoted).collect::<String>());
        let document = Value::Object(document.into_iter().collect::<Map<_, _>>());
        let put = ReferencePath::parse(&path).unwrap().insert(document.clone(), value.clone()).unwrap();
        with_scope(&put, |scope| assert_eq!(Path::parse(&path).unwrap().read(scope), Ok(value.clone())));
        // Everything else is unchanged.
        for (name, before) in document.as_object().unwrap() {
            assert_eq!(put.get(name), Some(before));
        }
    }

    #[test]
    fn templates_without_expressions_stay_as_they_are(value in json_value()) {
        let template = Template::json_path(&value).unwrap();
        prop_assert!(template.is_fixed());
        with_scope(&json!({}), |scope| assert_eq!(template.fill(scope), Ok(value.clone())));
        let template = Template::jsonata(&value).unwrap();
        with_scope(&json!({}), |scope| assert_eq!(template.fill(scope), Ok(value)));
    }

    #[test]
    fn json_passes_through_jsonata(value in json_value()) {
        let expression = Expression::parse("{% [[$states.input]][0][0] %}").unwrap();
        // JSONata would flatten an array; nested in objects it is preserved.
        if !value.is_array() {
            let same = with_scope(&value, |scope| expression.evaluate(scope)).unwrap();
            prop_assert_eq!(by_value(&same), by_value(&value));
        }
    }
}

/// Normalises floats the way JSONata does.
fn by_value(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            super::number::from_f64(number.as_f64().unwrap()).map_or(Value::Null, Value::Number)
        }
        Value::Array(items) => items.iter().map(by_value).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), by_value(value)))
            .collect(),
        other => other.clone(),
    }
}
