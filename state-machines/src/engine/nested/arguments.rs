//! What a Task that starts an execution says: which workflow, under which
//! name, with which input.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::engine::TaskError;

/// An argument is not what it should be.
pub(super) const BAD_ARGUMENT: &str = "StepFunctions.ValidationException";

/// A name has room for this much of the parent's, and a hash.
const PARENT_CHARS_MAX: usize = 47;

#[derive(Debug, PartialEq)]
pub(super) struct Arguments {
    /// The names that the workflow may be deployed under, best first.
    pub(super) workflows: Vec<String>,
    /// The execution's name, if it is given.
    pub(super) name: Option<String>,
    pub(super) input: Value,
}

impl Arguments {
    pub(super) fn read(given: &Value) -> Result<Self, TaskError> {
        let text = |field: &str| match given.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(bad(format!("{field} must be a text, and is {other}"))),
        };
        let workflow = text("StateMachineArn")?.ok_or_else(|| {
            bad("StateMachineArn is missing: it names the workflow to start".to_owned())
        })?;
        Ok(Self {
            workflows: workflows(&workflow),
            name: text("Name")?,
            input: input(given.get("Input"))?,
        })
    }
}

fn bad(cause: String) -> TaskError {
    TaskError::new(BAD_ARGUMENT, cause)
}

/// A name, the last part of an ARN, or a token: `${MoveTenant}` is the workflow
/// of this name, or `move-tenant`.
fn workflows(given: &str) -> Vec<String> {
    if let Some(token) = given
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
    {
        return vec![token.to_owned(), kebab(token)];
    }
    let last = given.rsplit(':').next().unwrap_or(given);
    vec![last.to_owned()]
}

/// `MoveTenant` as `move-tenant`.
fn kebab(token: &str) -> String {
    let mut name = String::new();
    for letter in token.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// The input as JSON; a text is read as JSON, as Step Functions does.
fn input(given: Option<&Value>) -> Result<Value, TaskError> {
    match given {
        None | Some(Value::Null) => Ok(json!({})),
        Some(Value::String(text)) => serde_json::from_str(text)
            .map_err(|error| bad(format!("Input is a text, and no JSON: {error}"))),
        Some(value) => Ok(value.clone()),
    }
}

/// A name for a child that was given none: the same one when the work is done
/// again.
pub(super) fn derived(parent: &str, key: &str) -> String {
    let start = parent.floor_char_boundary(PARENT_CHARS_MAX);
    let digest = Sha256::digest(key.as_bytes());
    let hash: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}-{hash}", &parent[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_named_in_three_ways() {
        let named =
            |arn: &str| Arguments::read(&json!({"StateMachineArn": arn})).map(|a| a.workflows);
        assert_eq!(named("move-tenant").unwrap(), ["move-tenant"]);
        let arn = "arn:aws:states:eu-central-1:111111111111:stateMachine:move-tenant";
        assert_eq!(named(arn).unwrap(), ["move-tenant"]);
        assert_eq!(
            named("${MoveTenant}").unwrap(),
            ["MoveTenant", "move-tenant"]
        );
        let missing = Arguments::read(&json!({})).unwrap_err();
        assert_eq!(missing.error, BAD_ARGUMENT);
    }

    #[test]
    fn an_input_is_json_or_a_text_of_it() {
        let read = |input: Value| {
            let given = json!({"StateMachineArn": "w", "Name": "n", "Input": input});
            Arguments::read(&given).map(|read| read.input)
        };
        assert_eq!(read(json!({"a": 1})).unwrap(), json!({"a": 1}));
        assert_eq!(read(json!("{\"a\": 1}")).unwrap(), json!({"a": 1}));
        assert_eq!(read(json!(null)).unwrap(), json!({}));
        assert!(read(json!("{")).unwrap_err().cause.contains("no JSON"));
        let name = json!({"StateMachineArn": "w", "Name": 3});
        assert!(Arguments::read(&name).is_err());
    }

    #[test]
    fn a_derived_name_is_a_name_and_depends_on_the_key() {
        let long = "n".repeat(80);
        let name = derived(&long, "w:n#1");
        assert_eq!(name.len(), 80);
        assert_eq!(name, derived(&long, "w:n#1"));
        assert_ne!(name, derived(&long, "w:n#2"));
    }
}
