//! Filters: the tests between `[?(` and `)]`.

use std::borrow::Cow;
use std::cmp::Ordering;

use regex::Regex;
use serde_json::Value;

use super::find::PathResult;
use super::parse;
use super::query::PathQuery;
use crate::data::cursor::Cursor;
use crate::data::{EvaluationFault, EvaluationScope, SyntaxError, number};

/// The maximum nesting of filters: parentheses, and paths within filters.
const DEPTH_MAX: usize = 16;

/// A test of one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Filter {
    Any(Vec<Filter>),
    All(Vec<Filter>),
    Not(Box<Filter>),
    Exists(PathQuery),
    Compare(FilterOperand, FilterOperator, FilterOperand),
    Matches(FilterOperand, RegexPattern),
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FilterOperand {
    Query(PathQuery),
    Literal(Value),
}

/// A regular expression; compared by its source.
#[derive(Debug, Clone)]
pub(super) struct RegexPattern(Regex);

impl PartialEq for RegexPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// The operator of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
    SubsetOf,
    AnyOf,
    NoneOf,
    AllOf,
    Contains,
    Size,
    Empty,
}

/// In matching order: `<=` before `<`.
const SIGNS: [(&str, FilterOperator); 8] = [
    ("===", FilterOperator::Equal),
    ("!==", FilterOperator::NotEqual),
    ("==", FilterOperator::Equal),
    ("!=", FilterOperator::NotEqual),
    ("<=", FilterOperator::LessOrEqual),
    (">=", FilterOperator::GreaterOrEqual),
    ("<", FilterOperator::Less),
    (">", FilterOperator::Greater),
];

const WORDS: [(&str, FilterOperator); 9] = [
    ("in", FilterOperator::In),
    ("nin", FilterOperator::NotIn),
    ("subsetof", FilterOperator::SubsetOf),
    ("anyof", FilterOperator::AnyOf),
    ("noneof", FilterOperator::NoneOf),
    ("all", FilterOperator::AllOf),
    ("contains", FilterOperator::Contains),
    ("size", FilterOperator::Size),
    ("empty", FilterOperator::Empty),
];

