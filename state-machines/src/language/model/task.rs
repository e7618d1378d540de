//! The Task state, and the error handlers of Task, Parallel and Map.

use super::{FieldValue, NextState, ResultTarget};
use crate::data::Template;

/// Runs a task on a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskState {
    /// The resource: an ARN or another name that the engine knows.
    pub resource: String,
    /// `Parameters` (JSONPath) or `Arguments` (JSONata): the input of the task.
    pub arguments: Option<Template>,
    /// `ResultSelector` (JSONPath): transforms the result.
    pub result_selector: Option<Template>,
    /// `ResultPath` (JSONPath): where the result goes.
    pub result: ResultTarget,
    /// The timeout.
    pub timeout_seconds: Option<FieldValue<u64>>,
    /// The heartbeat timeout.
    pub heartbeat_seconds: Option<FieldValue<u64>>,
    /// The role to run as.
    pub credentials: Option<Template>,
    /// `Retry`.
    pub retry: Vec<Retrier>,
    /// `Catch`.
    pub catch: Vec<Catcher>,
    /// The transition on success.
    pub next: NextState,
}

/// Retries after certain errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Retrier {
    /// The names of the errors; `States.ALL` matches any.
    pub errors: Vec<String>,
    /// The first delay; 1 by default.
    pub interval_seconds: u64,
    /// The maximum number of retries; 3 by default, 0 for none.
    pub attempts_max: u64,
    /// The factor between consecutive delays; 2 by default.
    pub backoff_rate: f64,
    /// The maximum delay.
    pub delay_seconds_max: Option<u64>,
    /// Whether delays are randomised.
    pub jitter: Jitter,
}

/// Whether delays are randomised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// No randomisation.
    #[default]
    None,
    /// A random delay between zero and the computed one.
    Full,
}

/// Transitions to another state after certain errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Catcher {
    /// The names of the errors; `States.ALL` matches any.
    pub errors: Vec<String>,
    /// The target state.
    pub next: String,
    /// `ResultPath` (JSONPath): where the error output goes.
    pub result: ResultTarget,
    /// `Output` (JSONata).
    pub output: Option<Template>,
    /// `Assign`.
    pub assign: Option<Template>,
    /// The author's comment.
    pub comment: Option<String>,
}
