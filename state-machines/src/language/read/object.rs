//! Fields of plain types: texts, numbers, lists, objects.
//!
//! A field that is not there is `None` without a problem, unless it was asked
//! for as required.

use serde_json::{Map, Value};

use super::Reader;
use super::suggest;
use crate::language::pointer::Pointer;
use crate::language::problem::Code;

/// A JSON object, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Object<'a> {
    pub(super) at: Pointer,
    pub(super) fields: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Where a field of it stands.
    pub(super) fn at(&self, name: &str) -> Pointer {
        self.at.field(name)
    }
}

/// What a value is, with its article, for messages.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl Reader {
    /// Notes that a value has the wrong type.
    pub(super) fn wrong_type(&mut self, at: &Pointer, wanted: &str, found: &Value) {
        let found = kind_of(found);
        self.report(
            at,
            Code::WrongType,
            format!("this must be {wanted}, and is {found}"),
        );
    }

    /// The value as an object.
    pub(super) fn as_object<'a>(&mut self, at: Pointer, value: &'a Value) -> Option<Object<'a>> {
        if let Value::Object(fields) = value {
            return Some(Object { at, fields });
        }
        self.wrong_type(&at, "an object", value);
        None
    }

    /// A field that must be there.
    pub(super) fn required<'a>(&mut self, object: &Object<'a>, name: &str) -> Option<&'a Value> {
        let value = object.get(name);
        if value.is_none() {
            self.report(
                &object.at,
                Code::MissingField,
                format!("the field {name:?} is missing"),
            );
        }
        value
    }

    pub(super) fn text<'a>(&mut self, object: &Object<'a>, name: &str) -> Option<&'a str> {
        let value = object.get(name)?;
        if value.is_string() {
            return value.as_str();
        }
        self.wrong_type(&object.at(name), "a text", value);
        None
    }

    pub(super) fn boolean(&mut self, object: &Object<'_>, name: &str) -> Option<bool> {
        let value = object.get(name)?;
        if value.is_boolean() {
            return value.as_bool();
        }
        self.wrong_type(&object.at(name), "true or false", value);
        None
    }

    pub(super) fn list<'a>(&mut self, object: &Object<'a>, name: &str) -> Option<&'a Vec<Value>> {
        let value = object.get(name)?;
        if value.is_array() {
            return value.as_array();
        }
        self.wrong_type(&object.at(name), "a list", value);
        None
    }

    /// A list with something in it.
    pub(super) fn filled_list<'a>(
        &mut self,
        object: &Object<'a>,
        name: &str,
    ) -> Option<&'a Vec<Value>> {
        let list = self.list(object, name)?;
        if list.is_empty() {
            let message = format!("{name:?} is empty, and must hold at least one element");
            self.report(&object.at(name), Code::Empty, message);
        }
        Some(list)
    }

    pub(super) fn object<'a>(&mut self, object: &Object<'a>, name: &str) -> Option<Object<'a>> {
        self.as_object(object.at(name), object.get(name)?)
    }

    /// A whole number in a range.
    pub(super) fn integer(
        &mut self,
        object: &Object<'_>,
        name: &str,
        min: u64,
        max: u64,
    ) -> Option<u64> {
        let value = object.get(name)?;
        let at = object.at(name);
        if !(value.is_u64() || value.is_i64()) {
            self.wrong_type(&at, "a whole number", value);
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
            Code::OutOfRange,
            format!("{name:?} is {value}, and must be {range}"),
        );
        None
    }

    /// A number in a range.
    pub(super) fn number(
        &mut self,
        object: &Object<'_>,
        name: &str,
        min: f64,
        max: f64,
    ) -> Option<f64> {
        let value = object.get(name)?;
        let at = object.at(name);
        let Some(number) = value.as_f64() else {
            self.wrong_type(&at, "a number", value);
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
            Code::OutOfRange,
            format!("{name:?} is {value}, and must be {range}"),
        );
        None
    }

    /// A text that is one of a few.
    pub(super) fn one_of<'a>(
        &mut self,
        object: &Object<'a>,
        name: &str,
        allowed: &[&str],
    ) -> Option<&'a str> {
        let text = self.text(object, name)?;
        if allowed.contains(&text) {
            return Some(text);
        }
        let list = allowed.join(", ");
        let hint = suggest::hint(text, allowed.iter().copied());
        self.report(
            &object.at(name),
            Code::NotOneOf,
            format!("{text:?} is not one of: {list}{hint}"),
        );
        None
    }

    /// Of these fields at most one may be there.
    pub(super) fn only_one(&mut self, object: &Object<'_>, names: &[&str]) {
        let there: Vec<&str> = names.iter().copied().filter(|n| object.has(n)).collect();
        if there.len() > 1 {
            let list = there.join(", ");
            self.report(
                &object.at,
                Code::OnlyOneOf,
                format!("only one of these fields may be here, and there are {list}"),
            );
        }
    }
}
