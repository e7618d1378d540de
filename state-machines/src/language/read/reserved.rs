//! The reserved variable `$states`: `result` and `errorOutput` are only available in
//! some fields. AWS rejects a definition that reads them anywhere else.

use super::DefinitionReader;
use crate::data::{Expression, StatesField, Template};
use crate::language::pointer::Pointer;
use crate::language::problem::ProblemCode;

/// What `$states` has in addition to the input and the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatesValue {
    /// Nothing more.
    Neither,
    /// `$states.result`: the Output and Assign of a Task, a Parallel, a Map.
    Result,
    /// `$states.errorOutput`: the Output and Assign of a catcher.
    Error,
}

impl StatesValue {
    fn lacks(self, field: StatesField) -> bool {
        match field {
            StatesField::Result => self != Self::Result,
            StatesField::ErrorOutput => self != Self::Error,
            StatesField::Input | StatesField::Context => false,
        }
    }
}

/// The fields that are not always available, and where they are.
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

impl DefinitionReader {
    pub(super) fn check_expression(
        &mut self,
        at: &Pointer,
        expression: &Expression,
        has: StatesValue,
    ) {
        for (field, place) in FIELDS {
            if has.lacks(field) && expression.mentions(field) {
                self.report_no_such_value(at, field, place);
            }
        }
    }

    pub(super) fn check_template(&mut self, at: &Pointer, template: &Template, has: StatesValue) {
        for (field, place) in FIELDS {
            if has.lacks(field) {
                for inner in template.mentions(field) {
                    self.report_no_such_value(&at.join(&inner), field, place);
                }
            }
        }
    }

    fn report_no_such_value(&mut self, at: &Pointer, field: StatesField, place: &str) {
        let name = field.name();
        let message = format!("\"$states.{name}\" is not available here; {place}");
        self.report(at, ProblemCode::NoSuchValue, message);
    }
}
