//! Reference paths: paths that name exactly one location, to insert a result.

use serde_json::{Map, Value};

use super::parse;
use super::query::{PathRoot, QueryStep};
use crate::data::cursor::Cursor;
use crate::data::{EvaluationFault, SyntaxError, errors, shorten_json};

/// A path that names exactly one location in the input: `$.a.b[0]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferencePath {
    text: String,
    places: Vec<PathSegment>,
}

#[derive(Debug, Clone, PartialEq)]
enum PathSegment {
    Field(String),
    Item(usize),
}

impl ReferencePath {
    /// Parses a reference path. It cannot lead into the context object or variables.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(text.trim());
        let query = parse::parse_query(&mut cursor, 0)?;
        if !cursor.at_end() {
            return Err(cursor.unexpected("'.', '[' or the end of the path"));
        }
        if query.root != PathRoot::Input {
            return Err(SyntaxError::new(format!(
                "'{text}' does not lead into the input: a reference path must begin with '$.' or '$['"
            )));
        }
        let place = |step| match step {
            QueryStep::Name(name) => Some(PathSegment::Field(name)),
            QueryStep::Index(index) => usize::try_from(index).ok().map(PathSegment::Item),
            _ => None,
        };
        let places: Option<Vec<PathSegment>> = query.steps.into_iter().map(place).collect();
        match places {
            Some(places) => Ok(Self {
                text: text.to_owned(),
                places,
            }),
            None => Err(SyntaxError::new(format!(
                "'{text}' can match several locations: a reference path may contain only names and indexes"
            ))),
        }
    }

    /// The source text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Inserts a value into a document; creates missing parents.
    ///
    /// Missing fields become objects. Existing values are never replaced by containers: a
    /// path through a string, a number or `null`, and an index out of range, are a
    /// `States.ResultPathMatchFailure`.
    pub fn insert(&self, mut document: Value, value: Value) -> Result<Value, EvaluationFault> {
        let mut target = &mut document;
        for place in &self.places {
            let found = match (place, target) {
                (PathSegment::Field(name), Value::Object(fields)) => Some(
                    fields
                        .entry(name.as_str())
                        // A placeholder: the next segment adds fields to it, or
                        // the value replaces it.
                        .or_insert_with(|| Value::Object(Map::new())),
                ),
                (PathSegment::Item(index), Value::Array(items)) => items.get_mut(*index),
                _ => None,
            };
            target = match found {
                Some(found) => found,
                None => return Err(self.no_place_fault(place)),
            };
        }
        *target = value;
        Ok(document)
    }

    /// The value at the path.
    #[must_use]
    pub fn get<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.places
            .iter()
            .try_fold(document, |value, place| match place {
                PathSegment::Field(name) => value.get(name),
                PathSegment::Item(index) => value.get(index),
            })
    }

    fn no_place_fault(&self, place: &PathSegment) -> EvaluationFault {
        let what = match place {
            PathSegment::Field(name) => {
                format!("the field {}", shorten_json(&Value::String(name.clone())))
            }
            PathSegment::Item(index) => format!("the item {index}"),
        };
        EvaluationFault::new(
            errors::RESULT_PATH_MATCH_FAILURE,
            format!(
                "cannot insert a value at '{}': the document cannot hold {what}",
                self.text
            ),
        )
    }
}
