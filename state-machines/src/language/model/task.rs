//! A Task, and what Tasks, Parallels and Maps do about errors.

use super::{Given, Next, Place};
use crate::data::Template;

/// Has work done by a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Who does the work: an ARN or another name that the engine knows.
    pub resource: String,
    /// `Parameters` (JSONPath) or `Arguments` (JSONata): what it is given.
    pub arguments: Option<Template>,
    /// `ResultSelector` (JSONPath): what is kept of the result.
    pub result_selector: Option<Template>,
    /// `ResultPath` (JSONPath): where the result goes.
    pub result: Place,
    /// How long it may take.
    pub timeout_seconds: Option<Given<u64>>,
    /// How long it may stay silent.
    pub heartbeat_seconds: Option<Given<u64>>,
    /// On whose behalf it is done.
    pub credentials: Option<Template>,
    /// What is tried again.
    pub retry: Vec<Retrier>,
    /// What is done about errors that remain.
    pub catch: Vec<Catcher>,
    /// Where it leads.
    pub next: Next,
}

/// Tries again after some errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Retrier {
    /// The errors; `States.ALL` stands for any.
    pub errors: Vec<String>,
    /// The first delay; 1 unless written.
    pub interval_seconds: u64,
    /// How often it is tried again; 3 unless written, and 0 for never.
    pub attempts_max: u64,
    /// By how much each delay is longer than the one before; 2 unless written.
    pub backoff_rate: f64,
    /// How long a delay may become.
    pub delay_seconds_max: Option<u64>,
    /// Whether chance shortens the delays.
    pub jitter: Jitter,
}

/// Whether chance shortens delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// Delays are as computed.
    #[default]
    None,
    /// A delay is drawn between nothing and the one computed.
    Full,
}

/// Goes to another state after some errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Catcher {
    /// The errors; `States.ALL` stands for any.
    pub errors: Vec<String>,
    /// The state it goes to.
    pub next: String,
    /// `ResultPath` (JSONPath): where the error goes.
    pub result: Place,
    /// `Output` (JSONata).
    pub output: Option<Template>,
    /// `Assign`.
    pub assign: Option<Template>,
    /// What its author says of it.
    pub comment: Option<String>,
}
