//! Workflow definitions: parsed into types, validated against the specification,
//! converted to a graph, and drawn.
//!
//! ```text
//!   text ──source──▶ JSON ──read──▶ model ──┬──graph──▶ transitions
//!                                           └──draw───▶ Mermaid, DOT, text
//! ```
//!
//! [`check`] reports all problems at once, each with its location. What AWS
//! rejects when a state machine is created is an error; what AWS accepts but is
//! likely a mistake is a warning. It runs nothing and knows no resources.
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
pub use problem::{DefinitionProblem, ProblemCode, ProblemSeverity};
pub use read::Durability;

use graph::Graph;

/// The result of checking a definition.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedDefinition {
    /// The definition, if there are no errors.
    pub definition: Option<Definition>,
    /// All errors and warnings.
    pub problems: Vec<DefinitionProblem>,
}

/// Checks a definition for durable execution.
pub fn check(text: &str) -> CheckedDefinition {
    check_for(text, Durability::Standard)
}

/// Checks a definition for the given kind of execution.
pub fn check_for(text: &str, durability: Durability) -> CheckedDefinition {
    let mut problems = Vec::new();
    let Some(source) = source::read(text, &mut problems) else {
        return CheckedDefinition {
            definition: None,
            problems,
        };
    };
    let (definition, mut problems) = read::read_definition(source, durability, problems);
    if let Some(definition) = &definition {
        problems.extend(Graph::from_definition(definition).warnings());
    }
    CheckedDefinition {
        definition,
        problems,
    }
}

impl Definition {
    /// Parses a definition, or returns all problems. Warnings do not make it fail;
    /// use [`check`] to get them.
    pub fn parse(text: &str) -> Result<Self, Vec<DefinitionProblem>> {
        let checked = check(text);
        checked.definition.ok_or(checked.problems)
    }
}
