//! What a state in JSONPath does to its input on the way to its output:
//!
//! ```text
//!   raw input ─ InputPath ─ Parameters ─▶ (the state's work) ─▶ result
//!       │                                                          │
//!       │                                                   ResultSelector
//!       ▼                                                          ▼
//!   ResultPath puts the one into the other ─ OutputPath ─▶ output
//! ```
//!
//! Each step is a function of its own, so that whoever runs states can stop
//! between them. `Assign` and the limit on the size of a payload are here too.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{EvaluationFault, EvaluationScope, Path, ReferencePath, SyntaxError, Template, errors};

/// The largest payload, in bytes of JSON text: input, result or output.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// The longest name of a variable, in characters.
pub const VARIABLE_NAME_MAX: usize = 80;

/// What `InputPath` or `OutputPath` says.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum PathSelect {
    /// The field is absent, or `$`: all of it.
    #[default]
    All,
    /// The field is `null`: an empty object instead.
    Nothing,
    /// A path.
    Path(Path),
}

impl PathSelect {
    /// Reads the field, `None` if it is absent.
    pub fn parse(field: Option<&Value>) -> Result<Self, SyntaxError> {
        match field {
            None => Ok(Self::All),
            Some(Value::Null) => Ok(Self::Nothing),
            Some(Value::String(text)) => Path::parse(text).map(Self::Path),
            Some(_) => Err(SyntaxError::new("the field is a path in a text, or null")),
        }
    }

    /// What it selects of `value`, which `$` stands for. A path that finds
    /// nothing is a `States.Runtime`.
    pub fn apply<'a>(
        &self,
        value: &'a Value,
        scope: &EvaluationScope<'a>,
    ) -> Result<Cow<'a, Value>, EvaluationFault> {
        match self {
            Self::All => Ok(Cow::Borrowed(value)),
            Self::Nothing => Ok(Cow::Owned(Value::Object(Map::new()))),
            Self::Path(path) => path.find(&scope.with_input(value)),
        }
    }
}

/// What `ResultPath` says.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ResultPlacement {
    /// The field is absent, or `$`: the result takes the place of the input.
    #[default]
    Replace,
    /// The field is `null`: the input stays as it is, the result is dropped.
    Discard,
    /// The result is put into the input.
    At(ReferencePath),
}

impl ResultPlacement {
    /// Reads the field, `None` if it is absent.
    pub fn parse(field: Option<&Value>) -> Result<Self, SyntaxError> {
        match field {
            None => Ok(Self::Replace),
            Some(Value::Null) => Ok(Self::Discard),
            Some(Value::String(text)) => ReferencePath::parse(text).map(Self::At),
            Some(_) => Err(SyntaxError::new(
                "the field is a reference path in a text, or null",
            )),
        }
    }

    /// The raw input with the result in it.
    pub fn apply(&self, raw_input: Value, result: Value) -> Result<Value, EvaluationFault> {
        match self {
            Self::Replace => Ok(result),
            Self::Discard => Ok(raw_input),
            Self::At(path) => path.insert(raw_input, result),
        }
    }
}

/// `InputPath`: what the state sees of its raw input, `scope.input`.
pub fn input_path<'a>(
    select: &PathSelect,
    scope: &EvaluationScope<'a>,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    select.apply(scope.input, scope)
}

/// `Parameters`, with the input after `InputPath` as `$`. Without the field
/// the input stays as it is.
pub fn parameters<'a>(
    template: Option<&Template>,
    input: Cow<'a, Value>,
    scope: &EvaluationScope<'_>,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    fill_or_keep(template, input, scope, "Parameters")
}

/// `ResultSelector`, with the result as `$`. Without the field the result
/// stays as it is.
pub fn result_selector<'a>(
    template: Option<&Template>,
    result: Cow<'a, Value>,
    scope: &EvaluationScope<'_>,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    fill_or_keep(template, result, scope, "ResultSelector")
}

fn fill_or_keep<'a>(
    template: Option<&Template>,
    value: Cow<'a, Value>,
    scope: &EvaluationScope<'_>,
    field: &str,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    match template {
        None => Ok(value),
        Some(template) => template
            .fill(&scope.with_input(&value).seeded_for(field))
            .map(Cow::Owned),
    }
}

/// `ResultPath`: the result and the raw input in one.
pub fn result_path(
    placement: &ResultPlacement,
    raw_input: Value,
    result: Value,
) -> Result<Value, EvaluationFault> {
    placement.apply(raw_input, result)
}

/// `OutputPath`: what leaves the state of what `ResultPath` made.
pub fn output_path<'a>(
    select: &PathSelect,
    value: &'a Value,
    scope: &EvaluationScope<'a>,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    select.apply(value, scope)
}

/// `Assign`: the variables that it sets. Every expression sees the variables
/// as they were before; whoever runs states puts the new ones in place.
pub fn assign(
    template: &Template,
    scope: &EvaluationScope<'_>,
) -> Result<Map<String, Value>, EvaluationFault> {
    match template.fill(&scope.seeded_for("Assign"))? {
        Value::Object(variables) => {
            for (name, value) in &variables {
                check_size(value, &format!("the variable ${name}"))?;
            }
            Ok(variables)
        }
        _ => Err(EvaluationFault::new(
            errors::RUNTIME,
            "Assign gave no object with variables in it",
        )),
    }
}

/// Whether a variable may have this name: a letter or `_`, then letters,
/// digits and `_`, at most [`VARIABLE_NAME_MAX`]; and not `states`, which is
/// the interpreter's.
pub fn check_variable_name(name: &str) -> Result<(), SyntaxError> {
    let mut chars = name.chars();
    let starts_well = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
    if !starts_well || !chars.all(|c| c.is_alphanumeric() || c == '_') {
        return Err(SyntaxError::new(format!(
            "'{name}' is no name of a variable: it has a letter first, then letters, digits and '_'"
        )));
    }
    if name.chars().count() > VARIABLE_NAME_MAX {
        return Err(SyntaxError::new(format!(
            "the name of a variable has at most {VARIABLE_NAME_MAX} characters"
        )));
    }
    if name == "states" {
        return Err(SyntaxError::new("the variable 'states' is reserved"));
    }
    Ok(())
}

/// Refuses a payload that is larger than [`PAYLOAD_BYTES_MAX`] with
/// `States.DataLimitExceeded`. `what` names it: `"the input"`.
pub fn check_size(payload: &Value, what: &str) -> Result<(), EvaluationFault> {
    let bytes = json_bytes(payload);
    if bytes <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    Err(EvaluationFault::new(
        errors::DATA_LIMIT_EXCEEDED,
        format!("{what} has {bytes} bytes, and {PAYLOAD_BYTES_MAX} are allowed"),
    ))
}

/// How long the JSON text would be; it is not made.
fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A value has only text for names, and counting never fails.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
