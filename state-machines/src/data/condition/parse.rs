//! Parses choice rules.

use serde_json::{Map, Value};

use super::ConditionNode;
use super::compare::{ComparisonKind, ComparisonOperand, Relation, ValueTest, ValueType};
use super::matches::WildcardPattern;
use crate::data::{Path, SyntaxError, parse_timestamp, pointer_to};

/// The maximum nesting of `And`, `Or` and `Not`.
const DEPTH_MAX: usize = 64;

/// Fields that are allowed only at the top level of a rule.
const BESIDE_AT_TOP: [&str; 3] = ["Next", "Assign", "Output"];

pub(super) fn parse_rule(rule: &Value) -> Result<ConditionNode, Vec<SyntaxError>> {
    let mut unreadable = Vec::new();
    let read = read_node(rule, "", 0, &mut unreadable);
    match read {
        Some(rule) if unreadable.is_empty() => Ok(rule),
        _ => Err(unreadable),
    }
}

/// Reads a rule, or reports what is wrong with it.
fn read_node(
    rule: &Value,
    at: &str,
    depth: usize,
    unreadable: &mut Vec<SyntaxError>,
) -> Option<ConditionNode> {
    let mut wrong = |at: &str, reason: String| {
        unreadable.push(SyntaxError::new(reason).prefix_pointer(at));
        None
    };
    let Value::Object(fields) = rule else {
        return wrong(at, "a choice rule must be an object".to_owned());
    };
    if depth > DEPTH_MAX {
        return wrong(
            at,
            format!("choice rules nest deeper than {DEPTH_MAX} levels"),
        );
    }
    let asked: Vec<&String> = fields.keys().filter(|name| is_operator(name)).collect();
    for name in fields.keys() {
        if depth > 0 && BESIDE_AT_TOP.contains(&name.as_str()) {
            wrong(
                &pointer_to(at, name),
                format!("'{name}' is only allowed at the top level of a rule"),
            );
        }
    }
    let name = match asked.as_slice() {
        [name] => name.as_str(),
        [] => {
            return wrong(
                at,
                "the rule has no condition: add a comparison such as StringEquals, or And, Or, Not"
                    .to_owned(),
            );
        }
        [first, second, ..] => {
            return wrong(
                at,
                format!(
                    "the rule has both '{first}' and '{second}': only one is allowed; combine several with And or Or"
                ),
            );
        }
    };
    let here = pointer_to(at, name);
    let value = &fields[name];
    match name {
        "And" | "Or" => read_combination(name, value, &here, depth, unreadable),
        "Not" => Some(ConditionNode::Not(Box::new(read_node(
            value,
            &here,
            depth + 1,
            unreadable,
        )?))),
        _ => {
            let test = read_test(name, value)
                .map_err(|error| unreadable.push(error.prefix_pointer(&here)))
                .ok();
            let variable = read_variable(fields)
                .map_err(|error| unreadable.push(error.prefix_pointer(at)))
                .ok();
            Some(ConditionNode::Test(variable?, test?))
        }
    }
}

/// Whether a rule can have a field of this name.
pub(super) fn is_rule_field(name: &str) -> bool {
    let types = [
        "Null",
        "Present",
        "Numeric",
        "String",
        "Boolean",
        "Timestamp",
    ];
    let is_type = |name: &str| {
        name.strip_prefix("Is")
            .is_some_and(|of| types.contains(&of))
    };
    let others = ["Variable", "And", "Or", "Not", "StringMatches"];
    others.contains(&name) || is_type(name) || parse_comparison(name).is_some()
}

/// Whether a field is a condition, known or unknown.
fn is_operator(name: &str) -> bool {
    !matches!(name, "Variable" | "Comment") && !BESIDE_AT_TOP.contains(&name)
}

fn read_combination(
    name: &str,
    value: &Value,
    at: &str,
    depth: usize,
    unreadable: &mut Vec<SyntaxError>,
) -> Option<ConditionNode> {
    let rules = match value {
        Value::Array(rules) if !rules.is_empty() => rules,
        _ => {
            let reason = format!("'{name}' must be a list of at least one rule");
            unreadable.push(SyntaxError::new(reason).prefix_pointer(at));
            return None;
        }
    };
    let read: Vec<Option<ConditionNode>> = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| read_node(rule, &pointer_to(at, index), depth + 1, unreadable))
        .collect();
    let read: Vec<ConditionNode> = read.into_iter().collect::<Option<_>>()?;
    Some(match name {
        "And" => ConditionNode::And(read),
        _ => ConditionNode::Or(read),
    })
}

