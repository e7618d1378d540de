//! JSONPath, as the States Language uses it.
//!
//! A path that can find one value only is *definite*: it gives that value, and
//! it is a fault if there is none. Any other gives an array, which may be
//! empty, also where what leads to it is missing.

mod filter;
mod find;
mod parse;
mod query;
mod reference;
#[cfg(test)]
mod tests;

pub use reference::ReferencePath;

use std::borrow::Cow;

use serde_json::Value;

use self::query::{PathQuery, PathRoot};
use super::cursor::Cursor;
use super::intrinsic::IntrinsicCall;
use super::random::SeededRandom;
use super::{EvaluationFault, EvaluationScope, SyntaxError, errors, shorten_json};

/// A path that takes something out of a document: `$.a[*].b`, `$$.Execution.Id`,
/// `$name.field`.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    text: String,
    kind: PathKind,
}

#[derive(Debug, Clone, PartialEq)]
enum PathKind {
    Query(PathQuery),
    Call(IntrinsicCall),
}

impl Path {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(text.trim());
        let path = Self::read_from(&mut cursor)?;
        if !cursor.at_end() {
            return Err(cursor.unexpected("'.', '[' or the end of the path"));
        }
        Ok(path)
    }

    /// Reads a path or a call such as `States.Format('{}', $.a)`: what
    /// `ErrorPath`, `CausePath` and the `.$` fields of a template may hold.
    pub fn parse_or_call(text: &str) -> Result<Self, SyntaxError> {
        if text.trim_start().starts_with('$') {
            return Self::parse(text);
        }
        if text.starts_with(char::is_whitespace) {
            return Err(SyntaxError::new("a function must not stand behind a blank"));
        }
        Ok(Self {
            text: text.to_owned(),
            kind: PathKind::Call(IntrinsicCall::parse(text)?),
        })
    }

    /// Reads the path that begins here, and stops behind it.
    pub(super) fn read_from(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let before = cursor.clone();
        let query = parse::parse_query(cursor, 0)?;
        if query.root == PathRoot::Current {
            return Err(before.unexpected("a path, which begins with '$'"));
        }
        let text = &before.rest()[..before.rest().len() - cursor.rest().len()];
        Ok(Self {
            text: text.to_owned(),
            kind: PathKind::Query(query),
        })
    }

    /// The path as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it finds. A definite path that finds nothing is a `States.Runtime`;
    /// where another name is due, [`EvaluationFault::with_error`] gives it.
    pub fn read(&self, scope: &EvaluationScope<'_>) -> Result<Value, EvaluationFault> {
        self.find(scope).map(Cow::into_owned)
    }

    /// What it finds, borrowed where it stands in the scope as it is.
    pub fn find<'a>(&self, scope: &EvaluationScope<'a>) -> Result<Cow<'a, Value>, EvaluationFault> {
        self.find_with(scope, &SeededRandom::new(scope.seed))
    }

    pub(super) fn find_with<'a>(
        &self,
        scope: &EvaluationScope<'a>,
        chance: &SeededRandom,
    ) -> Result<Cow<'a, Value>, EvaluationFault> {
        let query = match &self.kind {
            PathKind::Call(call) => return call.evaluate(scope, chance).map(Cow::Owned),
            PathKind::Query(query) => query,
        };
        match query.find(scope, None)?.value() {
            Some(value) => Ok(value),
            None => Err(EvaluationFault::new(
                errors::RUNTIME,
                self.nothing_found(query, scope),
            )),
        }
    }

    /// What it finds, if anything: absence is no fault here.
    pub fn find_if_present<'a>(
        &self,
        scope: &EvaluationScope<'a>,
    ) -> Result<Option<Cow<'a, Value>>, EvaluationFault> {
        match &self.kind {
            PathKind::Call(_) => self.find(scope).map(Some),
            PathKind::Query(query) => Ok(query.find(scope, None)?.value()),
        }
    }

    fn nothing_found(&self, query: &PathQuery, scope: &EvaluationScope<'_>) -> String {
        let path = &self.text;
        match &query.root {
            PathRoot::Variable(name) if !scope.variables.contains_key(name) => {
                format!("the path '{path}' reads the variable ${name}, which has no value here")
            }
            PathRoot::Variable(name) => format!("the path '{path}' finds nothing in ${name}"),
            PathRoot::Context => format!("the path '{path}' finds nothing in the context object"),
            _ => format!(
                "the path '{path}' finds nothing in the input {}",
                shorten_json(scope.input)
            ),
        }
    }

    /// Whether it names exactly one place: no wildcard, slice, filter or function.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        matches!(&self.kind, PathKind::Query(query) if query.is_reference())
    }

    /// Whether it finds one value or none; any other path finds an array.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        matches!(&self.kind, PathKind::Query(query) if query.is_definite())
    }

    /// Whether it looks into the context object, `$$`.
    #[must_use]
    pub fn is_context(&self) -> bool {
        matches!(&self.kind, PathKind::Query(query) if query.root == PathRoot::Context)
    }

    /// Whether it is a call of an intrinsic function.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self.kind, PathKind::Call(_))
    }

    /// The names of the variables it reads, without `$`.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        match &self.kind {
            PathKind::Query(query) => query.variables(&mut names),
            PathKind::Call(call) => call.variables(&mut names),
        }
        names
    }
}
