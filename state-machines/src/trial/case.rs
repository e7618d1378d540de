//! Test cases: a definition, an input, mocked task results, and the expected outcome.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::language::source::{describe_depth_error, strip_byte_order_mark};
use crate::language::{Definition, DefinitionProblem, Durability, ProblemCode, check_for};

/// A test case. Unknown keys are ignored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TestCase {
    /// The id of the case in its file.
    #[serde(default)]
    pub id: Option<String>,
    /// The definition, as an object or as its JSON text.
    pub definition: Value,
    /// The input of the execution; an empty object by default.
    #[serde(default = "empty_object")]
    pub input: Value,
    /// The mocked results of tasks.
    #[serde(default, deserialize_with = "deserialize_or_default")]
    pub tasks: Vec<TaskMock>,
    /// The expected outcome.
    #[serde(default)]
    pub expected: Option<ExpectedOutcome>,
    /// `STANDARD` or `EXPRESS`: the kind of execution to validate the definition for.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Whether the output is deterministic and can be compared.
    #[serde(default = "default_true")]
    pub deterministic_output: bool,
    /// Locations in the output where only the type is compared, as JSON pointers.
    #[serde(default, deserialize_with = "deserialize_or_default")]
    pub placeholder_paths: Vec<String>,
}

/// The mocked result of one task.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct TaskMock {
    /// The state of the task; any state if absent.
    #[serde(default)]
    pub state: Option<String>,
    /// The Map iterations around the task, outermost first: the name of the Map and the
    /// index of the item. Any iteration if empty.
    #[serde(default, deserialize_with = "deserialize_or_default")]
    pub iteration: Vec<(String, u64)>,
    /// The type of the history event of the result. If it ends in `TimedOut`, the task
    /// times out.
    #[serde(default)]
    pub event: Option<String>,
    /// The expected input of the task.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub parameters: Option<Value>,
    /// The result.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub result: Option<Value>,
    /// The error, if the task fails.
    #[serde(default)]
    pub error: Option<String>,
    /// The cause of the error.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub cause: Option<Value>,
}

impl TaskMock {
    /// Whether the task times out.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        let event = self.event.as_deref();
        event.is_some_and(|event| event.ends_with("TimedOut"))
    }

    /// The cause of the error, as text.
    #[must_use]
    pub fn cause_text(&self) -> Option<String> {
        match self.cause.as_ref()? {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    }
}

/// The expected outcome of a case. Absent fields are not compared.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct ExpectedOutcome {
    /// `SUCCEEDED`, `FAILED`, `TIMED_OUT` or `ABORTED`.
    #[serde(default)]
    pub status: Option<String>,
    /// The output.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub output: Option<Value>,
    /// The name of the error; `null` if no error is expected.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub error: Option<Value>,
    /// The cause of the error.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub cause: Option<Value>,
    /// The history: types and names.
    #[serde(default)]
    pub events: Option<Vec<EventSummary>>,
    /// The names of the entered states, in order.
    #[serde(default)]
    pub states_entered: Option<Vec<String>>,
}

/// A short form of a history event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
pub struct EventSummary {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the state or Map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The index of the iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
}

/// A file of cases.
#[derive(Debug, Clone, PartialEq)]
pub enum CaseFile {
    /// A single case.
    One(Box<TestCase>),
    /// Several cases, under `cases`.
    Many(Vec<TestCase>),
}

/// A case or a file of cases is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CaseError {
    /// It is not JSON, or not a case.
    #[error("{0}")]
    Unreadable(String),
    /// The definition has errors.
    #[error("the definition is not valid: {}", join_problems(.0))]
    Invalid(Vec<DefinitionProblem>),
    /// Substitutions in the definition are not filled in.
    #[error("the definition has unfilled substitutions: {}", join_problems(.0))]
    Unfilled(Vec<DefinitionProblem>),
}

fn join_problems(problems: &[DefinitionProblem]) -> String {
    let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
    messages.join("; ")
}

impl CaseFile {
    /// Parses a file: one case, or an object with `cases`.
    pub fn parse(text: &str) -> Result<Self, CaseError> {
        let unreadable = |error: serde_json::Error| {
            CaseError::Unreadable(describe_depth_error(&error).unwrap_or_else(|| error.to_string()))
        };
        let mut json: Value =
            serde_json::from_str(strip_byte_order_mark(text)).map_err(unreadable)?;
        if let Some(cases) = json.get_mut("cases") {
            let cases: Vec<TestCase> = serde_json::from_value(cases.take()).map_err(unreadable)?;
            // "0 of 0 passed" would hide that the file is still empty.
            if cases.is_empty() {
                let why = "\"cases\" is empty: there is nothing to run";
                return Err(CaseError::Unreadable(why.to_owned()));
            }
            return Ok(Self::Many(cases));
        }
        let case = serde_json::from_value(json).map_err(unreadable)?;
        Ok(Self::One(Box::new(case)))
    }
}

impl TestCase {
    /// Parses the definition.
    pub fn read_definition(&self) -> Result<Definition, CaseError> {
        let text = match &self.definition {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let durability = match self.kind.as_deref() {
            Some("EXPRESS") => Durability::Express,
            _ => Durability::Standard,
        };
        let checked = check_for(&text, durability);
        let (errors, others): (Vec<_>, Vec<_>) = checked
            .problems
            .into_iter()
            .partition(DefinitionProblem::is_error);
        if !errors.is_empty() {
            return Err(CaseError::Invalid(errors));
        }
        let unfilled = others.into_iter();
        let unfilled: Vec<_> = unfilled
            .filter(|problem| problem.code == ProblemCode::Unfilled)
            .collect();
        match checked.definition {
            Some(definition) if unfilled.is_empty() => Ok(definition),
            _ => Err(CaseError::Unfilled(unfilled)),
        }
    }
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

fn default_true() -> bool {
    true
}

/// Deserialises a field that is present, including `null`.
fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Deserialises a field where `null` means the default.
fn deserialize_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
