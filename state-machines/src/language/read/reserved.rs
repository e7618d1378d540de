//! The reserved variable `$states`: a state has a result only when it has one,
//! and an error only where it is caught. AWS refuses a definition that reads
//! them anywhere else.

use super::Reader;
use crate::data::{Expression, StatesField, Template};
use crate::language::pointer::Pointer;
use crate::language::problem::Code;

/// What `$states` has beside the input and the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Has {
    /// Nothing.
    Neither,
    /// `$states.result`: the Output and Assign of a Task, a Parallel, a Map.
    Result,
    /// `$states.errorOutput`: the Output and Assign of a catcher.
    Error,
}

impl Has {
    fn lacks(self, field: StatesField) -> bool {
        match field {
            StatesField::Result => self != Self::Result,
            StatesField::ErrorOutput => self != Self::Error,
            StatesField::Input | StatesField::Context => false,
        }
    }
}

/// The fields that are not everywhere, and where they are.
const FIELDS: [(StatesField, &str); 2] = [
    (
        StatesField::Result,
        "only the Output and Assign of a Task, a Parallel or a Map have it",
    ),
    (
        StatesField::ErrorOutput,
        "only the Output and Assign of a catcher have it",
    ),
];

impl Reader {
    pub(super) fn check_expression(&mut self, at: &Pointer, expression: &Expression, has: Has) {
        for (field, place) in FIELDS {
            if has.lacks(field) && expression.mentions(field) {
                self.no_such_value(at, field, place);
            }
        }
    }

    pub(super) fn check_template(&mut self, at: &Pointer, template: &Template, has: Has) {
        for (field, place) in FIELDS {
            if has.lacks(field) {
                for inner in template.mentions(field) {
                    self.no_such_value(&at.join(&inner), field, place);
                }
            }
        }
    }

    fn no_such_value(&mut self, at: &Pointer, field: StatesField, place: &str) {
        let name = field.name();
        let message = format!("there is no \"$states.{name}\" here; {place}");
        self.report(at, Code::NoSuchValue, message);
    }
}
