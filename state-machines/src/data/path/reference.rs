//! Paths that name exactly one place, where a result is put.

use serde_json::{Map, Value};

use super::parse;
use super::query::{PathRoot, QueryStep};
use crate::data::cursor::Cursor;
use crate::data::{EvaluationFault, SyntaxError, errors, shorten_json};

/// A path that names exactly one place in the input: `$.a.b[0]`.
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
    /// Reads a reference path. The context object and variables are no places
    /// to put something at.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(text.trim());
        let query = parse::parse_query(&mut cursor, 0)?;
        if !cursor.at_end() {
            return Err(cursor.unexpected("'.', '[' or the end of the path"));
        }
        if query.root != PathRoot::Input {
            return Err(SyntaxError::new(format!(
                "'{text}' does not lead into the input: a reference path begins with '$.' or '$['"
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
                "'{text}' can mean several places: a reference path has only names and indexes"
            ))),
        }
    }

    /// The path as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A document with the value put at that place; what leads to it is made.
    ///
    /// Missing fields become objects. Nothing that is there is thrown away to
    /// make room: a path through a text, a number or `null`, and an index that
    /// an array does not have, are a `States.ResultPathMatchFailure`.
    pub fn insert(&self, mut document: Value, value: Value) -> Result<Value, EvaluationFault> {
        let mut target = &mut document;
        for place in &self.places {
            let found = match (place, target) {
                (PathSegment::Field(name), Value::Object(fields)) => Some(
                    fields
                        .entry(name.as_str())
                        // A mark that cannot stay: the next place makes an
                        // object of it, or the value replaces it.
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

    /// What stands at that place.
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
                "nothing can be put at '{}': there is no place for {what}",
                self.text
            ),
        )
    }
}
