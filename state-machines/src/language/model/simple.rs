//! The simple states: Wait, Pass, Fail. Succeed has no fields of its own.

use serde_json::Value;
use time::OffsetDateTime;

use super::{FieldValue, NextState, ResultTarget, TextValue};
use crate::data::Template;

/// Waits for a duration, or until a time.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitState {
    /// The duration or the end time.
    pub until: WaitUntil,
    /// The transition.
    pub next: NextState,
}

/// The duration or the end time of a [`WaitState`].
#[derive(Debug, Clone, PartialEq)]
pub enum WaitUntil {
    /// A number of seconds.
    Seconds(FieldValue<u64>),
    /// A point in time.
    Timestamp(FieldValue<OffsetDateTime>),
}

/// Passes its input on, optionally transformed.
#[derive(Debug, Clone, PartialEq)]
pub struct PassState {
    /// `Result` (JSONPath): a literal result.
    pub result: Option<Value>,
    /// `Parameters` (JSONPath): a result built from the input.
    pub parameters: Option<Template>,
    /// `ResultPath` (JSONPath): where the result goes.
    pub result_place: ResultTarget,
    /// The transition.
    pub next: NextState,
}

/// Ends the machine as failed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FailState {
    /// The name of the error.
    pub error: Option<TextValue>,
    /// The cause of the error.
    pub cause: Option<TextValue>,
}
