//! JSONPath, as defined by the States Language.
//!
//! A path that can only find one value is *definite*: its result is that value, and a
//! missing value is a fault. Any other path gives an array, which may be empty, even if
//! a parent is missing.

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

/// A path that selects from a document: `$.a[*].b`, `$$.Execution.Id`, `$name.field`.
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
    /// Parses a path.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(text.trim());
        let path = Self::read_from(&mut cursor)?;
        if !cursor.at_end() {
            return Err(cursor.unexpected("'.', '[' or the end of the path"));
        }
        Ok(path)
    }

    /// Parses a path or a call such as `States.Format('{}', $.a)`, for `ErrorPath`,
    /// `CausePath` and the `.$` fields of a template.
    pub fn parse_or_call(text: &str) -> Result<Self, SyntaxError> {
        if text.trim_start().starts_with('$') {
            return Self::parse(text);
        }
        if text.starts_with(char::is_whitespace) {
            return Err(SyntaxError::new(
                "a function call must not begin with whitespace",
            ));
        }
        Ok(Self {
            text: text.to_owned(),
            kind: PathKind::Call(IntrinsicCall::parse(text)?),
        })
    }

    /// Parses the path at the cursor, and stops after it.
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

    /// The source text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Evaluates the path. A definite path that finds nothing is a `States.Runtime`; for
    /// another error name use [`EvaluationFault::with_error`].
    pub fn read(&self, scope: &EvaluationScope<'_>) -> Result<Value, EvaluationFault> {
        self.find(scope).map(Cow::into_owned)
    }

    /// Evaluates the path, borrowing from the scope where possible.
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

    /// Evaluates the path; a missing value is `None`, not a fault.
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
                format!("the path '{path}' reads the variable ${name}, which is not assigned")
            }
            PathRoot::Variable(name) => format!("the path '{path}' finds nothing in ${name}"),
            PathRoot::Context => format!("the path '{path}' finds nothing in the context object"),
            _ => format!(
                "the path '{path}' finds nothing in the input {}",
                shorten_json(scope.input)
            ),
        }
    }

    /// Whether it names exactly one location: no wildcard, slice, filter or function.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        matches!(&self.kind, PathKind::Query(query) if query.is_reference())
    }

    /// Whether it finds at most one value; any other path finds an array.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        matches!(&self.kind, PathKind::Query(query) if query.is_definite())
    }

    /// Whether it reads the context object, `$$`.
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
