//! States: the common fields and the eight kinds.

use super::{
    ChoiceState, FailState, Machine, MapState, NextState, ParallelState, PassState, PathSelection,
    QueryLanguage, TaskState, WaitState,
};
use crate::data::Template;

/// A state of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Its name, unique in the whole definition.
    pub name: String,
    /// Its location in the definition, as a JSON pointer.
    pub path: String,
    /// The author's comment.
    pub comment: Option<String>,
    /// The query language of its fields.
    pub query_language: QueryLanguage,
    /// `InputPath` (JSONPath).
    pub input: PathSelection,
    /// `OutputPath` (JSONPath).
    pub output_path: PathSelection,
    /// `Output` (JSONata). In a Choice: the output when no rule matches.
    pub output: Option<Template>,
    /// `Assign`. In a Choice: what is assigned when no rule matches.
    pub assign: Option<Template>,
    /// The kind, with its fields.
    pub kind: StateKind,
}

/// The kind of a state, with its fields.
#[derive(Debug, Clone, PartialEq)]
pub enum StateKind {
    /// Runs a task.
    Task(Box<TaskState>),
    /// Branches on conditions.
    Choice(ChoiceState),
    /// Waits.
    Wait(WaitState),
    /// Passes its input on, optionally transformed.
    Pass(PassState),
    /// Ends the machine as succeeded.
    Succeed,
    /// Ends the machine as failed.
    Fail(FailState),
    /// Runs several machines concurrently.
    Parallel(Box<ParallelState>),
    /// Runs a machine once for each item.
    Map(Box<MapState>),
}

impl StateKind {
    /// Its `Type`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Task(_) => "Task",
            Self::Choice(_) => "Choice",
            Self::Wait(_) => "Wait",
            Self::Pass(_) => "Pass",
            Self::Succeed => "Succeed",
            Self::Fail(_) => "Fail",
            Self::Parallel(_) => "Parallel",
            Self::Map(_) => "Map",
        }
    }
}

impl State {
    /// The transition on success; none for Choice, Succeed and Fail.
    pub fn next(&self) -> Option<&NextState> {
        match &self.kind {
            StateKind::Task(task) => Some(&task.next),
            StateKind::Wait(wait) => Some(&wait.next),
            StateKind::Pass(pass) => Some(&pass.next),
            StateKind::Parallel(parallel) => Some(&parallel.next),
            StateKind::Map(map) => Some(&map.next),
            StateKind::Choice(_) | StateKind::Succeed | StateKind::Fail(_) => None,
        }
    }

    /// Whether it ends its machine.
    pub fn is_end(&self) -> bool {
        match &self.kind {
            StateKind::Succeed | StateKind::Fail(_) => true,
            _ => self.next() == Some(&NextState::End),
        }
    }

    /// Its catchers, in order.
    pub fn catch(&self) -> &[super::Catcher] {
        match &self.kind {
            StateKind::Task(task) => &task.catch,
            StateKind::Parallel(parallel) => &parallel.catch,
            StateKind::Map(map) => &map.catch,
            _ => &[],
        }
    }

    /// Its retriers, in order.
    pub fn retry(&self) -> &[super::Retrier] {
        match &self.kind {
            StateKind::Task(task) => &task.retry,
            StateKind::Parallel(parallel) => &parallel.retry,
            StateKind::Map(map) => &map.retry,
            _ => &[],
        }
    }

    /// Its nested machines: the branches of a Parallel, the processor of a Map.
    pub fn machines(&self) -> &[Machine] {
        match &self.kind {
            StateKind::Parallel(parallel) => &parallel.branches,
            StateKind::Map(map) => std::slice::from_ref(&map.processor.machine),
            _ => &[],
        }
    }
}
