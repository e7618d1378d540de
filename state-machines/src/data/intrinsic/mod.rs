//! Intrinsic functions: `States.Format('{} of {}', $.a, States.ArrayLength($.b))`.
//!
//! A call is parsed once into a tree. Its arguments are literals, paths and other
//! calls. Invalid arguments are a `States.IntrinsicFailure`.

mod arrays;
mod codes;
mod numbers;
mod parse;
#[cfg(test)]
mod tests;
mod texts;

pub(super) use arrays::{partition, range};
pub(super) use codes::hash;

use std::borrow::Cow;

use serde_json::Value;

use super::path::Path;
use super::random::SeededRandom;
use super::{EvaluationFault, EvaluationScope, SyntaxError, errors, shorten_json};

/// A parsed call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct IntrinsicCall {
    function: IntrinsicFunction,
    arguments: Vec<CallArgument>,
}

/// An argument of a call.
#[derive(Debug, Clone, PartialEq)]
enum CallArgument {
    Literal(Value),
    /// The first argument of `States.Format` if it is a literal: `\{\}` is text and `{}`
    /// is a placeholder.
    Format(Vec<texts::FormatPiece>),
    Path(Path),
    Call(IntrinsicCall),
}

/// The functions, by their names after `States.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IntrinsicFunction {
    Array,
    ArrayContains,
    ArrayGetItem,
    ArrayLength,
    ArrayPartition,
    ArrayRange,
    ArrayUnique,
    Base64Decode,
    Base64Encode,
    Format,
    Hash,
    JsonMerge,
    JsonToString,
    MathAdd,
    MathRandom,
    StringSplit,
    StringToJson,
    Uuid,
}

/// Name, function, and minimum and maximum number of arguments.
const FUNCTIONS: [(&str, IntrinsicFunction, usize, usize); 18] = [
    ("Array", IntrinsicFunction::Array, 0, usize::MAX),
    ("ArrayContains", IntrinsicFunction::ArrayContains, 2, 2),
    ("ArrayGetItem", IntrinsicFunction::ArrayGetItem, 2, 2),
    ("ArrayLength", IntrinsicFunction::ArrayLength, 1, 1),
    ("ArrayPartition", IntrinsicFunction::ArrayPartition, 2, 2),
    ("ArrayRange", IntrinsicFunction::ArrayRange, 3, 3),
    ("ArrayUnique", IntrinsicFunction::ArrayUnique, 1, 1),
    ("Base64Decode", IntrinsicFunction::Base64Decode, 1, 1),
    ("Base64Encode", IntrinsicFunction::Base64Encode, 1, 1),
    ("Format", IntrinsicFunction::Format, 1, usize::MAX),
    ("Hash", IntrinsicFunction::Hash, 2, 2),
    ("JsonMerge", IntrinsicFunction::JsonMerge, 3, 3),
    ("JsonToString", IntrinsicFunction::JsonToString, 1, 1),
    ("MathAdd", IntrinsicFunction::MathAdd, 2, 2),
    ("MathRandom", IntrinsicFunction::MathRandom, 2, 3),
    ("StringSplit", IntrinsicFunction::StringSplit, 2, 2),
    ("StringToJson", IntrinsicFunction::StringToJson, 1, 1),
    ("UUID", IntrinsicFunction::Uuid, 0, 0),
];

impl IntrinsicCall {
    /// Parses a call.
    pub(super) fn parse(text: &str) -> Result<Self, SyntaxError> {
        parse::parse_call(text)
    }