impl Filter {
    /// Parses a filter after `[?`, with or without parentheses.
    pub(super) fn read(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, SyntaxError> {
        if depth >= DEPTH_MAX {
            return Err(SyntaxError::new(format!(
                "filters are nested deeper than {DEPTH_MAX} levels"
            )));
        }
        let first = Self::all(cursor, depth)?;
        let mut tests = vec![first];
        while cursor.eat("||") {
            tests.push(Self::all(cursor, depth)?);
        }
        Ok(combine(tests, Self::Any))
    }

    fn all(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, SyntaxError> {
        let mut tests = vec![Self::one(cursor, depth)?];
        while cursor.eat("&&") {
            tests.push(Self::one(cursor, depth)?);
        }
        Ok(combine(tests, Self::All))
    }

    fn one(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, SyntaxError> {
        cursor.skip_blanks();
        let mut negations = 0_usize;
        while cursor.eat("!") {
            negations += 1;
            cursor.skip_blanks();
        }
        let test = if cursor.eat("(") {
            let test = Self::read(cursor, depth + 1)?;
            cursor.expect(")")?;
            test
        } else {
            Self::comparison(cursor, depth)?
        };
        cursor.skip_blanks();
        Ok(if negations % 2 == 1 {
            Self::Not(Box::new(test))
        } else {
            test
        })
    }

    fn comparison(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, SyntaxError> {
        let before = cursor.clone();
        let left = FilterOperand::read(cursor, depth)?;
        cursor.skip_blanks();
        if cursor.eat("=~") {
            cursor.skip_blanks();
            return Ok(Self::Matches(left, RegexPattern::read(cursor)?));
        }
        if let Some(operator) = FilterOperator::read(cursor) {
            cursor.skip_blanks();
            let right = FilterOperand::read(cursor, depth)?;
            return Ok(Self::Compare(left, operator, right));
        }
        match left {
            FilterOperand::Query(query) => Ok(Self::Exists(query)),
            FilterOperand::Literal(_) => Err(before.unexpected("a comparison, or a path alone")),
        }
    }

    /// Whether the value passes.
    pub(super) fn accepts(
        &self,
        scope: &EvaluationScope<'_>,
        value: &Value,
    ) -> Result<bool, EvaluationFault> {
        Ok(match self {
            Self::Any(tests) => {
                for test in tests {
                    if test.accepts(scope, value)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::All(tests) => {
                for test in tests {
                    if !test.accepts(scope, value)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Not(test) => !test.accepts(scope, value)?,
            Self::Exists(query) => match query.find(scope, Some(value))? {
                PathResult::One(found) => found.is_some(),
                PathResult::Many(found) => !found.is_empty(),
            },
            Self::Compare(left, operator, right) => {
                let left = left.value(scope, value)?;
                let right = right.value(scope, value)?;
                operator.holds(left.as_deref(), right.as_deref())
            }
            Self::Matches(operand, pattern) => match operand.value(scope, value)?.as_deref() {
                Some(Value::String(text)) => pattern.0.is_match(text),
                _ => false,
            },
        })
    }

    pub(super) fn variables<'q>(&'q self, into: &mut Vec<&'q str>) {
        match self {
            Self::Any(tests) | Self::All(tests) => {
                tests.iter().for_each(|test| test.variables(into));
            }
            Self::Not(test) => test.variables(into),
            Self::Exists(query) => query.variables(into),
            Self::Compare(left, _, right) => {
                left.variables(into);
                right.variables(into);
            }
            Self::Matches(operand, _) => operand.variables(into),
        }
    }
}

fn combine(mut tests: Vec<Filter>, several: impl FnOnce(Vec<Filter>) -> Filter) -> Filter {
    match tests.pop() {
        Some(test) if tests.is_empty() => test,
        last => {
            tests.extend(last);
            several(tests)
        }
    }
}

impl FilterOperand {
    fn read(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, SyntaxError> {
        Ok(match cursor.peek() {
            Some('@' | '$') => Self::Query(parse::parse_query(cursor, depth + 1)?),
            Some(quote @ ('\'' | '"')) => {
                let text = parse::unescape(cursor.quoted(quote)?, quote)?;
                Self::Literal(Value::String(text))
            }
            Some('-' | '0'..='9') => Self::Literal(Value::Number(cursor.number()?)),
            Some('[') => Self::Literal(Self::list(cursor, depth)?),
            _ if cursor.eat("true") => Self::Literal(Value::Bool(true)),
            _ if cursor.eat("false") => Self::Literal(Value::Bool(false)),
            _ if cursor.eat("null") => Self::Literal(Value::Null),
            _ => {
                return Err(cursor.unexpected(
                    "a path, a string in quotes, a number, a list, true, false or null",
                ));
            }
        })
    }

    fn list(cursor: &mut Cursor<'_>, depth: usize) -> Result<Value, SyntaxError> {
        if depth >= DEPTH_MAX {
            return Err(cursor.unexpected("a list with less nesting"));
        }
        cursor.expect("[")?;
        let mut items = Vec::new();
        loop {
            cursor.skip_blanks();
            if cursor.eat("]") {
                return Ok(Value::Array(items));
            }
            match Self::read(cursor, depth + 1)? {
                Self::Literal(item) => items.push(item),
                Self::Query(_) => return Err(cursor.unexpected("a list without paths")),
            }
            cursor.skip_blanks();
            if !cursor.eat(",") && cursor.peek() != Some(']') {
                return Err(cursor.unexpected("',' or ']'"));
            }
        }
    }

    fn value<'a>(
        &'a self,
        scope: &EvaluationScope<'a>,
        current: &'a Value,
    ) -> Result<Option<Cow<'a, Value>>, EvaluationFault> {
        match self {
            Self::Literal(value) => Ok(Some(Cow::Borrowed(value))),
            Self::Query(query) => Ok(query.find(scope, Some(current))?.value()),
        }
    }

    fn variables<'q>(&'q self, into: &mut Vec<&'q str>) {
        if let Self::Query(query) = self {
            query.variables(into);
        }
    }
}

impl RegexPattern {
    /// `/…/`, optionally with the flag `i`. It must match the whole string.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let before = cursor.clone();
        let pattern = cursor.quoted('/')?.replace("\\/", "/");
        let flags = if cursor.eat("i") { "(?i)" } else { "" };
        Regex::new(&format!("{flags}^(?:{pattern})$"))
            .map(Self)
            .map_err(|_| before.unexpected("a regular expression"))
    }
}

impl FilterOperator {
    /// Reads an operator if one comes next. Words are case-insensitive.
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        if let Some((_, operator)) = SIGNS.into_iter().find(|(sign, _)| cursor.eat(sign)) {
            return Some(operator);
        }
        let mut behind = cursor.clone();
        let word = behind.take_while(|c| c.is_ascii_alphabetic());
        let (_, operator) = WORDS
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(word))?;
        *cursor = behind;
        Some(operator)
    }

    /// A missing value equals nothing, not even another missing value.
    fn holds(self, left: Option<&Value>, right: Option<&Value>) -> bool {
        let (Some(left), Some(right)) = (left, right) else {
            return matches!(self, Self::NotEqual | Self::NotIn);
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        match self {
            Self::Equal => values_equal(left, right),
            Self::NotEqual => !values_equal(left, right),
            Self::Less => compare_values(left, right) == Some(Ordering::Less),
            Self::LessOrEqual => compare_values(left, right).is_some_and(Ordering::is_le),
            Self::Greater => compare_values(left, right) == Some(Ordering::Greater),
            Self::GreaterOrEqual => compare_values(left, right).is_some_and(Ordering::is_ge),
            Self::In => contains_item(left, right),
            Self::NotIn => !contains_item(left, right),
            Self::SubsetOf => list(left).iter().all(|item| contains_item(item, right)),
            Self::AnyOf => list(left).iter().any(|item| contains_item(item, right)),
            Self::NoneOf => !list(left).iter().any(|item| contains_item(item, right)),
            Self::AllOf => list(right).iter().all(|item| contains_item(item, left)),
            Self::Contains => match (left, right) {
                (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                _ => contains_item(right, left),
            },
            Self::Size => length(left).is_some() && length(left) == right.as_u64(),
            Self::Empty => length(left).is_some_and(|l| right.as_bool() == Some(l == 0)),
        }
    }
}

fn length(value: &Value) -> Option<u64> {
    match value {
        Value::Array(items) => Some(items.len() as u64),
        Value::String(text) => Some(text.chars().count() as u64),
        _ => None,
    }
}

fn contains_item(item: &Value, list: &Value) -> bool {
    list.as_array()
        .is_some_and(|items| items.iter().any(|other| values_equal(item, other)))
}

/// Equality by value; as in Jayway, a number equals a string with the same text.
fn values_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            number::compare(left, right) == Some(Ordering::Equal)
        }
        (Value::Number(number), Value::String(text))
        | (Value::String(text), Value::Number(number)) => *text == number.to_string(),
        _ => left == right,
    }
}

fn compare_values(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number::compare(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}
