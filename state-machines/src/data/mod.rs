//! What states do with JSON: take parts of it by path, fill templates,
//! evaluate JSONata, compare for a choice. All of it pure.

mod condition;
mod expression;
mod path;
mod template;

pub use condition::Condition;
pub use expression::Expression;
pub use path::{Path, ReferencePath};
pub use template::Template;

use serde_json::{Map, Value};

/// What an expression may look at.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// `$` in JSONPath, `$states.input` in JSONata.
    pub input: &'a Value,
    /// `$$` in JSONPath, `$states.context` in JSONata.
    pub context: &'a Value,
    /// `$name`: what states before assigned.
    pub variables: &'a Map<String, Value>,
    /// `$states.result`, where a state has one.
    pub result: Option<&'a Value>,
    /// `$states.errorOutput`, where an error was caught.
    pub error_output: Option<&'a Value>,
}

/// An expression that cannot be read: a definition with it is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unreadable {
    /// Where in the value that was given, as a JSON pointer; empty for all of it.
    pub at: String,
    /// What is wrong with it, and where the fix is known, the fix.
    pub reason: String,
}

/// An expression that cannot be evaluated on this data: a state fails with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}: {cause}")]
pub struct Fault {
    /// The name of the error, such as `States.ParameterPathFailure`.
    pub error: &'static str,
    /// What happened.
    pub cause: String,
}
