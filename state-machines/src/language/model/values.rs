//! Value types that the fields of several states share.

use serde::Serialize;

use crate::data::{Expression, Path, ReferencePath, Template};

/// The language in which states select and build JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum QueryLanguage {
    /// Paths such as `$.a.b`, with intrinsic functions.
    #[default]
    #[serde(rename = "JSONPath")]
    JsonPath,
    /// Expressions between `{%` and `%}`.
    #[serde(rename = "JSONata")]
    Jsonata,
}

impl QueryLanguage {
    /// The name in definitions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonPath => "JSONPath",
            Self::Jsonata => "JSONata",
        }
    }
}

/// A value that is a literal, or is resolved when the state runs.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue<T> {
    /// A literal.
    Fixed(T),
    /// A path (JSONPath).
    Path(Path),
    /// An expression (JSONata).
    Expression(Expression),
}

/// A string that is a literal, or is resolved when the state runs.
#[derive(Debug, Clone, PartialEq)]
pub enum TextValue {
    /// A literal.
    Fixed(String),
    /// A path (JSONPath).
    Path(Path),
    /// An intrinsic function (JSONPath). The template is an object with the single
    /// field [`TextValue::FILLED`], which holds the string.
    Function(Template),
    /// An expression (JSONata).
    Expression(Expression),
}

impl TextValue {
    /// The field that holds the string once [`TextValue::Function`] is filled.
    pub const FILLED: &'static str = "text";
}

/// `InputPath`, `OutputPath`: which part of a document is passed on.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum PathSelection {
    /// All of it.
    #[default]
    Whole,
    /// The result of the path.
    Path(Path),
    /// An empty object (`null`).
    Nothing,
}

/// `ResultPath`: where the result goes.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ResultTarget {
    /// It replaces the input.
    #[default]
    Whole,
    /// It is inserted into the input at this path.
    At(ReferencePath),
    /// It is discarded, and the input is passed on (`null`).
    Nowhere,
}

/// The transition of a state on success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextState {
    /// To another state of the same machine.
    State(String),
    /// The end of the machine.
    End,
}
