//! The definition, and the machine of states that it and its parts are.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{QueryLanguage, State};
use crate::language::Problem;

/// A definition that may be run: it was checked, and has no errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub(in crate::language) comment: Option<String>,
    pub(in crate::language) version: Option<String>,
    pub(in crate::language) query_language: QueryLanguage,
    pub(in crate::language) timeout_seconds: Option<u64>,
    pub(in crate::language) machine: Machine,
    pub(in crate::language) uses_jsonata: bool,
    pub(in crate::language) source: Value,
    pub(in crate::language) unfilled: Vec<Problem>,
}

impl Definition {
    /// What its author says of it.
    pub fn comment(&self) -> Option<&str> {
        self.comment.as_deref()
    }

    /// The version of the language; "1.0" where none is written.
    pub fn version(&self) -> &str {
        self.version.as_deref().unwrap_or("1.0")
    }

    /// The query language of all states that name no other.
    pub fn query_language(&self) -> QueryLanguage {
        self.query_language
    }

    /// How long an execution may take.
    pub fn timeout_seconds(&self) -> Option<u64> {
        self.timeout_seconds
    }

    /// Its states, and where they begin.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The state an execution begins with.
    pub fn start_at(&self) -> &str {
        self.machine.start_at()
    }

    /// The states at the top, in the order in which they are written.
    pub fn states(&self) -> &[State] {
        self.machine.states()
    }

    /// A state by its name, wherever it is: names are unique in a definition.
    pub fn find(&self, name: &str) -> Option<&State> {
        self.machine.find(name)
    }

    /// The values that cannot be read because a substitution (`${…}`) in them
    /// is not filled in. A definition that has any can be drawn, and must not
    /// be run: what stands in their place here is a guess.
    pub fn unfilled(&self) -> &[Problem] {
        &self.unfilled
    }

    /// Whether a state of it, wherever it is, is in JSONata.
    pub fn uses_jsonata(&self) -> bool {
        self.uses_jsonata
    }

    /// The definition as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }
}

/// States that lead to each other: a definition, a branch of a Parallel, the
/// processor of a Map.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    start_at: String,
    states: Vec<State>,
    by_name: BTreeMap<String, usize>,
}

impl Machine {
    pub(in crate::language) fn new(start_at: String, states: Vec<State>) -> Self {
        let by_name = states
            .iter()
            .enumerate()
            .map(|(index, state)| (state.name.clone(), index))
            .collect();
        Self {
            start_at,
            states,
            by_name,
        }
    }

    /// The state it begins with.
    pub fn start_at(&self) -> &str {
        &self.start_at
    }

    /// Its states, in the order in which they are written.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// One of its own states.
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.get(*self.by_name.get(name)?)
    }

    /// Whether a state of it or of a machine within it is in JSONata.
    pub(in crate::language) fn uses_jsonata(&self) -> bool {
        self.states.iter().any(|state| {
            state.query_language == QueryLanguage::Jsonata
                || state.machines().iter().any(Self::uses_jsonata)
        })
    }

    /// A state of it or of a machine within it.
    pub fn find(&self, name: &str) -> Option<&State> {
        self.state(name).or_else(|| {
            self.states
                .iter()
                .flat_map(State::machines)
                .find_map(|inner| inner.find(name))
        })
    }
}
