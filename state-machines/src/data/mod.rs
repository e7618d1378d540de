//! What states do with JSON: take parts of it by path, fill templates,
//! evaluate JSONata, compare for a choice. All of it pure: time and chance
//! arrive in the [`EvaluationScope`].
//!
//! ```text
//!   path         JSONPath, and the reference paths that results are put at
//!   intrinsic    States.Format and its seventeen siblings
//!   template     JSON with paths, calls or JSONata in it
//!   expression   JSONata
//!   condition    the rules of a choice
//!   pipeline     InputPath … OutputPath in their order, Assign, the size limit
//! ```
//!
//! Everything is read once, when a definition is loaded, into a form that is
//! `Send + Sync` and evaluated many times. What cannot be read is an
//! [`SyntaxError`], what cannot be evaluated a [`EvaluationFault`].
//!
//! ```
//! use ballast_state_machines::data::{Scope, Template};
//! use serde_json::{Map, json};
//!
//! let template = Template::json_path(&json!({
//!     "greeting.$": "States.Format('Hello, {}', $.name)",
//!     "first.$": "$.orders[0].id",
//! })).expect("both fields can be read");
//!
//! let input = json!({"name": "Ada", "orders": [{"id": 7}]});
//! let (context, variables) = (json!({}), Map::new());
//! let filled = template.fill(&Scope::new(&input, &context, &variables));
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

/// The names of the errors that data can raise.
pub mod errors {
    /// A path or a value that a state cannot work with. It cannot be caught.
    pub const RUNTIME: &str = "States.Runtime";
    /// A path in a payload template found nothing. The specification and AWS's
    /// documentation name it so; AWS itself was seen to answer with [`RUNTIME`].
    pub const PARAMETER_PATH_FAILURE: &str = "States.ParameterPathFailure";
    /// A result cannot be put where `ResultPath` wants it.
    pub const RESULT_PATH_MATCH_FAILURE: &str = "States.ResultPathMatchFailure";
    /// An intrinsic function refused its arguments.
    pub const INTRINSIC_FAILURE: &str = "States.IntrinsicFailure";
    /// A JSONata expression failed, or gave nothing, or what is no JSON.
    pub const QUERY_EVALUATION_ERROR: &str = "States.QueryEvaluationError";
    /// A payload is larger than [`PAYLOAD_BYTES_MAX`](super::pipeline::PAYLOAD_BYTES_MAX).
    pub const DATA_LIMIT_EXCEEDED: &str = "States.DataLimitExceeded";
}

/// What an expression may look at.
///
/// `States.UUID`, `States.MathRandom` and their JSONata counterparts draw from
/// `seed` and from nothing else. Within one evaluation (one `fill`, one
/// `evaluate`, one `read`) the first draw, the second and so on differ; the
/// next evaluation with the same seed draws the same again. So whoever
/// replays gives the same seed, and whoever evaluates two fields of one state
/// gives each a seed of its own: see [`EvaluationScope::seeded_for`].
#[derive(Debug, Clone, Copy)]
pub struct EvaluationScope<'a> {
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
    /// What every random value is derived from.
    pub seed: u64,
    /// The time, for JSONata's `$now()` and `$millis()`.
    pub now: OffsetDateTime,
    /// How long each JSONata expression may take, in milliseconds.
    pub milliseconds_max: u64,
}

impl<'a> EvaluationScope<'a> {
    /// A scope without result and error, with seed 0, at the Unix epoch.
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

    /// The same scope with a seed that belongs to one field, such as
    /// `Parameters`, so that two fields of a state do not draw the same UUID.
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

/// An expression that cannot be read: a definition with it is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SyntaxError {
    /// Where in the value that was given, as a JSON pointer; empty for all of it.
    pub at: String,
    /// What is wrong with it, and where the fix is known, the fix.
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

/// An expression that cannot be evaluated on this data: a state fails with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}: {cause}")]
pub struct EvaluationFault {
    /// The name of the error, such as `States.ParameterPathFailure`.
    pub error: &'static str,
    /// What happened.
    pub cause: String,
    /// Whether an expression took too long: the same may go otherwise the next
    /// time.
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

    /// The same fault under the name that its place calls for: a path that
    /// finds nothing is another error in `InputPath` than in a template.
    #[must_use]
    pub fn with_error(mut self, error: &'static str) -> Self {
        self.error = error;
        self
    }
}

/// A value for a message: short, and whole characters.
fn shorten_json(value: &Value) -> String {
    const CHARS_MAX: usize = 120;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
