//! JSON becomes a definition, by the rules of the specification.
//!
//! Every reader takes what it can and notes what is wrong; none stops at the
//! first problem. What cannot be read is `None`, and has been noted. At the
//! end there is a definition only if no error was noted.
//!
//! ```text
//!   machine   a machine: its states, and whether each can be reached
//!   state     what all states have, and which fields each kind may have
//!   task, choice, simple, items   the kinds
//!   errors    Retry and Catch
//!   object    fields of plain types
//!   values    fields that hold paths, expressions, templates
//!   names     names of states, variables, labels
//!   reserved  `$states` where it has no result or no error
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
use super::problem::{Code, Problem};
use object::Object;

/// The longest time that can be written, in seconds.
const SECONDS_MAX: u64 = 99_999_999;

/// What a machine may do by how it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// An execution is durable, and may wait for others.
    #[default]
    Standard,
    /// An execution is short: it waits for no job, no callback, no activity.
    Express,
}

/// Reads a definition; there is one only if no error was found.
pub(super) fn definition(
    source: Value,
    durability: Durability,
    mut problems: Vec<Problem>,
) -> (Option<Definition>, Vec<Problem>) {
    let mut reader = Reader {
        problems: std::mem::take(&mut problems),
        names: BTreeMap::new(),
        scopes: scopes::Scopes::default(),
        language: QueryLanguage::default(),
        durability,
    };
    let read = reader.definition(&source);
    let mut problems = reader.problems;
    let unfilled = tokens::forgive(&source, &mut problems);
    let definition = read
        .filter(|_| !problems.iter().any(Problem::is_error))
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

/// What is known while a definition is read.
struct Reader {
    problems: Vec<Problem>,
    /// Where each name was first used: names are unique in all machines.
    names: BTreeMap<String, Pointer>,
    /// What is assigned where.
    scopes: scopes::Scopes,
    /// The query language of states that name none.
    language: QueryLanguage,
    durability: Durability,
}

/// A definition without its source.
struct Read {
    comment: Option<String>,
    version: Option<String>,
    query_language: QueryLanguage,
    timeout_seconds: Option<u64>,
    machine: super::model::Machine,
}

impl Reader {
    fn report(&mut self, at: &Pointer, code: Code, message: impl Into<String>) {
        self.problems.push(Problem::new(at, code, message));
    }

    fn definition(&mut self, source: &Value) -> Option<Read> {
        let object = self.as_object(Pointer::root(), source)?;
        self.allow_only(&object, fields::DEFINITION, "a state machine");
        let comment = self.text(&object, "Comment");
        let version = self.one_of(&object, "Version", &["1.0"]);
        let timeout_seconds = self.integer(&object, "TimeoutSeconds", 1, SECONDS_MAX);
        self.language = self.query_language(&object).unwrap_or_default();
        let machine = self.scope(&object, true);
        self.check_scopes();
        Some(Read {
            comment: comment.map(str::to_owned),
            version: version.map(str::to_owned),
            query_language: self.language,
            timeout_seconds,
            machine: machine?,
        })
    }

    /// `QueryLanguage` of a machine or a state.
    fn query_language(&mut self, object: &Object<'_>) -> Option<QueryLanguage> {
        let languages = [QueryLanguage::JsonPath, QueryLanguage::Jsonata];
        let names = languages.map(QueryLanguage::as_str);
        let written = self.one_of(object, "QueryLanguage", &names)?;
        languages
            .into_iter()
            .find(|language| language.as_str() == written)
    }
}