fn read_variable(fields: &Map<String, Value>) -> Result<Path, SyntaxError> {
    match fields.get("Variable") {
        Some(Value::String(text)) => {
            Path::parse(text).map_err(|error| error.prefix_pointer("/Variable"))
        }
        Some(_) => Err(SyntaxError::new("'Variable' must be a path").prefix_pointer("/Variable")),
        None => Err(SyntaxError::new(
            "the comparison needs a 'Variable': the path of the value to compare",
        )),
    }
}

/// Reads a test by the name of its field.
fn read_test(name: &str, value: &Value) -> Result<ValueTest, SyntaxError> {
    let expected = |make: fn(bool) -> ValueTest| match value {
        Value::Bool(expected) => Ok(make(*expected)),
        _ => Err(SyntaxError::new(format!("'{name}' is true or false"))),
    };
    match name {
        "IsPresent" => return expected(ValueTest::IsPresent),
        "IsNull" => return expected(|is| ValueTest::Is(ValueType::Null, is)),
        "IsNumeric" => return expected(|is| ValueTest::Is(ValueType::Numeric, is)),
        "IsString" => return expected(|is| ValueTest::Is(ValueType::String, is)),
        "IsBoolean" => return expected(|is| ValueTest::Is(ValueType::Boolean, is)),
        "IsTimestamp" => return expected(|is| ValueTest::Is(ValueType::Timestamp, is)),
        "StringMatches" => {
            return match value {
                Value::String(pattern) => Ok(ValueTest::Matches(WildcardPattern::parse(pattern))),
                _ => Err(SyntaxError::new(
                    "'StringMatches' must be a string; * matches anything",
                )),
            };
        }
        _ => {}
    }
    let Some((kind, relation, by_path)) = parse_comparison(name) else {
        return Err(unknown_comparison(name));
    };
    if by_path {
        return match value {
            Value::String(text) => Ok(ValueTest::Compare(
                kind,
                relation,
                ComparisonOperand::Path(Path::parse(text)?),
            )),
            _ => Err(SyntaxError::new(format!("'{name}' must be a path"))),
        };
    }
    let (fits, wanted) = match kind {
        ComparisonKind::String => (value.is_string(), "a string"),
        ComparisonKind::Numeric => (value.is_number(), "a number"),
        ComparisonKind::Boolean => (value.is_boolean(), "true or false"),
        ComparisonKind::Timestamp => (
            value.as_str().and_then(parse_timestamp).is_some(),
            "a timestamp such as 2016-03-14T01:59:00Z",
        ),
    };
    if !fits {
        return Err(SyntaxError::new(format!("'{name}' must be {wanted}")));
    }
    Ok(ValueTest::Compare(
        kind,
        relation,
        ComparisonOperand::Literal(value.clone()),
    ))
}

/// `NumericLessThanPath`: the kind, the relation, and whether a path follows.
fn parse_comparison(name: &str) -> Option<(ComparisonKind, Relation, bool)> {
    let kinds = [
        ("String", ComparisonKind::String),
        ("Numeric", ComparisonKind::Numeric),
        ("Boolean", ComparisonKind::Boolean),
        ("Timestamp", ComparisonKind::Timestamp),
    ];
    let (kind, rest) = kinds
        .into_iter()
        .find_map(|(prefix, kind)| Some((kind, name.strip_prefix(prefix)?)))?;
    let (rest, by_path) = match rest.strip_suffix("Path") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let relation = match rest {
        "Equals" => Relation::Equals,
        // Booleans only have Equals.
        _ if kind == ComparisonKind::Boolean => return None,
        "LessThan" => Relation::LessThan,
        "GreaterThan" => Relation::GreaterThan,
        "LessThanEquals" => Relation::LessThanEquals,
        "GreaterThanEquals" => Relation::GreaterThanEquals,
        _ => return None,
    };
    Some((kind, relation, by_path))
}

fn unknown_comparison(name: &str) -> SyntaxError {
    if name == "Condition" {
        return SyntaxError::new(
            "'Condition' is for choices in JSONata, and this one is in JSONPath",
        );
    }
    let mut known = vec![
        "And",
        "Or",
        "Not",
        "StringMatches",
        "BooleanEquals",
        "BooleanEqualsPath",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    for kind in ["String", "Numeric", "Timestamp"] {
        for relation in [
            "Equals",
            "LessThan",
            "GreaterThan",
            "LessThanEquals",
            "GreaterThanEquals",
        ] {
            known.push(format!("{kind}{relation}"));
            known.push(format!("{kind}{relation}Path"));
        }
    }
    for kind in [
        "Null",
        "Present",
        "Numeric",
        "String",
        "Boolean",
        "Timestamp",
    ] {
        known.push(format!("Is{kind}"));
    }
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .min()
        .filter(|(distance, _)| *distance <= 4);
    let hint = match nearest {
        Some((_, known)) => format!("; did you mean {known}?"),
        None => String::new(),
    };
    SyntaxError::new(format!("there is no comparison '{name}'{hint}"))
}
