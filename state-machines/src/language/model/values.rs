//! The small values that fields of several states are made of.

use serde::Serialize;

use crate::data::{Expression, Path, ReferencePath, Template};

/// The language in which states take apart and build JSON.
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
    /// As it is written in a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonPath => "JSONPath",
            Self::Jsonata => "JSONata",
        }
    }
}

/// A value that is written in the definition, or found when the state runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Given<T> {
    /// It is written.
    Fixed(T),
    /// It is found by path (JSONPath).
    Path(Path),
    /// It is computed (JSONata).
    Expression(Expression),
}

/// A text that is written in the definition, or found when the state runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    /// It is written.
    Fixed(String),
    /// It is found by path (JSONPath).
    Path(Path),
    /// It is made by an intrinsic function (JSONPath). The template is an
    /// object with the one field [`Text::FILLED`], which holds the text.
    Function(Template),
    /// It is computed (JSONata).
    Expression(Expression),
}

impl Text {
    /// The field that holds the text once [`Text::Function`] is filled.
    pub const FILLED: &'static str = "text";
}

/// `InputPath`, `OutputPath`: which part of a document goes on.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// What the path finds.
    Path(Path),
    /// Nothing: an empty object takes its place (`null`).
    Nothing,
}

/// `ResultPath`: where the result goes.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Place {
    /// It takes the place of the input.
    #[default]
    Whole,
    /// Into the input, at this place.
    At(ReferencePath),
    /// Nowhere: the input goes on (`null`).
    Nowhere,
}

/// Where a state leads when it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// To another state of the same machine.
    State(String),
    /// The machine ends here.
    End,
}
