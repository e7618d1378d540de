//! The input of a Task that starts an execution: which workflow, under which name,
//! with which input.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::engine::TaskError;

/// The error name for an invalid argument.
pub(super) const BAD_ARGUMENT: &str = "StepFunctions.ValidationException";

/// How much of the parent's name goes into a derived name; a hash follows.
const PARENT_CHARS_MAX: usize = 47;

#[derive(Debug, PartialEq)]
pub(super) struct StartArguments {
    /// Names under which the workflow may be deployed, best first.
    pub(super) workflows: Vec<String>,
    /// The child's name, if the input has one.
    pub(super) name: Option<String>,
    pub(super) input: Value,
}

impl StartArguments {
    pub(super) fn parse(given: &Value) -> Result<Self, TaskError> {
        let text = |field: &str| match given.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(argument_error(format!(
                "{field} must be a string, not {other}"
            ))),
        };
        let workflow = text("StateMachineArn")?.ok_or_else(|| {
            argument_error(
                "StateMachineArn is missing: it must name the workflow to start".to_owned(),
            )
        })?;
        Ok(Self {
            workflows: workflow_names(&workflow),
            name: text("Name")?,
            input: parse_input(given.get("Input"))?,
        })
    }
}

fn argument_error(cause: String) -> TaskError {
    TaskError::new(BAD_ARGUMENT, cause)
}

/// Possible workflow names from a plain name, the last part of an ARN, or a
/// substitution token: `${MoveTenant}` means the workflow `MoveTenant` or
/// `move-tenant`.
fn workflow_names(given: &str) -> Vec<String> {
    if let Some(token) = given
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
    {
        return vec![token.to_owned(), to_kebab_case(token)];
    }
    let last = given.rsplit(':').next().unwrap_or(given);
    vec![last.to_owned()]
}

/// Converts `MoveTenant` to `move-tenant`.
fn to_kebab_case(token: &str) -> String {
    let mut name = String::new();
    for letter in token.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// The child's input. A string is parsed as JSON, as Step Functions does.
fn parse_input(given: Option<&Value>) -> Result<Value, TaskError> {
    match given {
        None | Some(Value::Null) => Ok(json!({})),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|error| {
            argument_error(format!("Input is a string that is not valid JSON: {error}"))
        }),
        Some(value) => Ok(value.clone()),
    }
}

/// Derives a child's name from its parent and task, so that running the task again
/// gives the same child.
pub(super) fn derive_child_name(parent: &str, key: &str) -> String {
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
        let named = |arn: &str| {
            StartArguments::parse(&json!({"StateMachineArn": arn})).map(|a| a.workflows)
        };
        assert_eq!(named("move-tenant").unwrap(), ["move-tenant"]);
        let arn = "arn:aws:states:eu-central-1:111111111111:stateMachine:move-tenant";
        assert_eq!(named(arn).unwrap(), ["move-tenant"]);
        assert_eq!(
            named("${MoveTenant}").unwrap(),
            ["MoveTenant", "move-tenant"]
        );
        let missing = StartArguments::parse(&json!({})).unwrap_err();
        assert_eq!(missing.error, BAD_ARGUMENT);
    }

    #[test]
    fn an_input_is_json_or_a_string_of_json() {
        let read = |input: Value| {
            let given = json!({"StateMachineArn": "w", "Name": "n", "Input": input});
            StartArguments::parse(&given).map(|read| read.input)
        };
        assert_eq!(read(json!({"a": 1})).unwrap(), json!({"a": 1}));
        assert_eq!(read(json!("{\"a\": 1}")).unwrap(), json!({"a": 1}));
        assert_eq!(read(json!(null)).unwrap(), json!({}));
        assert!(
            read(json!("{"))
                .unwrap_err()
                .cause
                .contains("not valid JSON")
        );
        let name = json!({"StateMachineArn": "w", "Name": 3});
        assert!(StartArguments::parse(&name).is_err());
    }

    #[test]
    fn a_derived_name_is_a_name_and_depends_on_the_key() {
        let long = "n".repeat(80);
        let name = derive_child_name(&long, "w:n#1");
        assert_eq!(name.len(), 80);
        assert_eq!(name, derive_child_name(&long, "w:n#1"));
        assert_ne!(name, derive_child_name(&long, "w:n#2"));
    }
}
