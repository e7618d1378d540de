//! Fields of plain types: strings, numbers, lists, objects.
//!
//! An absent field is `None` without a problem; use `require_field` to report it.

use serde_json::{Map, Value};

use super::DefinitionReader;
use super::suggest;
use crate::language::pointer::Pointer;
use crate::language::problem::ProblemCode;

/// A JSON object and its location.
#[derive(Debug, Clone)]
pub(super) struct JsonObject<'a> {
    pub(super) at: Pointer,
    pub(super) fields: &'a Map<String, Value>,
}

impl<'a> JsonObject<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// The location of a field.
    pub(super) fn pointer_to(&self, name: &str) -> Pointer {
        self.at.field(name)
    }
}

/// The JSON type of a value with its article, for messages.
pub(super) fn describe_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl DefinitionReader {
    /// Reports that a value has the wrong type.
    pub(super) fn report_wrong_type(&mut self, at: &Pointer, wanted: &str, found: &Value) {
        let found = describe_type(found);
        self.report(
            at,
            ProblemCode::WrongType,
            format!("expected {wanted}, found {found}"),
        );
    }

    /// The value as an object.
    pub(super) fn as_object<'a>(
        &mut self,
        at: Pointer,
        value: &'a Value,
    ) -> Option<JsonObject<'a>> {
        if let Value::Object(fields) = value {
            return Some(JsonObject { at, fields });
        }
        self.report_wrong_type(&at, "an object", value);
        None
    }

    /// Gets a required field, and reports its absence.
    pub(super) fn require_field<'a>(
        &mut self,
        object: &JsonObject<'a>,
        name: &str,
    ) -> Option<&'a Value> {
        let value = object.get(name);
        if value.is_none() {
            self.report(
                &object.at,
                ProblemCode::MissingField,
                format!("the field {name:?} is missing"),
            );
        }
        value
    }

    pub(super) fn read_text<'a>(&mut self, object: &JsonObject<'a>, name: &str) -> Option<&'a str> {
        let value = object.get(name)?;
        if value.is_string() {
            return value.as_str();
        }
        self.report_wrong_type(&object.pointer_to(name), "a string", value);
        None
    }

    pub(super) fn read_boolean(&mut self, object: &JsonObject<'_>, name: &str) -> Option<bool> {
        let value = object.get(name)?;
        if value.is_boolean() {
            return value.as_bool();
        }
        self.report_wrong_type(&object.pointer_to(name), "true or false", value);
        None
    }

    pub(super) fn read_list<'a>(
        &mut self,
        object: &JsonObject<'a>,
        name: &str,
    ) -> Option<&'a Vec<Value>> {
        let value = object.get(name)?;
        if value.is_array() {
            return value.as_array();
        }
        self.report_wrong_type(&object.pointer_to(name), "a list", value);
        None
    }

    /// A list that must not be empty.
    pub(super) fn read_non_empty_list<'a>(
        &mut self,
        object: &JsonObject<'a>,
        name: &str,
    ) -> Option<&'a Vec<Value>> {
        let list = self.read_list(object, name)?;
        if list.is_empty() {
            let message = format!("{name:?} is empty, and must hold at least one element");
            self.report(&object.pointer_to(name), ProblemCode::Empty, message);
        }
        Some(list)
    }

    pub(super) fn read_object<'a>(
        &mut self,
        object: &JsonObject<'a>,
        name: &str,
    ) -> Option<JsonObject<'a>> {
        self.as_object(object.pointer_to(name), object.get(name)?)
    }

    /// A whole number in a range.
    pub(super) fn read_integer(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        min: u64,
        max: u64,
    ) -> Option<u64> {
        let value = object.get(name)?;
        let at = object.pointer_to(name);
        if !(value.is_u64() || value.is_i64()) {
            self.report_wrong_type(&at, "a whole number", value);
            return None;
        }
        if let Some(number) = value.as_u64().filter(|n| (min..=max).contains(n)) {
            return Some(number);
        }
        let range = if max == u64::MAX {
            format!("at least {min}")
        } else {
            format!("from {min} to {max}")
        };
        self.report(
            &at,
            ProblemCode::OutOfRange,
            format!("{name:?} is {value}, and must be {range}"),
        );
        None
    }

    /// A number in a range.
    pub(super) fn read_number(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        min: f64,
        max: f64,
    ) -> Option<f64> {
        let value = object.get(name)?;
        let at = object.pointer_to(name);
        let Some(number) = value.as_f64() else {
            self.report_wrong_type(&at, "a number", value);
            return None;
        };
        if (min..=max).contains(&number) {
            return Some(number);
        }
        let range = if max.is_finite() {
            format!("from {min} to {max}")
        } else {
            format!("at least {min}")
        };
        self.report(
            &at,
            ProblemCode::OutOfRange,
            format!("{name:?} is {value}, and must be {range}"),
        );
        None
    }

    /// A string that must be one of the allowed ones.
    pub(super) fn read_one_of<'a>(
        &mut self,
        object: &JsonObject<'a>,
        name: &str,
        allowed: &[&str],
    ) -> Option<&'a str> {
        let text = self.read_text(object, name)?;
        if allowed.contains(&text) {
            return Some(text);
        }
        let list = allowed.join(", ");
        let hint = suggest::suggest_name(text, allowed.iter().copied());
        self.report(
            &object.pointer_to(name),
            ProblemCode::NotOneOf,
            format!("{text:?} is not one of: {list}{hint}"),
        );
        None
    }

    /// Checks that at most one of these fields is present.
    pub(super) fn check_only_one(&mut self, object: &JsonObject<'_>, names: &[&str]) {
        let there: Vec<&str> = names.iter().copied().filter(|n| object.has(n)).collect();
        if there.len() > 1 {
            let list = there.join(", ");
            self.report(
                &object.at,
                ProblemCode::OnlyOneOf,
                format!("only one of these fields may be here, and there are {list}"),
            );
        }
    }
}
