//! A definition as it is written: read into types, checked by the
//! specification's rules, laid out as a graph, drawn.
//!
//! ```text
//!   text ──source──▶ JSON ──read──▶ model ──┬──graph──▶ what leads where
//!                                           └──draw───▶ Mermaid, DOT, text
//! ```
//!
//! [`check`] finds all problems at once, each with its place. What AWS refuses
//! when a state machine is created is an error; what it accepts and an author
//! may regret is a warning. It runs nothing and knows no resource.
//!
//! ```
//! use ballast_state_machines::language::check;
//!
//! let checked = check(
//!     r#"{"StartAt": "Copy", "States": {
//!         "Copy": {"Type": "Pass", "Next": "Verfy"},
//!         "Verify": {"Type": "Succeed"}}}"#,
//! );
//! assert!(checked.definition.is_none());
//! assert_eq!(
//!     checked.problems[0].to_string(),
//!     r#"/States/Copy/Next: no state named "Verfy"; did you mean "Verify"?"#
//! );
//! ```

pub mod draw;
pub mod graph;
pub mod model;
mod pointer;
mod problem;
mod read;
pub(crate) mod source;

pub use model::{Definition, Machine, State};
pub use problem::{Code, Problem, Severity};
pub use read::Durability;

use graph::Graph;

/// What became of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The definition, if there are no errors.
    pub definition: Option<Definition>,
    /// Everything that was noticed, errors and warnings.
    pub problems: Vec<Problem>,
}

/// Checks a definition that is to be run durably.
pub fn check(text: &str) -> Checked {
    check_for(text, Durability::Standard)
}

/// Checks a definition for how it is to be run.
pub fn check_for(text: &str, durability: Durability) -> Checked {
    let mut problems = Vec::new();
    let Some(source) = source::read(text, &mut problems) else {
        return Checked {
            definition: None,
            problems,
        };
    };
    let (definition, mut problems) = read::definition(source, durability, problems);
    if let Some(definition) = &definition {
        problems.extend(Graph::of(definition).warnings());
    }
    Checked {
        definition,
        problems,
    }
}

impl Definition {
    /// Reads a definition, or gives all that is wrong with it. Warnings do not
    /// keep it from being read; [`check`] tells them.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let checked = check(text);
        checked.definition.ok_or(checked.problems)
    }
}
