//! Payload templates: JSON with expressions in it.

use serde_json::Value;

use super::{Fault, Scope, Unreadable};

/// A value with expressions to be filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(Value);

impl Template {
    /// A template with `"name.$"` fields: `Parameters`, `ResultSelector`,
    /// `ItemSelector`, `Assign`.
    pub fn json_path(value: &Value) -> Result<Self, Vec<Unreadable>> {
        Ok(Self(value.clone()))
    }

    /// A value with `{% … %}` texts: `Arguments`, `Output`, `Assign`.
    pub fn jsonata(value: &Value) -> Result<Self, Vec<Unreadable>> {
        Ok(Self(value.clone()))
    }

    /// The value, filled in.
    pub fn fill(&self, scope: &Scope<'_>) -> Result<Value, Fault> {
        let _ = scope;
        Ok(self.0.clone())
    }
}
