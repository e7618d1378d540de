//! User-defined names: of states, variables, labels and errors.

use serde_json::Value;

use super::object::JsonObject;
use super::{DefinitionReader, suggest};
use crate::language::pointer::Pointer;
use crate::language::problem::ProblemCode;

/// The maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 80;
/// The maximum length of a Map's label, in characters.
const LABEL_CHARS_MAX: usize = 40;

/// The error names that the specification reserves.
const RESERVED_ERRORS: &[&str] = &[
    "States.ALL",
    "States.BranchFailed",
    "States.DataLimitExceeded",
    "States.ExceedToleratedFailureThreshold",
    "States.HeartbeatTimeout",
    "States.Http.Socket",
    "States.IntrinsicFailure",
    "States.ItemReaderFailed",
    "States.NoChoiceMatched",
    "States.ParameterPathFailure",
    "States.Permissions",
    "States.QueryEvaluationError",
    "States.ResultPathMatchFailure",
    "States.ResultWriterFailed",
    "States.Runtime",
    "States.TaskFailed",
    "States.Timeout",
];

impl DefinitionReader {
    /// Checks the name of a state: its length, and that it is unique in the definition.
    pub(super) fn check_state_name(&mut self, name: &str, at: &Pointer) {
        let chars = name.chars().count();
        if chars == 0 || chars > NAME_CHARS_MAX {
            self.report(
                at,
                ProblemCode::StateName,
                format!(
                    "a state's name has 1 to {NAME_CHARS_MAX} characters, and this has {chars}"
                ),
            );
        }
        if let Some(first) = self.names.get(name) {
            let message = format!(
                "there is another state named {name:?} at {first}; names are unique in the whole definition, so rename one"
            );
            self.report(at, ProblemCode::DuplicateState, message);
        } else {
            self.names.insert(name.to_owned(), at.clone());
        }
    }

    /// Checks the names of variables in `Assign`.
    pub(super) fn check_variable_names(&mut self, assign: &JsonObject<'_>) {
        for name in assign.fields.keys() {
            let bare = name.strip_suffix(".$").unwrap_or(name);
            let wrong = if bare == "states" {
                Some("\"states\" is reserved".to_owned())
            } else if !is_identifier(bare) {
                Some(format!(
                    "{bare:?} is not a variable's name: it begins with a letter, and goes on with letters, digits and underscores"
                ))
            } else if bare.chars().count() > NAME_CHARS_MAX {
                Some(format!(
                    "a variable's name has at most {NAME_CHARS_MAX} characters"
                ))
            } else {
                None
            };
            if let Some(wrong) = wrong {
                self.report(&assign.pointer_to(name), ProblemCode::VariableName, wrong);
            }
        }
    }

    /// `Label` of a Map, which becomes part of the names of its runs.
    pub(super) fn read_label<'a>(&mut self, map: &JsonObject<'a>) -> Option<&'a str> {
        let label = self.read_text(map, "Label")?;
        let at = map.pointer_to("Label");
        let chars = label.chars().count();
        if chars == 0 || chars > LABEL_CHARS_MAX {
            self.report(
                &at,
                ProblemCode::Label,
                format!("a label has 1 to {LABEL_CHARS_MAX} characters, and this has {chars}"),
            );
        }
        if let Some(bad) = label.chars().find(|c| !is_label_char(*c)) {
            self.report(
                &at,
                ProblemCode::Label,
                format!("a label cannot hold {bad:?}"),
            );
        }
        Some(label)
    }

    /// The names in `ErrorEquals`.
    pub(super) fn read_error_names(&mut self, object: &JsonObject<'_>) -> Vec<String> {
        self.require_field(object, "ErrorEquals");
        let list = self.read_non_empty_list(object, "ErrorEquals");
        let at = object.pointer_to("ErrorEquals");
        let mut names = Vec::new();
        for (index, value) in list.into_iter().flatten().enumerate() {
            match value {
                Value::String(name) => {
                    self.check_error_name(name, &at.item(index));
                    names.push(name.clone());
                }
                other => self.report_wrong_type(&at.item(index), "the name of an error", other),
            }
        }
        names
    }

    fn check_error_name(&mut self, name: &str, at: &Pointer) {
        if name.starts_with("States.") && !RESERVED_ERRORS.contains(&name) {
            let hint = suggest::suggest_name(name, RESERVED_ERRORS.iter().copied());
            self.report(
                at,
                ProblemCode::ErrorName,
                format!("names that begin with \"States.\" are reserved, and {name:?} is not a reserved error{hint}"),
            );
        }
    }
}

/// Whether a name is a Unicode identifier, approximated with the standard library.
fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
}

fn is_label_char(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"?*<>{}[]:;,\\|^~$#%&`\"/".contains(c)
}
