//! The steps from the input to the output of a state in JSONPath:
//!
//! ```text
//!   raw input ─ InputPath ─ Parameters ─▶ (the state's work) ─▶ result
//!       │                                                          │
//!       │                                                   ResultSelector
//!       ▼                                                          ▼
//!   ResultPath combines both ─ OutputPath ─▶ output
//! ```
//!
//! Each step is a separate function, so that the interpreter can stop between them.
//! `Assign` and the payload size limit are here too.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{EvaluationFault, EvaluationScope, Path, ReferencePath, SyntaxError, Template, errors};

/// The maximum payload size, in bytes of JSON text: input, result or output.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// The maximum length of a variable name, in characters.
pub const VARIABLE_NAME_MAX: usize = 80;

/// The value of `InputPath` or `OutputPath`.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum PathSelect {
    /// The field is absent or `$`: the whole value.
    #[default]
    All,
    /// The field is `null`: an empty object.
    Nothing,
    /// A path.
    Path(Path),
}

impl PathSelect {
    /// Parses the field; `None` if it is absent.
    pub fn parse(field: Option<&Value>) -> Result<Self, SyntaxError> {
        match field {
            None => Ok(Self::All),
            Some(Value::Null) => Ok(Self::Nothing),
            Some(Value::String(text)) => Path::parse(text).map(Self::Path),
            Some(_) => Err(SyntaxError::new("the field must be a path or null")),
        }
    }

    /// Selects from `value`, which is `$`. A path that finds nothing is a
    /// `States.Runtime`.
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

/// The value of `ResultPath`.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ResultPlacement {
    /// The field is absent or `$`: the result replaces the input.
    #[default]
    Replace,
    /// The field is `null`: the result is discarded.
    Discard,
    /// The result is inserted into the input.
    At(ReferencePath),
}

impl ResultPlacement {
    /// Parses the field; `None` if it is absent.
    pub fn parse(field: Option<&Value>) -> Result<Self, SyntaxError> {
        match field {
            None => Ok(Self::Replace),
            Some(Value::Null) => Ok(Self::Discard),
            Some(Value::String(text)) => ReferencePath::parse(text).map(Self::At),
            Some(_) => Err(SyntaxError::new(
                "the field must be a reference path or null",
            )),
        }
    }

    /// Combines the raw input and the result.
    pub fn apply(&self, raw_input: Value, result: Value) -> Result<Value, EvaluationFault> {
        match self {
            Self::Replace => Ok(result),
            Self::Discard => Ok(raw_input),
            Self::At(path) => path.insert(raw_input, result),
        }
    }
}

/// Applies `InputPath` to the raw input, `scope.input`.
pub fn input_path<'a>(
    select: &PathSelect,
    scope: &EvaluationScope<'a>,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    select.apply(scope.input, scope)
}

/// Applies `Parameters`, with the input after `InputPath` as `$`. Without the field
/// the input is unchanged.
pub fn parameters<'a>(
    template: Option<&Template>,
    input: Cow<'a, Value>,
    scope: &EvaluationScope<'_>,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    fill_or_keep(template, input, scope, "Parameters")
}

/// Applies `ResultSelector`, with the result as `$`. Without the field the result is
/// unchanged.
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

/// Applies `ResultPath`: combines the raw input and the result.
pub fn result_path(
    placement: &ResultPlacement,
    raw_input: Value,
    result: Value,
) -> Result<Value, EvaluationFault> {
    placement.apply(raw_input, result)
}

/// Applies `OutputPath` to the result of `ResultPath`.
pub fn output_path<'a>(
    select: &PathSelect,
    value: &'a Value,
    scope: &EvaluationScope<'a>,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    select.apply(value, scope)
}

/// Evaluates `Assign` and returns the new variables. Every expression reads the
/// variables from before; the caller applies the new ones.
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
            "Assign must evaluate to an object of variables",
        )),
    }
}

/// Checks the name of a variable: a letter or `_`, then letters, digits and `_`, at
/// most [`VARIABLE_NAME_MAX`]; `states` is reserved.
pub fn check_variable_name(name: &str) -> Result<(), SyntaxError> {
    let mut chars = name.chars();
    let starts_well = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
    if !starts_well || !chars.all(|c| c.is_alphanumeric() || c == '_') {
        return Err(SyntaxError::new(format!(
            "'{name}' is not a valid variable name: use a letter or '_' first, then letters, digits and '_'"
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

/// Rejects a payload that is larger than [`PAYLOAD_BYTES_MAX`] with
/// `States.DataLimitExceeded`. `what` names it: `"the input"`.
pub fn check_size(payload: &Value, what: &str) -> Result<(), EvaluationFault> {
    let bytes = json_bytes(payload);
    if bytes <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    Err(EvaluationFault::new(
        errors::DATA_LIMIT_EXCEEDED,
        format!("{what} has {bytes} bytes, the limit is {PAYLOAD_BYTES_MAX}"),
    ))
}

/// The length of the JSON text, computed without building it.
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
    // Writing a Value to a counter cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
