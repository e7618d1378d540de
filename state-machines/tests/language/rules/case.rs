//! A case: a definition that violates a rule, and one that follows it.

use std::fmt;

use serde_json::{Value, json};

/// A rule by example.
#[derive(Debug)]
pub(crate) struct RuleCase {
    /// The code of the expected problem.
    pub(crate) code: &'static str,
    /// The expected location.
    pub(crate) at: String,
    /// A part of the expected message.
    pub(crate) says: &'static str,
    /// A definition that violates the rule.
    pub(crate) broken: String,
    /// A definition that follows the rule.
    pub(crate) accepted: String,
}

impl fmt::Display for RuleCase {
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
    accepted: Value,
) -> RuleCase {
    RuleCase {
        code,
        at: at.to_owned(),
        says,
        broken: broken.to_string(),
        accepted: accepted.to_string(),
    }
}

/// A case of one state `S`, with a target state `T` if needed.
pub(crate) fn state(
    code: &'static str,
    at: &str,
    says: &'static str,
    broken: Value,
    accepted: Value,
) -> RuleCase {
    whole(code, at, says, around(&broken), around(&accepted))
}

/// As [`state`], in JSONata.
pub(crate) fn jsonata(
    code: &'static str,
    at: &str,
    says: &'static str,
    mut broken: Value,
    mut accepted: Value,
) -> RuleCase {
    broken["QueryLanguage"] = json!("JSONata");
    accepted["QueryLanguage"] = json!("JSONata");
    state(code, at, says, broken, accepted)
}

/// A definition with the state `S`, and `T` if `S` has a transition to it.
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
