//! `Format`, `StringSplit`, `StringToJson`, `JsonMerge`.

use serde_json::Value;

use super::{expect_text, intrinsic_fault};
use crate::data::{EvaluationFault, shorten_json};
use std::borrow::Cow;

/// A part of the format of `States.Format`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FormatPiece {
    Text(String),
    /// `{}`
    Gap,
}

/// Splits the content of a literal. A backslash escapes `'`, `{`, `}` and `\`; before
/// anything else it is literal.
pub(super) fn split_pieces(raw: &str) -> Vec<FormatPiece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some(plain @ ('\'' | '{' | '}' | '\\'))) => {
                text.push(*plain);
                rest.next();
            }
            ('{', Some('}')) => {
                rest.next();
                pieces.push(FormatPiece::Text(std::mem::take(&mut text)));
                pieces.push(FormatPiece::Gap);
            }
            _ => text.push(c),
        }
    }
    pieces.push(FormatPiece::Text(text));
    pieces
}

/// Fills the placeholders in order.
pub(super) fn format(
    pieces: &[FormatPiece],
    values: &[Cow<'_, Value>],
) -> Result<Value, EvaluationFault> {
    let gaps = pieces
        .iter()
        .filter(|piece| **piece == FormatPiece::Gap)
        .count();
    if gaps != values.len() {
        return Err(intrinsic_fault(format!(
            "States.Format has {gaps} placeholders and {} values",
            values.len()
        )));
    }
    let mut text = String::new();
    let mut values = values.iter();
    for piece in pieces {
        match piece {
            FormatPiece::Text(piece) => text.push_str(piece),
            FormatPiece::Gap => {
                if let Some(value) = values.next() {
                    write_plain(value, &mut text);
                }
            }
        }
    }
    Ok(Value::String(text))
}

/// The same with a format that comes from data, where backslashes are literal.
pub(super) fn format_from(template: &Value, values: &[&Value]) -> Result<Value, EvaluationFault> {
    let template = expect_text("States.Format", template)?;
    let mut pieces = Vec::new();
    for (at, text) in template.split("{}").enumerate() {
        if at > 0 {
            pieces.push(FormatPiece::Gap);
        }
        pieces.push(FormatPiece::Text(text.to_owned()));
    }
    let values: Vec<_> = values.iter().map(|value| Cow::Borrowed(*value)).collect();
    format(&pieces, &values)
}

/// Writes a value as Java prints it, as on AWS: strings without quotes, objects as
/// `{a=1, b=[]}`.
fn write_plain(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => into.push_str(text),
        Value::Array(items) => {
            into.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    into.push_str(", ");
                }
                write_plain(item, into);
            }
            into.push(']');
        }
        Value::Object(fields) => {
            into.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    into.push_str(", ");
                }
                into.push_str(name);
                into.push('=');
                write_plain(value, into);
            }
            into.push('}');
        }
        other => into.push_str(&other.to_string()),
    }
}

/// Splits at every character of the splitter, and drops empty parts.
pub(super) fn split(text: &Value, splitter: &Value) -> Result<Value, EvaluationFault> {
    let text = expect_text("States.StringSplit", text)?;
    let splitter = expect_text("States.StringSplit", splitter)?;
    Ok(text
        .split(|c| splitter.contains(c))
        .filter(|piece| !piece.is_empty())
        .map(|piece| Value::String(piece.to_owned()))
        .collect())
}

/// Parses JSON; blank text is `null`.
pub(super) fn string_to_json(text: &Value) -> Result<Value, EvaluationFault> {
    let text = expect_text("States.StringToJson", text)?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text)
        .map_err(|error| intrinsic_fault(format!("States.StringToJson needs valid JSON: {error}")))
}

/// Merges two objects; for common fields the second's value wins.
pub(super) fn json_merge(one: &Value, two: &Value, deep: &Value) -> Result<Value, EvaluationFault> {
    if *deep != Value::Bool(false) {
        return Err(intrinsic_fault(
            "States.JsonMerge only supports shallow merging: its third argument must be false",
        ));
    }
    let (Value::Object(one), Value::Object(two)) = (one, two) else {
        return Err(intrinsic_fault(format!(
            "States.JsonMerge needs two objects, not {} and {}",
            shorten_json(one),
            shorten_json(two)
        )));
    };
    let mut merged = one.clone();
    for (name, value) in two {
        merged.insert(name.clone(), value.clone());
    }
    Ok(Value::Object(merged))
}
