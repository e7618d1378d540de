//! A state: what all of them have, and the eight kinds.

use super::{Choice, Fail, Machine, Map, Next, Parallel, Part, Pass, QueryLanguage, Task, Wait};
use crate::data::Template;

/// A step of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Its name, unique in the whole definition.
    pub name: String,
    /// Where it is written, as a JSON pointer.
    pub path: String,
    /// What its author says of it.
    pub comment: Option<String>,
    /// The query language of its fields.
    pub query_language: QueryLanguage,
    /// `InputPath` (JSONPath).
    pub input: Part,
    /// `OutputPath` (JSONPath).
    pub output_path: Part,
    /// `Output` (JSONata). In a Choice: the output when no rule holds.
    pub output: Option<Template>,
    /// `Assign`. In a Choice: what is assigned when no rule holds.
    pub assign: Option<Template>,
    /// What it does.
    pub kind: Kind,
}

/// What a state does.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Has work done.
    Task(Box<Task>),
    /// Goes one way or another.
    Choice(Choice),
    /// Waits.
    Wait(Wait),
    /// Passes its input on, changed or not.
    Pass(Pass),
    /// Ends well.
    Succeed,
    /// Ends in failure.
    Fail(Fail),
    /// Runs several machines at once.
    Parallel(Box<Parallel>),
    /// Runs a machine once for each item.
    Map(Box<Map>),
}

impl Kind {
    /// Its `Type`, as it is written.
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
    /// Where it leads when nothing goes wrong; none for a Choice, and for
    /// states that end by what they are.
    pub fn next(&self) -> Option<&Next> {
        match &self.kind {
            Kind::Task(task) => Some(&task.next),
            Kind::Wait(wait) => Some(&wait.next),
            Kind::Pass(pass) => Some(&pass.next),
            Kind::Parallel(parallel) => Some(&parallel.next),
            Kind::Map(map) => Some(&map.next),
            Kind::Choice(_) | Kind::Succeed | Kind::Fail(_) => None,
        }
    }

    /// Whether a machine ends with it.
    pub fn is_end(&self) -> bool {
        match &self.kind {
            Kind::Succeed | Kind::Fail(_) => true,
            _ => self.next() == Some(&Next::End),
        }
    }

    /// What it does about errors, in order.
    pub fn catch(&self) -> &[super::Catcher] {
        match &self.kind {
            Kind::Task(task) => &task.catch,
            Kind::Parallel(parallel) => &parallel.catch,
            Kind::Map(map) => &map.catch,
            _ => &[],
        }
    }

    /// What it tries again, in order.
    pub fn retry(&self) -> &[super::Retrier] {
        match &self.kind {
            Kind::Task(task) => &task.retry,
            Kind::Parallel(parallel) => &parallel.retry,
            Kind::Map(map) => &map.retry,
            _ => &[],
        }
    }

    /// The machines within it: the branches of a Parallel, the processor of a
    /// Map.
    pub fn machines(&self) -> &[Machine] {
        match &self.kind {
            Kind::Parallel(parallel) => &parallel.branches,
            Kind::Map(map) => std::slice::from_ref(&map.processor.machine),
            _ => &[],
        }
    }
}
