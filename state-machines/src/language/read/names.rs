//! Names that somebody chooses: of states, variables, labels, errors.

use serde_json::Value;

use super::object::Object;
use super::{Reader, suggest};
use crate::language::pointer::Pointer;
use crate::language::problem::Code;

/// How long a name may be, in characters.
const NAME_CHARS_MAX: usize = 80;
/// How long a Map's label may be, in characters.
const LABEL_CHARS_MAX: usize = 40;

/// The errors that the language itself knows.
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

impl Reader {
    /// A state's name: not too long, and used once in the whole definition.
    pub(super) fn state_name(&mut self, name: &str, at: &Pointer) {
        let chars = name.chars().count();
        if chars == 0 || chars > NAME_CHARS_MAX {
            self.report(
                at,
                Code::StateName,
                format!(
                    "a state's name has 1 to {NAME_CHARS_MAX} characters, and this has {chars}"
                ),
            );
        }
        if let Some(first) = self.names.get(name) {
            let message = format!(
                "there is another state named {name:?} at {first}; names are unique in the whole definition, so rename one"
            );
            self.report(at, Code::DuplicateState, message);
        } else {
            self.names.insert(name.to_owned(), at.clone());
        }
    }

    /// The names of variables in `Assign`.
    pub(super) fn variable_names(&mut self, assign: &Object<'_>) {
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
                self.report(&assign.at(name), Code::VariableName, wrong);
            }
        }
    }

    /// A Map's label, which becomes part of the names of its runs.
    pub(super) fn label<'a>(&mut self, map: &Object<'a>) -> Option<&'a str> {
        let label = self.text(map, "Label")?;
        let at = map.at("Label");
        let chars = label.chars().count();
        if chars == 0 || chars > LABEL_CHARS_MAX {
            self.report(
                &at,
                Code::Label,
                format!("a label has 1 to {LABEL_CHARS_MAX} characters, and this has {chars}"),
            );
        }
        if let Some(bad) = label.chars().find(|c| !is_label_char(*c)) {
            self.report(&at, Code::Label, format!("a label cannot hold {bad:?}"));
        }
        Some(label)
    }

    /// The names in `ErrorEquals`.
    pub(super) fn error_names(&mut self, object: &Object<'_>) -> Vec<String> {
        self.required(object, "ErrorEquals");
        let list = self.filled_list(object, "ErrorEquals");
        let at = object.at("ErrorEquals");
        let mut names = Vec::new();
        for (index, value) in list.into_iter().flatten().enumerate() {
            match value {
                Value::String(name) => {
                    self.error_name(name, &at.item(index));
                    names.push(name.clone());
                }
                other => self.wrong_type(&at.item(index), "the name of an error", other),
            }
        }
        names
    }

    fn error_name(&mut self, name: &str, at: &Pointer) {
        if name.starts_with("States.") && !RESERVED_ERRORS.contains(&name) {
            let hint = suggest::hint(name, RESERVED_ERRORS.iter().copied());
            self.report(
                at,
                Code::ErrorName,
                format!("names that begin with \"States.\" are reserved, and {name:?} is none that can occur by itself{hint}"),
            );
        }
    }
}

/// A Unicode identifier, nearly: what the standard library can tell.
fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
}

fn is_label_char(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"?*<>{}[]:;,\\|^~$#%&`\"/".contains(c)
}
