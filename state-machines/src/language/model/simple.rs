//! The states that do little: Wait, Pass, Fail. Succeed does nothing at all.

use serde_json::Value;
use time::OffsetDateTime;

use super::{Given, Next, Place, Text};
use crate::data::Template;

/// Waits for a while, or until a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// How long.
    pub until: Until,
    /// Where it leads.
    pub next: Next,
}

/// How long a [`Wait`] takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Until {
    /// So many seconds.
    Seconds(Given<u64>),
    /// Until this time.
    Timestamp(Given<OffsetDateTime>),
}

/// Passes its input on, or what it makes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// `Result` (JSONPath): a result that is written.
    pub result: Option<Value>,
    /// `Parameters` (JSONPath): a result that is made of the input.
    pub parameters: Option<Template>,
    /// `ResultPath` (JSONPath): where the result goes.
    pub result_place: Place,
    /// Where it leads.
    pub next: Next,
}

/// Ends in failure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fail {
    /// The name of the error.
    pub error: Option<Text>,
    /// What happened.
    pub cause: Option<Text>,
}
