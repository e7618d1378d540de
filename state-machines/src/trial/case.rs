//! A case: a definition, an input, what its tasks answer, what is expected.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::language::source::{describe_depth_error, strip_byte_order_mark};
use crate::language::{Definition, DefinitionProblem, Durability, ProblemCode, check_for};

/// A case. Keys that are not listed here are ignored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TestCase {
    /// Its name among others.
    #[serde(default)]
    pub id: Option<String>,
    /// The definition, as an object or as the text of one.
    pub definition: Value,
    /// What the execution is given; an empty object if it is not there.
    #[serde(default = "empty_object")]
    pub input: Value,
    /// What tasks answer.
    #[serde(default, deserialize_with = "deserialize_or_default")]
    pub tasks: Vec<TaskMock>,
    /// What should come of it.
    #[serde(default)]
    pub expected: Option<ExpectedOutcome>,
    /// `STANDARD`, or `EXPRESS`: what the definition may hold.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Whether the output can be compared by value.
    #[serde(default = "default_true")]
    pub deterministic_output: bool,
    /// Where in the output only the shape is compared, as JSON pointers.
    #[serde(default, deserialize_with = "deserialize_or_default")]
    pub placeholder_paths: Vec<String>,
}

/// What a task answers, once.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct TaskMock {
    /// The state whose task it is; any state's without one.
    #[serde(default)]
    pub state: Option<String>,
    /// The iterations that the task runs in, from the outside in: the name of
    /// the Map and the index of the item. Any, if it is empty.
    #[serde(default, deserialize_with = "deserialize_or_default")]
    pub iteration: Vec<(String, u64)>,
    /// The name of the history event of the answer. One that ends in
    /// `TimedOut` means that the task does not answer in time.
    #[serde(default)]
    pub event: Option<String>,
    /// What the task should be given.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub parameters: Option<Value>,
    /// What it gives.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub result: Option<Value>,
    /// The error it ends with instead.
    #[serde(default)]
    pub error: Option<String>,
    /// What it says of the error.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub cause: Option<Value>,
}

impl TaskMock {
    /// Whether the task does not answer in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        let named = self.event.as_deref();
        named.is_some_and(|event| event.ends_with("TimedOut"))
    }

    /// What it says of its error, as text.
    #[must_use]
    pub fn cause_text(&self) -> Option<String> {
        match self.cause.as_ref()? {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    }
}

/// What should come of a case. What is not there is not compared.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct ExpectedOutcome {
    /// `SUCCEEDED`, `FAILED`, `TIMED_OUT` or `ABORTED`.
    #[serde(default)]
    pub status: Option<String>,
    /// The output.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub output: Option<Value>,
    /// The name of the error; `null` if there should be none.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub error: Option<Value>,
    /// What the error says.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub cause: Option<Value>,
    /// The history: types and names.
    #[serde(default)]
    pub events: Option<Vec<EventSummary>>,
    /// The names of the states, in the order in which they were entered.
    #[serde(default)]
    pub states_entered: Option<Vec<String>>,
}

/// An event of the history in short.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
pub struct EventSummary {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The state, or the Map, that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The iteration that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
}

/// A file of cases.
#[derive(Debug, Clone, PartialEq)]
pub enum CaseFile {
    /// It is one case.
    One(Box<TestCase>),
    /// It holds several, under `cases`.
    Many(Vec<TestCase>),
}

/// A case, or a file of them, that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CaseError {
    /// It is not JSON, or not of the form of a case.
    #[error("{0}")]
    Unreadable(String),
    /// The definition has errors.
    #[error("the definition is not valid: {}", join_problems(.0))]
    Invalid(Vec<DefinitionProblem>),
    /// Substitutions in the definition are not filled in.
    #[error("the definition is not filled in; do so before it is run: {}", join_problems(.0))]
    Unfilled(Vec<DefinitionProblem>),
}

fn join_problems(problems: &[DefinitionProblem]) -> String {
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    told.join("; ")
}

impl CaseFile {
    /// Reads a file: one case, or an object with `cases`.
    pub fn parse(text: &str) -> Result<Self, CaseError> {
        let unreadable = |error: serde_json::Error| {
            CaseError::Unreadable(describe_depth_error(&error).unwrap_or_else(|| error.to_string()))
        };
        let mut json: Value =
            serde_json::from_str(strip_byte_order_mark(text)).map_err(unreadable)?;
        if let Some(cases) = json.get_mut("cases") {
            let cases: Vec<TestCase> = serde_json::from_value(cases.take()).map_err(unreadable)?;
            // That all of none passed would hide that the file was never filled.
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
    /// Reads its definition.
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

/// A field that is there, be it `null`.
fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A field whose `null` says the same as its absence.
fn deserialize_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
