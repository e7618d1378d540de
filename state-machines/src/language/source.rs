//! Text becomes JSON. Unlike `serde_json`, it tells of keys that occur twice:
//! of two states with one name, one would silently be lost. A byte order mark
//! at its start, which editors on Windows write, is passed over.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::pointer::Pointer;
use super::problem::{Code, Problem};

/// How long a definition may be, in bytes.
pub(super) const BYTES_MAX: usize = 1024 * 1024;

/// How deep objects and lists may be nested: what `serde_json` reads without
/// risk to the stack.
const DEPTH_MAX: usize = 127;

/// The text without a byte order mark.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// What is wrong with text that was refused for its depth; none, if it was
/// refused for something else.
pub(crate) fn too_deep(error: &serde_json::Error) -> Option<String> {
    // Its kind is that of a mistake in the syntax; only the words tell.
    let is_too_deep = error.to_string().starts_with("recursion limit exceeded");
    is_too_deep.then(|| {
        format!(
            "it is nested deeper than {DEPTH_MAX} levels, at line {} column {}",
            error.line(),
            error.column()
        )
    })
}

/// Reads text; what is wrong with it is added to the problems.
pub(super) fn read(text: &str, problems: &mut Vec<Problem>) -> Option<Value> {
    if text.len() > BYTES_MAX {
        problems.push(Problem::new(
            &Pointer::root(),
            Code::TooLarge,
            format!(
                "the definition has {} bytes, and at most {BYTES_MAX} are allowed; move parts of it into a machine of their own",
                text.len()
            ),
        ));
        return None;
    }
    let twice = RefCell::new(Vec::new());
    let mut json = serde_json::Deserializer::from_str(without_mark(text));
    let seed = Noticing {
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
            let (code, message) = match too_deep(&error) {
                Some(told) => (
                    Code::TooDeep,
                    format!("{told}; move parts of it into a machine of their own"),
                ),
                None => (Code::NotJson, format!("this is not JSON: {error}")),
            };
            problems.push(Problem::new(&Pointer::root(), code, message));
            None
        }
    }
}

/// Reads a value and notices keys that occur twice.
struct Noticing<'a> {
    at: Pointer,
    twice: &'a RefCell<Vec<Problem>>,
}

impl Noticing<'_> {
    fn below(&self, at: Pointer) -> Self {
        Self {
            at,
            twice: self.twice,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Noticing<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Noticing<'_> {
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
                self.twice.borrow_mut().push(Problem::new(
                    &at,
                    Code::DuplicateKey,
                    format!("{key:?} stands here twice; remove or rename one of them"),
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
    fn a_key_that_occurs_twice_is_told_with_its_place() {
        let mut problems = Vec::new();
        let value = read(r#"{"a": [{"b": 1, "b": 2}]}"#, &mut problems);
        assert_eq!(value, Some(json!({"a": [{"b": 2}]})));
        assert_eq!(problems[0].path, "/a/0/b");
        assert_eq!(problems[0].code, Code::DuplicateKey);
    }

    #[test]
    fn what_is_not_json_is_told_with_line_and_column() {
        for text in ["", "{", "not a definition", "{}{}", "{\n \"a\": tru }"] {
            let mut problems = Vec::new();
            assert_eq!(read(text, &mut problems), None, "{text}");
            assert_eq!(problems[0].code, Code::NotJson);
            assert!(problems[0].message.contains("line"), "{}", problems[0]);
            assert!(problems[0].message.contains("column"), "{}", problems[0]);
        }
    }

    #[test]
    fn text_that_is_too_deep_is_refused_and_does_not_overflow() {
        let mut problems = Vec::new();
        assert_eq!(read(&"[".repeat(100_000), &mut problems), None);
        assert_eq!(problems[0].code, Code::TooDeep);
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let mut problems = Vec::new();
        assert!(read(&nested(DEPTH_MAX), &mut problems).is_some());
        assert_eq!(read(&nested(DEPTH_MAX + 1), &mut problems), None);
        let told = problems[0].to_string();
        assert!(told.contains("nested deeper than 127 levels"), "{told}");
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_once() {
        let mut problems = Vec::new();
        assert_eq!(read("\u{feff}{}", &mut problems), Some(json!({})));
        assert!(problems.is_empty());
        assert_eq!(read("\u{feff}\u{feff}{}", &mut problems), None);
    }

    #[test]
    fn text_that_is_too_long_is_refused() {
        let mut problems = Vec::new();
        assert_eq!(read(&" ".repeat(BYTES_MAX + 1), &mut problems), None);
        assert_eq!(problems[0].code, Code::TooLarge);
    }
}
