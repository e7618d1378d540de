//! Choice rules, read and checked.

use serde_json::{Map, Value};

use super::Rule;
use super::compare::{Kind, Operand, Relation, Test, Type};
use super::matches::Pattern;
use crate::data::{Path, Unreadable, parse_timestamp, pointer_to};

/// How deep `And`, `Or` and `Not` may nest.
const DEPTH_MAX: usize = 64;

/// What may stand beside a rule at the top, and not inside it.
const BESIDE_AT_TOP: [&str; 3] = ["Next", "Assign", "Output"];

pub(super) fn rule(rule: &Value) -> Result<Rule, Vec<Unreadable>> {
    let mut unreadable = Vec::new();
    let read = read(rule, "", 0, &mut unreadable);
    match read {
        Some(rule) if unreadable.is_empty() => Ok(rule),
        _ => Err(unreadable),
    }
}

/// Reads a rule, or says what is wrong with it and returns nothing.
fn read(rule: &Value, at: &str, depth: usize, unreadable: &mut Vec<Unreadable>) -> Option<Rule> {
    let mut wrong = |at: &str, reason: String| {
        unreadable.push(Unreadable::new(reason).at(at));
        None
    };
    let Value::Object(fields) = rule else {
        return wrong(at, "a choice rule is an object".to_owned());
    };
    if depth > DEPTH_MAX {
        return wrong(
            at,
            format!("choice rules nest deeper than {DEPTH_MAX} levels"),
        );
    }
    let asked: Vec<&String> = fields.keys().filter(|name| is_asking(name)).collect();
    for name in fields.keys() {
        if depth > 0 && BESIDE_AT_TOP.contains(&name.as_str()) {
            wrong(
                &pointer_to(at, name),
                format!("'{name}' belongs to the whole rule, not inside it"),
            );
        }
    }
    let name = match asked.as_slice() {
        [name] => name.as_str(),
        [] => return wrong(
            at,
            "the rule asks nothing: it needs a comparison such as StringEquals, or And, Or, Not"
                .to_owned(),
        ),
        [first, second, ..] => {
            return wrong(
                at,
                format!(
                    "the rule asks both '{first}' and '{second}': it may ask one thing; And and Or combine several"
                ),
            );
        }
    };
    let here = pointer_to(at, name);
    let value = &fields[name];
    match name {
        "And" | "Or" => several(name, value, &here, depth, unreadable),
        "Not" => Some(Rule::Not(Box::new(read(
            value,
            &here,
            depth + 1,
            unreadable,
        )?))),
        _ => {
            let test = test(name, value)
                .map_err(|error| unreadable.push(error.at(&here)))
                .ok();
            let variable = variable(fields)
                .map_err(|error| unreadable.push(error.at(at)))
                .ok();
            Some(Rule::Test(variable?, test?))
        }
    }
}

/// Whether a rule has a field of this name.
pub(super) fn is_known(name: &str) -> bool {
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
    let beside = ["Variable", "And", "Or", "Not", "StringMatches"];
    beside.contains(&name) || is_type(name) || comparison(name).is_some()
}

/// Whether a field is a question, known or not.
fn is_asking(name: &str) -> bool {
    !matches!(name, "Variable" | "Comment") && !BESIDE_AT_TOP.contains(&name)
}

fn several(
    name: &str,
    value: &Value,
    at: &str,
    depth: usize,
    unreadable: &mut Vec<Unreadable>,
) -> Option<Rule> {
    let rules = match value {
        Value::Array(rules) if !rules.is_empty() => rules,
        _ => {
            let reason = format!("'{name}' is a list with at least one rule in it");
            unreadable.push(Unreadable::new(reason).at(at));
            return None;
        }
    };
    let read: Vec<Option<Rule>> = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| read(rule, &pointer_to(at, index), depth + 1, unreadable))
        .collect();
    let read: Vec<Rule> = read.into_iter().collect::<Option<_>>()?;
    Some(match name {
        "And" => Rule::And(read),
        _ => Rule::Or(read),
    })
}

fn variable(fields: &Map<String, Value>) -> Result<Path, Unreadable> {
    match fields.get("Variable") {
        Some(Value::String(text)) => Path::parse(text).map_err(|error| error.at("/Variable")),
        Some(_) => Err(Unreadable::new("'Variable' is a path, in a text").at("/Variable")),
        None => Err(Unreadable::new(
            "the comparison needs a 'Variable': the path of what is compared",
        )),
    }
}

/// Reads a comparison by its name.
fn test(name: &str, value: &Value) -> Result<Test, Unreadable> {
    let expected = |make: fn(bool) -> Test| match value {
        Value::Bool(expected) => Ok(make(*expected)),
        _ => Err(Unreadable::new(format!("'{name}' is true or false"))),
    };
    match name {
        "IsPresent" => return expected(Test::IsPresent),
        "IsNull" => return expected(|is| Test::Is(Type::Null, is)),
        "IsNumeric" => return expected(|is| Test::Is(Type::Numeric, is)),
        "IsString" => return expected(|is| Test::Is(Type::String, is)),
        "IsBoolean" => return expected(|is| Test::Is(Type::Boolean, is)),
        "IsTimestamp" => return expected(|is| Test::Is(Type::Timestamp, is)),
        "StringMatches" => {
            return match value {
                Value::String(pattern) => Ok(Test::Matches(Pattern::parse(pattern))),
                _ => Err(Unreadable::new(
                    "'StringMatches' is a text, in which * stands for anything",
                )),
            };
        }
        _ => {}
    }
    let Some((kind, relation, by_path)) = comparison(name) else {
        return Err(unknown(name));
    };
    if by_path {
        return match value {
            Value::String(text) => Ok(Test::Compare(
                kind,
                relation,
                Operand::Path(Path::parse(text)?),
            )),
            _ => Err(Unreadable::new(format!("'{name}' is a path, in a text"))),
        };
    }
    let (fits, wanted) = match kind {
        Kind::String => (value.is_string(), "a text"),
        Kind::Numeric => (value.is_number(), "a number"),
        Kind::Boolean => (value.is_boolean(), "true or false"),
        Kind::Timestamp => (
            value.as_str().and_then(parse_timestamp).is_some(),
            "a timestamp such as 2016-03-14T01:59:00Z",
        ),
    };
    if !fits {
        return Err(Unreadable::new(format!("'{name}' is {wanted}")));
    }
    Ok(Test::Compare(
        kind,
        relation,
        Operand::Literal(value.clone()),
    ))
}

/// `NumericLessThanPath`: the kind, the relation, and whether a path follows.
fn comparison(name: &str) -> Option<(Kind, Relation, bool)> {
    let kinds = [
        ("String", Kind::String),
        ("Numeric", Kind::Numeric),
        ("Boolean", Kind::Boolean),
        ("Timestamp", Kind::Timestamp),
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
        // Booleans are equal or not, and that is all.
        _ if kind == Kind::Boolean => return None,
        "LessThan" => Relation::LessThan,
        "GreaterThan" => Relation::GreaterThan,
        "LessThanEquals" => Relation::LessThanEquals,
        "GreaterThanEquals" => Relation::GreaterThanEquals,
        _ => return None,
    };
    Some((kind, relation, by_path))
}

fn unknown(name: &str) -> Unreadable {
    if name == "Condition" {
        return Unreadable::new(
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
    Unreadable::new(format!("there is no comparison '{name}'{hint}"))
}
