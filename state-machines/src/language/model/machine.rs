//! The definition, and the machines of states that it consists of.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{QueryLanguage, State};
use crate::language::DefinitionProblem;

/// A definition that was checked and has no errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub(in crate::language) comment: Option<String>,
    pub(in crate::language) version: Option<String>,
    pub(in crate::language) query_language: QueryLanguage,
    pub(in crate::language) timeout_seconds: Option<u64>,
    pub(in crate::language) machine: Machine,
    pub(in crate::language) uses_jsonata: bool,
    pub(in crate::language) source: Value,
    pub(in crate::language) unfilled: Vec<DefinitionProblem>,
}

impl Definition {
    /// The author's comment.
    pub fn comment(&self) -> Option<&str> {
        self.comment.as_deref()
    }

    /// The version of the language; "1.0" by default.
    pub fn version(&self) -> &str {
        self.version.as_deref().unwrap_or("1.0")
    }

    /// The query language of all states that do not set their own.
    pub fn query_language(&self) -> QueryLanguage {
        self.query_language
    }

    /// The timeout of an execution.
    pub fn timeout_seconds(&self) -> Option<u64> {
        self.timeout_seconds
    }

    /// The top-level machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The state that an execution starts with.
    pub fn start_at(&self) -> &str {
        self.machine.start_at()
    }

    /// The top-level states, in the order of the definition.
    pub fn states(&self) -> &[State] {
        self.machine.states()
    }

    /// Finds a state by its name at any level; names are unique in a definition.
    pub fn find(&self, name: &str) -> Option<&State> {
        self.machine.find(name)
    }

    /// The values that cannot be parsed because they contain an unfilled
    /// substitution (`${…}`). A definition with such values can be drawn but must
    /// not run: the model holds placeholders in their place.
    pub fn unfilled(&self) -> &[DefinitionProblem] {
        &self.unfilled
    }

    /// Whether any state at any level uses JSONata.
    pub fn uses_jsonata(&self) -> bool {
        self.uses_jsonata
    }

    /// The source JSON.
    pub fn source(&self) -> &Value {
        &self.source
    }
}

/// A set of connected states: a definition, a branch of a Parallel, or the
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

    /// The first state.
    pub fn start_at(&self) -> &str {
        &self.start_at
    }

    /// Its states, in the order of the definition.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Finds one of its own states.
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.get(*self.by_name.get(name)?)
    }

    /// Whether a state of it or of a nested machine uses JSONata.
    pub(in crate::language) fn uses_jsonata(&self) -> bool {
        self.states.iter().any(|state| {
            state.query_language == QueryLanguage::Jsonata
                || state.machines().iter().any(Self::uses_jsonata)
        })
    }

    /// Finds a state of it or of a nested machine.
    pub fn find(&self, name: &str) -> Option<&State> {
        self.state(name).or_else(|| {
            self.states
                .iter()
                .flat_map(State::machines)
                .find_map(|inner| inner.find(name))
        })
    }
}
