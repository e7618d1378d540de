//! Parses text to JSON. Unlike `serde_json`, it reports duplicate keys: of two
//! states with the same name, one would be lost silently. It skips a byte order
//! mark at the start, which editors on Windows write.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::pointer::Pointer;
use super::problem::{DefinitionProblem, ProblemCode};

/// The maximum size of a definition, in bytes.
pub(super) const BYTES_MAX: usize = 1024 * 1024;

/// The maximum nesting of objects and arrays: what `serde_json` reads without a
/// risk of stack overflow.
const DEPTH_MAX: usize = 127;

/// Removes a byte order mark.
pub(crate) fn strip_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Describes an error about nesting that is too deep; none for other errors.
pub(crate) fn describe_depth_error(error: &serde_json::Error) -> Option<String> {
    // Its category is the same as for syntax errors; only the message differs.
    let is_too_deep = error.to_string().starts_with("recursion limit exceeded");
    is_too_deep.then(|| {
        format!(
            "nested deeper than {DEPTH_MAX} levels, at line {} column {}",
            error.line(),
            error.column()
        )
    })
}

/// Parses text and adds what is wrong with it to the problems.
pub(super) fn read(text: &str, problems: &mut Vec<DefinitionProblem>) -> Option<Value> {
    if text.len() > BYTES_MAX {
        problems.push(DefinitionProblem::new(
            &Pointer::root(),
            ProblemCode::TooLarge,
            format!(
                "the definition has {} bytes, the limit is {BYTES_MAX}; move parts of it into a separate workflow",
                text.len()
            ),
        ));
        return None;
    }
    let twice = RefCell::new(Vec::new());
    let mut json = serde_json::Deserializer::from_str(strip_byte_order_mark(text));
    let seed = DuplicateKeyVisitor {
        at: Pointer::root(),
        twice: &twice,
    };
    let read = seed
        .deserialize(&mut json)
        .and_then(|value| json.end().map(|()| value));
    match read {
        Ok(value) => {
            problems.extend(twice.into_inner());
            Some(value)
        }
        Err(error) => {
            let (code, message) = match describe_depth_error(&error) {
                Some(message) => (
                    ProblemCode::TooDeep,
                    format!("{message}; move parts of it into a separate workflow"),
                ),
                None => (ProblemCode::NotJson, format!("invalid JSON: {error}")),
            };
            problems.push(DefinitionProblem::new(&Pointer::root(), code, message));
            None
        }
    }
}

/// Deserialises a value and reports duplicate keys.
struct DuplicateKeyVisitor<'a> {
    at: Pointer,
    twice: &'a RefCell<Vec<DefinitionProblem>>,
}

impl DuplicateKeyVisitor<'_> {
    fn below(&self, at: Pointer) -> Self {
        Self {
            at,
            twice: self.twice,
        }
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateKeyVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeyVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self.below(self.at.item(values.len())))? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            let at = self.at.field(&key);
            if fields.contains_key(&key) {
                self.twice.borrow_mut().push(DefinitionProblem::new(
                    &at,
                    ProblemCode::DuplicateKey,
                    format!("duplicate key {key:?}; remove or rename one of them"),
                ));
            }
            let value = object.next_value_seed(self.below(at))?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_reads_what_serde_json_reads() {
        let text = r#"{"a": [1, -2, 3.5, "x", null, true, {"b": {}}], "ü": 18446744073709551615}"#;
        let mut problems = Vec::new();
        let value = read(text, &mut problems);
        assert_eq!(value, serde_json::from_str(text).ok());
        assert!(problems.is_empty());
    }

    #[test]
    fn duplicate_keys_are_reported_with_their_location() {
        let mut problems = Vec::new();
        let value = read(r#"{"a": [{"b": 1, "b": 2}]}"#, &mut problems);
        assert_eq!(value, Some(json!({"a": [{"b": 2}]})));
        assert_eq!(problems[0].path, "/a/0/b");
        assert_eq!(problems[0].code, ProblemCode::DuplicateKey);
    }

    #[test]
    fn invalid_json_is_reported_with_line_and_column() {
        for text in ["", "{", "not a definition", "{}{}", "{\n \"a\": tru }"] {
            let mut problems = Vec::new();
            assert_eq!(read(text, &mut problems), None, "{text}");
            assert_eq!(problems[0].code, ProblemCode::NotJson);
            assert!(problems[0].message.contains("line"), "{}", problems[0]);
            assert!(problems[0].message.contains("column"), "{}", problems[0]);
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_does_not_overflow_the_stack() {
        let mut problems = Vec::new();
        assert_eq!(read(&"[".repeat(100_000), &mut problems), None);
        assert_eq!(problems[0].code, ProblemCode::TooDeep);
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let mut problems = Vec::new();
        assert!(read(&nested(DEPTH_MAX), &mut problems).is_some());
        assert_eq!(read(&nested(DEPTH_MAX + 1), &mut problems), None);
        let message = problems[0].to_string();
        assert!(
            message.contains("nested deeper than 127 levels"),
            "{message}"
        );
    }

    #[test]
    fn one_byte_order_mark_is_skipped() {
        let mut problems = Vec::new();
        assert_eq!(read("\u{feff}{}", &mut problems), Some(json!({})));
        assert!(problems.is_empty());
        assert_eq!(read("\u{feff}\u{feff}{}", &mut problems), None);
    }

    #[test]
    fn text_that_is_too_long_is_refused() {
        let mut problems = Vec::new();
        assert_eq!(read(&" ".repeat(BYTES_MAX + 1), &mut problems), None);
        assert_eq!(problems[0].code, ProblemCode::TooLarge);
    }
}
