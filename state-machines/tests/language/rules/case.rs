//! A case: what breaks a rule, and what keeps it.

use std::fmt;

use serde_json::{Value, json};

/// A rule by example.
#[derive(Debug)]
pub(crate) struct Case {
    /// The code of the problem that is found.
    pub(crate) code: &'static str,
    /// Where it is found.
    pub(crate) at: String,
    /// What its message says, among other things.
    pub(crate) says: &'static str,
    /// A definition that breaks the rule.
    pub(crate) broken: String,
    /// A definition that keeps it.
    pub(crate) kept: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.code, self.at, self.broken)
    }
}

/// A case of whole definitions.
pub(crate) fn whole(
    code: &'static str,
    at: &str,
    says: &'static str,
    broken: Value,
    kept: Value,
) -> Case {
    Case {
        code,
        at: at.to_owned(),
        says,
        broken: broken.to_string(),
        kept: kept.to_string(),
    }
}

/// A case of one state `S`, beside a state `T` that it may lead to.
pub(crate) fn state(
    code: &'static str,
    at: &str,
    says: &'static str,
    broken: Value,
    kept: Value,
) -> Case {
    whole(code, at, says, around(&broken), around(&kept))
}

/// As [`state`], in JSONata.
pub(crate) fn jsonata(
    code: &'static str,
    at: &str,
    says: &'static str,
    mut broken: Value,
    mut kept: Value,
) -> Case {
    broken["QueryLanguage"] = json!("JSONata");
    kept["QueryLanguage"] = json!("JSONata");
    state(code, at, says, broken, kept)
}

/// A definition around a state; `T` is there only if something leads to it.
fn around(state: &Value) -> Value {
    let mut states = json!({ "S": state });
    if state.to_string().contains(r#":"T""#) {
        states["T"] = json!({"Type": "Succeed"});
    }
    json!({"StartAt": "S", "States": states})
}

/// A Task that ends, with more fields.
pub(crate) fn task(more: Value) -> Value {
    with(json!({"Type": "Task", "Resource": "r", "End": true}), more)
}

/// A value with more fields.
pub(crate) fn with(mut value: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut value, more) {
        fields.extend(more);
    }
    value
}
