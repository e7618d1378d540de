//! Parses JSON to a definition, by the rules of the specification.
//!
//! Every method reads what it can and reports what is wrong; none stops at the
//! first problem. `None` means that the value is absent or was reported. There is a
//! definition only if no error was reported.
//!
//! ```text
//!   machine   a machine: its states, and their reachability
//!   state     the common fields of states
//!   fields    the fields that each kind of state may have
//!   task, choice, simple, items   the kinds
//!   errors    Retry and Catch
//!   object    fields of plain types
//!   values    fields that hold paths, expressions, templates
//!   names     names of states, variables, labels
//!   scopes    variables of nested machines
//!   reserved  fields of `$states` that are not available everywhere
//!   tokens    substitutions that are not filled in yet
//! ```

mod choice;
mod errors;
mod fields;
mod items;
mod machine;
mod names;
mod object;
mod reserved;
mod scopes;
mod simple;
mod state;
mod suggest;
mod task;
mod tokens;
mod values;

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::{Definition, QueryLanguage};
use super::pointer::Pointer;
use super::problem::{DefinitionProblem, ProblemCode};
use object::JsonObject;

/// The maximum duration, in seconds.
const SECONDS_MAX: u64 = 99_999_999;

/// The kind of execution that a definition is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Durable; may wait for jobs, callbacks and activities.
    #[default]
    Standard,
    /// Short-lived; may not wait for jobs, callbacks or activities.
    Express,
}

/// Reads a definition; returns one only if there are no errors.
pub(super) fn read_definition(
    source: Value,
    durability: Durability,
    mut problems: Vec<DefinitionProblem>,
) -> (Option<Definition>, Vec<DefinitionProblem>) {
    let mut reader = DefinitionReader {
        problems: std::mem::take(&mut problems),
        names: BTreeMap::new(),
        scopes: scopes::VariableScopes::default(),
        language: QueryLanguage::default(),
        durability,
    };
    let read = reader.read_definition(&source);
    let mut problems = reader.problems;
    let unfilled = tokens::downgrade_unfilled(&source, &mut problems);
    let definition = read
        .filter(|_| !problems.iter().any(DefinitionProblem::is_error))
        .map(|read| Definition {
            source,
            comment: read.comment,
            version: read.version,
            query_language: read.query_language,
            timeout_seconds: read.timeout_seconds,
            uses_jsonata: read.machine.uses_jsonata(),
            machine: read.machine,
            unfilled,
        });
    (definition, problems)
}

/// The state of the parser.
struct DefinitionReader {
    problems: Vec<DefinitionProblem>,
    /// Where each state name was first used: names are unique across all machines.
    names: BTreeMap<String, Pointer>,
    /// Where variables are assigned.
    scopes: scopes::VariableScopes,
    /// The query language of states that do not set their own.
    language: QueryLanguage,
    durability: Durability,
}

/// A definition without its source.
struct ReadDefinition {
    comment: Option<String>,
    version: Option<String>,
    query_language: QueryLanguage,
    timeout_seconds: Option<u64>,
    machine: super::model::Machine,
}

impl DefinitionReader {
    fn report(&mut self, at: &Pointer, code: ProblemCode, message: impl Into<String>) {
        self.problems
            .push(DefinitionProblem::new(at, code, message));
    }

    fn read_definition(&mut self, source: &Value) -> Option<ReadDefinition> {
        let object = self.as_object(Pointer::root(), source)?;
        self.check_field_names(&object, fields::DEFINITION, "a state machine");
        let comment = self.read_text(&object, "Comment");
        let version = self.read_one_of(&object, "Version", &["1.0"]);
        let timeout_seconds = self.read_integer(&object, "TimeoutSeconds", 1, SECONDS_MAX);
        self.language = self.read_query_language(&object).unwrap_or_default();
        let machine = self.read_scoped_machine(&object, true);
        self.check_scopes();
        Some(ReadDefinition {
            comment: comment.map(str::to_owned),
            version: version.map(str::to_owned),
            query_language: self.language,
            timeout_seconds,
            machine: machine?,
        })
    }

    /// `QueryLanguage` of a machine or a state.
    fn read_query_language(&mut self, object: &JsonObject<'_>) -> Option<QueryLanguage> {
        let languages = [QueryLanguage::JsonPath, QueryLanguage::Jsonata];
        let names = languages.map(QueryLanguage::as_str);
        let written = self.read_one_of(object, "QueryLanguage", &names)?;
        languages
            .into_iter()
            .find(|language| language.as_str() == written)
    }
}
