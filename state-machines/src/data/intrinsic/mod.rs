//! Intrinsic functions: `States.Format('{} of {}', $.a, States.ArrayLength($.b))`.
//!
//! A call is read once into a tree. Its arguments are literals, paths and
//! other calls. What a function refuses is a `States.IntrinsicFailure`.

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

use super::chance::Chance;
use super::path::Path;
use super::{Fault, Scope, Unreadable, errors, shown};

/// A call that has been read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    function: Function,
    arguments: Vec<Argument>,
}

/// An argument of a call.
#[derive(Debug, Clone, PartialEq)]
enum Argument {
    Literal(Value),
    /// What the first argument of `States.Format` is split into when it is a
    /// literal: there `\{\}` is text and `{}` a gap.
    Format(Vec<texts::Piece>),
    Path(Path),
    Call(Call),
}

/// The functions, by their names behind `States.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
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

/// Name, function, and how many arguments it takes.
const FUNCTIONS: [(&str, Function, usize, usize); 18] = [
    ("Array", Function::Array, 0, usize::MAX),
    ("ArrayContains", Function::ArrayContains, 2, 2),
    ("ArrayGetItem", Function::ArrayGetItem, 2, 2),
    ("ArrayLength", Function::ArrayLength, 1, 1),
    ("ArrayPartition", Function::ArrayPartition, 2, 2),
    ("ArrayRange", Function::ArrayRange, 3, 3),
    ("ArrayUnique", Function::ArrayUnique, 1, 1),
    ("Base64Decode", Function::Base64Decode, 1, 1),
    ("Base64Encode", Function::Base64Encode, 1, 1),
    ("Format", Function::Format, 1, usize::MAX),
    ("Hash", Function::Hash, 2, 2),
    ("JsonMerge", Function::JsonMerge, 3, 3),
    ("JsonToString", Function::JsonToString, 1, 1),
    ("MathAdd", Function::MathAdd, 2, 2),
    ("MathRandom", Function::MathRandom, 2, 3),
    ("StringSplit", Function::StringSplit, 2, 2),
    ("StringToJson", Function::StringToJson, 1, 1),
    ("UUID", Function::Uuid, 0, 0),
];

impl Call {
    /// Reads a call.
    pub(super) fn parse(text: &str) -> Result<Self, Unreadable> {
        parse::call(text)
    }

    /// What it returns.
    pub(super) fn evaluate(&self, scope: &Scope<'_>, chance: &Chance) -> Result<Value, Fault> {
        if let (Function::Format, Some(Argument::Format(pieces))) =
            (self.function, self.arguments.first())
        {
            let values = values(&self.arguments[1..], scope, chance)?;
            return texts::format(pieces, &values);
        }
        let values = values(&self.arguments, scope, chance)?;
        let given: Vec<&Value> = values.iter().map(AsRef::as_ref).collect();
        match (self.function, given.as_slice()) {
            (Function::Array, items) => Ok(items.iter().map(|item| (*item).clone()).collect()),
            (Function::ArrayContains, [array, item]) => arrays::contains(array, item),
            (Function::ArrayGetItem, [array, index]) => arrays::get_item(array, index),
            (Function::ArrayLength, [array]) => arrays::length(array),
            (Function::ArrayPartition, [array, size]) => partition(array, size),
            (Function::ArrayRange, [from, to, step]) => range(from, to, step),
            (Function::ArrayUnique, [array]) => arrays::unique(array),
            (Function::Base64Decode, [text]) => codes::base64_decode(text),
            (Function::Base64Encode, [text]) => codes::base64_encode(text),
            (Function::Format, [template, rest @ ..]) => texts::format_from(template, rest),
            (Function::Hash, [data, algorithm]) => hash(data, algorithm),
            (Function::JsonMerge, [one, two, deep]) => texts::json_merge(one, two, deep),
            (Function::JsonToString, [value]) => Ok(Value::String(value.to_string())),
            (Function::MathAdd, [one, two]) => numbers::add(one, two),
            (Function::MathRandom, [from, to]) => numbers::random(from, to, chance),
            (Function::MathRandom, [from, to, seed]) => numbers::random_seeded(from, to, seed),
            (Function::StringSplit, [text, splitter]) => texts::split(text, splitter),
            (Function::StringToJson, [text]) => texts::string_to_json(text),
            (Function::Uuid, []) => Ok(Value::String(chance.uuid())),
            // The count was checked when the call was read.
            (function, given) => Err(failure(format!(
                "States.{function:?} cannot take {} arguments",
                given.len()
            ))),
        }
    }

    /// The variables that it reads.
    pub(super) fn variables<'c>(&'c self, into: &mut Vec<&'c str>) {
        for argument in &self.arguments {
            match argument {
                Argument::Path(path) => into.extend(path.variables()),
                Argument::Call(call) => call.variables(into),
                Argument::Literal(_) | Argument::Format(_) => {}
            }
        }
    }
}

fn values<'a>(
    arguments: &'a [Argument],
    scope: &Scope<'a>,
    chance: &Chance,
) -> Result<Vec<Cow<'a, Value>>, Fault> {
    arguments
        .iter()
        .map(|argument| match argument {
            Argument::Literal(value) => Ok(Cow::Borrowed(value)),
            Argument::Format(_) => Ok(Cow::Owned(Value::Null)),
            Argument::Path(path) => path
                .find_with(scope, chance)
                .map_err(|fault| fault.named(errors::INTRINSIC_FAILURE)),
            Argument::Call(call) => call.evaluate(scope, chance).map(Cow::Owned),
        })
        .collect()
}

/// The fault of a function that refuses its arguments.
fn failure(cause: impl Into<String>) -> Fault {
    Fault::new(errors::INTRINSIC_FAILURE, cause)
}

fn array_of<'v>(function: &str, value: &'v Value) -> Result<&'v Vec<Value>, Fault> {
    value
        .as_array()
        .ok_or_else(|| failure(format!("{function} needs an array, not {}", shown(value))))
}

fn text_of<'v>(function: &str, value: &'v Value) -> Result<&'v str, Fault> {
    value
        .as_str()
        .ok_or_else(|| failure(format!("{function} needs a text, not {}", shown(value))))
}

/// An integer; other numbers are rounded.
fn integer_of(function: &str, value: &Value) -> Result<i64, Fault> {
    match value {
        Value::Number(number) => super::number::rounded(number),
        _ => None,
    }
    .ok_or_else(|| failure(format!("{function} needs an integer, not {}", shown(value))))
}
