//! Comparisons of one value.

use std::cmp::Ordering;

use serde_json::Value;

use super::matches::WildcardPattern;
use super::missing_value_fault;
use crate::data::{EvaluationFault, EvaluationScope, Path, number, parse_timestamp};

/// A test of one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ValueTest {
    Compare(ComparisonKind, Relation, ComparisonOperand),
    Matches(WildcardPattern),
    Is(ValueType, bool),
    IsPresent(bool),
}

/// The type of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparisonKind {
    String,
    Numeric,
    Boolean,
    Timestamp,
}

/// The relation of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equals,
    LessThan,
    GreaterThan,
    LessThanEquals,
    GreaterThanEquals,
}

/// The right side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ComparisonOperand {
    Literal(Value),
    Path(Path),
}

/// The type that an `Is…` test checks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    Null,
    Numeric,
    String,
    Boolean,
    Timestamp,
}

impl ValueTest {
    /// Whether a value that is present passes the test.
    pub(super) fn passes(
        &self,
        value: &Value,
        scope: &EvaluationScope<'_>,
    ) -> Result<bool, EvaluationFault> {
        Ok(match self {
            Self::Compare(kind, relation, ComparisonOperand::Literal(other)) => {
                relation.holds(kind.compare(value, other))
            }
            Self::Compare(kind, relation, ComparisonOperand::Path(path)) => {
                match path.find_if_present(scope)? {
                    Some(other) => relation.holds(kind.compare(value, &other)),
                    None => return Err(missing_value_fault(path)),
                }
            }
            Self::Matches(pattern) => value.as_str().is_some_and(|text| pattern.matches(text)),
            Self::Is(kind, expected) => kind.matches(value) == *expected,
            Self::IsPresent(expected) => *expected,
        })
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Compare(_, _, ComparisonOperand::Path(path)) => Some(path),
            _ => None,
        }
    }
}

impl ComparisonKind {
    /// Compares two values; `None` if one of them has another type.
    fn compare(self, left: &Value, right: &Value) -> Option<Ordering> {
        match (self, left, right) {
            (Self::String, Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Self::Numeric, Value::Number(left), Value::Number(right)) => {
                number::compare(left, right)
            }
            (Self::Boolean, Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (Self::Timestamp, Value::String(left), Value::String(right)) => {
                Some(parse_timestamp(left)?.cmp(&parse_timestamp(right)?))
            }
            _ => None,
        }
    }
}

impl Relation {
    fn holds(self, ordering: Option<Ordering>) -> bool {
        ordering.is_some_and(|ordering| match self {
            Self::Equals => ordering.is_eq(),
            Self::LessThan => ordering.is_lt(),
            Self::GreaterThan => ordering.is_gt(),
            Self::LessThanEquals => ordering.is_le(),
            Self::GreaterThanEquals => ordering.is_ge(),
        })
    }
}

impl ValueType {
    fn matches(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Numeric => value.is_number(),
            Self::String => value.is_string(),
            Self::Boolean => value.is_boolean(),
            Self::Timestamp => value.as_str().and_then(parse_timestamp).is_some(),
        }
    }
}
