//! The JSON processing of states: select by path, fill templates, evaluate JSONata,
//! compare for a Choice. All of it is pure: time and randomness come from the [`EvaluationScope`].
//!
//! ```text
//!   path         JSONPath, and the reference paths for inserting results
//!   intrinsic    the intrinsic functions, such as States.Format
//!   template     JSON that contains paths, calls or JSONata
//!   expression   JSONata
//!   condition    the conditions of a Choice
//!   pipeline     the steps from InputPath to OutputPath, Assign, the size limit
//!   random       the seeded random generator
//! ```
//!
//! Everything is parsed once, when a definition is loaded, into a form that is
//! `Send + Sync` and evaluated many times. Parsing fails with a [`SyntaxError`],
//! evaluation with an [`EvaluationFault`].
//!
//! ```
//! use ballast_state_machines::data::{EvaluationScope, Template};
//! use serde_json::{Map, json};
//!
//! let template = Template::json_path(&json!({
//!     "greeting.$": "States.Format('Hello, {}', $.name)",
//!     "first.$": "$.orders[0].id",
//! })).expect("both fields are valid");
//!
//! let input = json!({"name": "Ada", "orders": [{"id": 7}]});
//! let (context, variables) = (json!({}), Map::new());
//! let filled = template.fill(&EvaluationScope::new(&input, &context, &variables));
//! assert_eq!(filled, Ok(json!({"greeting": "Hello, Ada", "first": 7})));
//! ```

mod condition;
mod cursor;
mod expression;
mod intrinsic;
mod number;
mod path;
pub mod pipeline;
pub(crate) mod random;
mod template;
mod timestamp;

#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod testing;

pub use condition::ChoiceCondition;
pub use expression::{Expression, StatesField};
pub(crate) use expression::{MILLISECONDS_MAX, REPLAY_MILLISECONDS_MAX};
pub use path::{Path, ReferencePath};
pub use template::Template;
pub use timestamp::parse_timestamp;

use serde_json::{Map, Value};
use time::OffsetDateTime;

/// The names of the errors that data processing raises.
pub mod errors {
    /// A path or a value that a state cannot process. It cannot be caught.
    pub const RUNTIME: &str = "States.Runtime";
    /// A path in a payload template found nothing. The specification and the
    /// documentation of AWS define this name; AWS itself returns [`RUNTIME`].
    pub const PARAMETER_PATH_FAILURE: &str = "States.ParameterPathFailure";
    /// A result cannot be inserted at its `ResultPath`.
    pub const RESULT_PATH_MATCH_FAILURE: &str = "States.ResultPathMatchFailure";
    /// An intrinsic function rejected its arguments.
    pub const INTRINSIC_FAILURE: &str = "States.IntrinsicFailure";
    /// A JSONata expression failed, or its result is undefined or not JSON.
    pub const QUERY_EVALUATION_ERROR: &str = "States.QueryEvaluationError";
    /// A payload is larger than [`PAYLOAD_BYTES_MAX`](super::pipeline::PAYLOAD_BYTES_MAX).
    pub const DATA_LIMIT_EXCEEDED: &str = "States.DataLimitExceeded";
}

/// The data that an expression can read.
///
/// `States.UUID`, `States.MathRandom` and their JSONata counterparts depend only on
/// `seed`. Within one evaluation (one `fill`, one `evaluate`, one `read`) the values
/// differ; the next evaluation with the same seed repeats them. A replay uses the
/// same seed, and two fields of one state use different seeds: see [`EvaluationScope::seeded_for`].
#[derive(Debug, Clone, Copy)]
pub struct EvaluationScope<'a> {
    /// `$` in JSONPath, `$states.input` in JSONata.
    pub input: &'a Value,
    /// `$$` in JSONPath, `$states.context` in JSONata.
    pub context: &'a Value,
    /// `$name`: the variables that earlier states assigned.
    pub variables: &'a Map<String, Value>,
    /// `$states.result`, if available.
    pub result: Option<&'a Value>,
    /// `$states.errorOutput`, if an error was caught.
    pub error_output: Option<&'a Value>,
    /// The seed of all random values.
    pub seed: u64,
    /// The current time, for JSONata's `$now()` and `$millis()`.
    pub now: OffsetDateTime,
    /// The time limit of each JSONata expression, in milliseconds.
    pub milliseconds_max: u64,
}

impl<'a> EvaluationScope<'a> {
    /// A scope without result and error, with seed 0 and the Unix epoch as its time.
    #[must_use]
    pub fn new(input: &'a Value, context: &'a Value, variables: &'a Map<String, Value>) -> Self {
        Self {
            input,
            context,
            variables,
            result: None,
            error_output: None,
            seed: 0,
            now: OffsetDateTime::UNIX_EPOCH,
            milliseconds_max: MILLISECONDS_MAX,
        }
    }

    /// The same scope with a seed for one field, such as `Parameters`, so that two
    /// fields of a state do not generate the same UUID.
    #[must_use]
    pub fn seeded_for(&self, field: &str) -> Self {
        Self {
            seed: random::seed_for(self.seed, field),
            ..*self
        }
    }

    /// The same scope with another input.
    #[must_use]
    pub fn with_input(&self, input: &'a Value) -> Self {
        Self { input, ..*self }
    }
}

/// A path, expression, template or condition is invalid; so is a definition with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SyntaxError {
    /// The location in the parsed value, as a JSON pointer; empty for the whole value.
    pub at: String,
    /// What is wrong and, if known, how to fix it.
    pub reason: String,
}

impl SyntaxError {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            at: String::new(),
            reason: reason.into(),
        }
    }

    fn prefix_pointer(mut self, pointer: &str) -> Self {
        self.at = format!("{pointer}{}", self.at);
        self
    }
}

/// A JSON pointer to a field or an item below `parent`.
fn pointer_to(parent: &str, token: impl std::fmt::Display) -> String {
    let token = token.to_string().replace('~', "~0").replace('/', "~1");
    format!("{parent}/{token}")
}

/// A path, expression or template cannot be evaluated on this data; the state fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}: {cause}")]
pub struct EvaluationFault {
    /// The name of the error, such as `States.ParameterPathFailure`.
    pub error: &'static str,
    /// The cause.
    pub cause: String,
    /// Whether an expression exceeded its time limit; another attempt may succeed.
    pub is_out_of_time: bool,
}

impl EvaluationFault {
    /// A fault with one of the names in [`errors`].
    pub fn new(error: &'static str, cause: impl Into<String>) -> Self {
        Self {
            error,
            cause: cause.into(),
            is_out_of_time: false,
        }
    }

    /// The same fault with another error name: a path that finds nothing is a different
    /// error in `InputPath` than in a template.
    #[must_use]
    pub fn with_error(mut self, error: &'static str) -> Self {
        self.error = error;
        self
    }
}

/// A value for messages, truncated at a character boundary.
fn shorten_json(value: &Value) -> String {
    const CHARS_MAX: usize = 120;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
