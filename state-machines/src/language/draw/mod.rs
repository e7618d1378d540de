//! Drawings of a definition: [`mermaid`] and [`dot`] for documents, [`text`]
//! for a terminal, [`svg`] for a page.
//!
//! The same definition and marks always give the same drawing. Names may contain
//! any character; syntax of the output format is escaped.

mod dot;
mod mermaid;
mod sketch;
mod svg;
mod text;

use std::collections::BTreeSet;

use super::model::{Definition, Machine, State};
use sketch::Sketch;

/// What a drawing shows besides the definition: the progress of an execution, and
/// which states are folded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// The states that an execution is in.
    pub current: BTreeSet<String>,
    /// The states that the execution has left.
    pub done: BTreeSet<String>,
    /// The states that failed.
    pub failed: BTreeSet<String>,
    /// The states that the execution was in when it was stopped.
    pub stopped: BTreeSet<String>,
    /// The states that are not drawn: their names become labels of the arrows that
    /// pass through them. Current, failed and stopped states are always drawn.
    pub folded: BTreeSet<String>,
}

/// The mark of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The execution is in it.
    Current,
    /// It failed.
    Failed,
    /// The execution was stopped in it.
    Stopped,
    /// The execution has left it.
    Done,
}

impl Mark {
    /// All marks.
    pub const ALL: [Self; 4] = [Self::Current, Self::Failed, Self::Stopped, Self::Done];

    /// The mark as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Done => "done",
        }
    }
}

impl Marks {
    /// Folds the states that `fold` selects, in addition to those already folded.
    #[must_use]
    pub fn folding(mut self, definition: &Definition, fold: impl Fn(&State) -> bool) -> Self {
        self.fold_in(definition.machine(), &fold);
        self
    }

    fn fold_in(&mut self, machine: &Machine, fold: &impl Fn(&State) -> bool) {
        for state in machine.states() {
            if fold(state) {
                self.folded.insert(state.name.clone());
            }
            for inner in state.machines() {
                self.fold_in(inner, fold);
            }
        }
    }

    /// The mark of a state. One that is run again has been left before: that
    /// it is current counts more.
    pub fn find(&self, name: &str) -> Option<Mark> {
        if self.current.contains(name) {
            Some(Mark::Current)
        } else if self.failed.contains(name) {
            Some(Mark::Failed)
        } else if self.stopped.contains(name) {
            Some(Mark::Stopped)
        } else if self.done.contains(name) {
            Some(Mark::Done)
        } else {
            None
        }
    }
}

/// A [Mermaid](https://mermaid.js.org) flowchart.
pub fn mermaid(definition: &Definition, marks: &Marks) -> String {
    mermaid::draw(&Sketch::from_definition(definition, marks))
}

/// A graph in Graphviz's DOT.
pub fn dot(definition: &Definition, marks: &Marks) -> String {
    dot::draw(&Sketch::from_definition(definition, marks))
}

/// An SVG for a page, with classes for the style sheet and `label` as its accessible
/// name.
pub fn svg(definition: &Definition, marks: &Marks, label: &str) -> String {
    svg::draw(&Sketch::from_definition(definition, marks), label)
}

/// Lines for a terminal of 80 columns: the main path from top to bottom, other paths
/// indented.
///
/// ```text
/// ✓ Copy (Task)
/// ▶ Equal? (Choice)
/// │   $.equal BooleanEquals false → Repair
/// │     ○ Repair (Task)
/// │         → Equal?
/// │   otherwise ↓
/// ○ Cut over (Task)
///     → end
/// ```
pub fn text(definition: &Definition, marks: &Marks) -> String {
    text::draw(&Sketch::from_definition(definition, marks))
}
