//! Conversion between JSON and JSONata's values.

use jsonata_core::value::JValue;
use serde_json::{Map, Value};

use super::numbers::ExactIntegers;

/// The maximum nesting of a result, so that its JSON text can be parsed again.
const DEPTH_MAX: usize = 120;

impl ExactIntegers {
    /// Converts a value to JSONata.
    pub(super) fn to_jsonata(&self, value: &Value) -> JValue {
        match value {
            Value::Null => JValue::Null,
            Value::Bool(bool) => JValue::Bool(*bool),
            Value::Number(number) => JValue::Number(self.float(number)),
            Value::String(text) => JValue::string(text.as_str()),
            Value::Array(items) => {
                JValue::array(items.iter().map(|item| self.to_jsonata(item)).collect())
            }
            Value::Object(fields) => JValue::object(
                fields
                    .iter()
                    .map(|(name, value)| (name.clone(), self.to_jsonata(value)))
                    .collect(),
            ),
        }
    }

    /// Converts a value from JSONata; `None` for undefined. The error describes a value
    /// that is not JSON.
    pub(super) fn extract_json(&self, value: &JValue) -> Result<Option<Value>, String> {
        self.extract_json_at(value, 0)
    }

    fn extract_json_at(&self, value: &JValue, depth: usize) -> Result<Option<Value>, String> {
        if depth > DEPTH_MAX {
            return Err(format!("a value nested deeper than {DEPTH_MAX} levels"));
        }
        Ok(Some(match value {
            JValue::Undefined => return Ok(None),
            JValue::Null => Value::Null,
            JValue::Bool(bool) => Value::Bool(*bool),
            JValue::Number(float) => self
                .number(*float)
                .map(Value::Number)
                .ok_or_else(|| format!("the number {float}, which JSON cannot represent"))?,
            JValue::String(text) => Value::String(text.to_string()),
            JValue::Array(items) => {
                let mut taken = Vec::with_capacity(items.len());
                for item in items.iter() {
                    taken.extend(self.extract_json_at(item, depth + 1)?);
                }
                Value::Array(taken)
            }
            JValue::Object(fields) => {
                let mut taken = Map::with_capacity(fields.len());
                for (name, value) in fields.iter() {
                    if let Some(value) = self.extract_json_at(value, depth + 1)? {
                        taken.insert(name.clone(), value);
                    }
                }
                Value::Object(taken)
            }
            _ => return Err("a function or a regular expression, which are not JSON".to_owned()),
        }))
    }
}