    /// Evaluates the call.
    pub(super) fn evaluate(
        &self,
        scope: &EvaluationScope<'_>,
        chance: &SeededRandom,
    ) -> Result<Value, EvaluationFault> {
        if let (IntrinsicFunction::Format, Some(CallArgument::Format(pieces))) =
            (self.function, self.arguments.first())
        {
            let values = evaluate_arguments(&self.arguments[1..], scope, chance)?;
            return texts::format(pieces, &values);
        }
        let values = evaluate_arguments(&self.arguments, scope, chance)?;
        let given: Vec<&Value> = values.iter().map(AsRef::as_ref).collect();
        match (self.function, given.as_slice()) {
            (IntrinsicFunction::Array, items) => {
                Ok(items.iter().map(|item| (*item).clone()).collect())
            }
            (IntrinsicFunction::ArrayContains, [array, item]) => arrays::contains(array, item),
            (IntrinsicFunction::ArrayGetItem, [array, index]) => arrays::get_item(array, index),
            (IntrinsicFunction::ArrayLength, [array]) => arrays::length(array),
            (IntrinsicFunction::ArrayPartition, [array, size]) => partition(array, size),
            (IntrinsicFunction::ArrayRange, [from, to, step]) => range(from, to, step),
            (IntrinsicFunction::ArrayUnique, [array]) => arrays::unique(array),
            (IntrinsicFunction::Base64Decode, [text]) => codes::base64_decode(text),
            (IntrinsicFunction::Base64Encode, [text]) => codes::base64_encode(text),
            (IntrinsicFunction::Format, [template, rest @ ..]) => {
                texts::format_from(template, rest)
            }
            (IntrinsicFunction::Hash, [data, algorithm]) => hash(data, algorithm),
            (IntrinsicFunction::JsonMerge, [one, two, deep]) => texts::json_merge(one, two, deep),
            (IntrinsicFunction::JsonToString, [value]) => Ok(Value::String(value.to_string())),
            (IntrinsicFunction::MathAdd, [one, two]) => numbers::add(one, two),
            (IntrinsicFunction::MathRandom, [from, to]) => numbers::random(from, to, chance),
            (IntrinsicFunction::MathRandom, [from, to, seed]) => {
                numbers::random_seeded(from, to, seed)
            }
            (IntrinsicFunction::StringSplit, [text, splitter]) => texts::split(text, splitter),
            (IntrinsicFunction::StringToJson, [text]) => texts::string_to_json(text),
            (IntrinsicFunction::Uuid, []) => Ok(Value::String(chance.next_uuid())),
            // The parser has checked the number of arguments.
            (function, given) => Err(intrinsic_fault(format!(
                "States.{function:?} cannot take {} arguments",
                given.len()
            ))),
        }
    }

    /// The variables that it reads.
    pub(super) fn variables<'c>(&'c self, into: &mut Vec<&'c str>) {
        for argument in &self.arguments {
            match argument {
                CallArgument::Path(path) => into.extend(path.variables()),
                CallArgument::Call(call) => call.variables(into),
                CallArgument::Literal(_) | CallArgument::Format(_) => {}
            }
        }
    }
}

fn evaluate_arguments<'a>(
    arguments: &'a [CallArgument],
    scope: &EvaluationScope<'a>,
    chance: &SeededRandom,
) -> Result<Vec<Cow<'a, Value>>, EvaluationFault> {
    arguments
        .iter()
        .map(|argument| match argument {
            CallArgument::Literal(value) => Ok(Cow::Borrowed(value)),
            CallArgument::Format(_) => Ok(Cow::Owned(Value::Null)),
            CallArgument::Path(path) => path
                .find_with(scope, chance)
                .map_err(|fault| fault.with_error(errors::INTRINSIC_FAILURE)),
            CallArgument::Call(call) => call.evaluate(scope, chance).map(Cow::Owned),
        })
        .collect()
}

/// The fault for invalid arguments.
fn intrinsic_fault(cause: impl Into<String>) -> EvaluationFault {
    EvaluationFault::new(errors::INTRINSIC_FAILURE, cause)
}

fn expect_array<'v>(function: &str, value: &'v Value) -> Result<&'v Vec<Value>, EvaluationFault> {
    value.as_array().ok_or_else(|| {
        intrinsic_fault(format!(
            "{function} needs an array, not {}",
            shorten_json(value)
        ))
    })
}

fn expect_text<'v>(function: &str, value: &'v Value) -> Result<&'v str, EvaluationFault> {
    value.as_str().ok_or_else(|| {
        intrinsic_fault(format!(
            "{function} needs a string, not {}",
            shorten_json(value)
        ))
    })
}

/// An integer; other numbers are rounded.
fn expect_integer(function: &str, value: &Value) -> Result<i64, EvaluationFault> {
    match value {
        Value::Number(number) => super::number::round_to_i64(number),
        _ => None,
    }
    .ok_or_else(|| {
        intrinsic_fault(format!(
            "{function} needs an integer, not {}",
            shorten_json(value)
        ))
    })
}
