//! Paths that name exactly one place, where a result is put.

use serde_json::{Map, Value};

use super::parse;
use super::query::{Root, Step};
use crate::data::cursor::Cursor;
use crate::data::{Fault, Unreadable, errors, shown};

/// A path that names exactly one place in the input: `$.a.b[0]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferencePath {
    text: String,
    places: Vec<Place>,
}

#[derive(Debug, Clone, PartialEq)]
enum Place {
    Field(String),
    Item(usize),
}

impl ReferencePath {
    /// Reads a reference path. The context object and variables are no places
    /// to put something at.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut cursor = Cursor::new(text.trim());
        let query = parse::query(&mut cursor, 0)?;
        if !cursor.at_end() {
            return Err(cursor.unexpected("'.', '[' or the end of the path"));
        }
        if query.root != Root::Input {
            return Err(Unreadable::new(format!(
                "'{text}' does not lead into the input: a reference path begins with '$.' or '$['"
            )));
        }
        let place = |step| match step {
            Step::Name(name) => Some(Place::Field(name)),
            Step::Index(index) => usize::try_from(index).ok().map(Place::Item),
            _ => None,
        };
        let places: Option<Vec<Place>> = query.steps.into_iter().map(place).collect();
        match places {
            Some(places) => Ok(Self {
                text: text.to_owned(),
                places,
            }),
            None => Err(Unreadable::new(format!(
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
    pub fn put(&self, mut document: Value, value: Value) -> Result<Value, Fault> {
        let mut target = &mut document;
        for place in &self.places {
            let found = match (place, target) {
                (Place::Field(name), Value::Object(fields)) => Some(
                    fields
                        .entry(name.as_str())
                        // A mark that cannot stay: the next place makes an
                        // object of it, or the value replaces it.
                        .or_insert_with(|| Value::Object(Map::new())),
                ),
                (Place::Item(index), Value::Array(items)) => items.get_mut(*index),
                _ => None,
            };
            target = match found {
                Some(found) => found,
                None => return Err(self.no_room(place)),
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
                Place::Field(name) => value.get(name),
                Place::Item(index) => value.get(index),
            })
    }

    fn no_room(&self, place: &Place) -> Fault {
        let what = match place {
            Place::Field(name) => format!("the field {}", shown(&Value::String(name.clone()))),
            Place::Item(index) => format!("the item {index}"),
        };
        Fault::new(
            errors::RESULT_PATH_MATCH_FAILURE,
            format!(
                "nothing can be put at '{}': there is no place for {what}",
                self.text
            ),
        )
    }
}
