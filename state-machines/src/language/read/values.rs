//! Fields that hold paths, expressions and templates, and fields that hold either a
//! literal or a path or expression that is resolved at run time.

use serde_json::{Value, json};

use super::DefinitionReader;
use super::object::JsonObject;
use super::reserved::StatesValue;
use super::tokens::{self, UNFILLED};
use crate::data::{Expression, Path, ReferencePath, SyntaxError, Template};
use crate::language::model::{FieldValue, PathSelection, QueryLanguage, ResultTarget, TextValue};
use crate::language::pointer::Pointer;
use crate::language::problem::ProblemCode;

/// Whether a string is intended as a JSONata expression, well-formed or not.
pub(super) fn is_expression(text: &str) -> bool {
    text.starts_with("{%") || text.ends_with("%}")
}

impl DefinitionReader {
    /// Returns the value, or reports the syntax error.
    pub(super) fn accept_or_report<T>(
        &mut self,
        at: &Pointer,
        code: ProblemCode,
        read: Result<T, SyntaxError>,
    ) -> Option<T> {
        self.accept_or_report_all(at, code, read.map_err(|unreadable| vec![unreadable]))
    }

    /// Returns the value, or reports all syntax errors.
    pub(super) fn accept_or_report_all<T>(
        &mut self,
        at: &Pointer,
        code: ProblemCode,
        read: Result<T, Vec<SyntaxError>>,
    ) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(unreadable) => {
                for wrong in unreadable {
                    self.report(&at.join(&wrong.at), code, wrong.reason);
                }
                None
            }
        }
    }

    /// Reports a substitution in a path, which would be parsed as a name.
    fn check_token(&mut self, at: &Pointer, text: &str) {
        if tokens::find_token(text).is_some() {
            self.report(at, ProblemCode::Path, UNFILLED);
        }
    }

    pub(super) fn read_path(&mut self, object: &JsonObject<'_>, name: &str) -> Option<Path> {
        let text = self.read_text(object, name)?;
        self.check_token(&object.pointer_to(name), text);
        self.accept_or_report(
            &object.pointer_to(name),
            ProblemCode::Path,
            Path::parse(text),
        )
    }

    /// `InputPath`, `OutputPath`.
    pub(super) fn read_path_selection(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
    ) -> PathSelection {
        match object.get(name) {
            Some(Value::Null) => PathSelection::Nothing,
            _ => self
                .read_path(object, name)
                .map_or(PathSelection::Whole, PathSelection::Path),
        }
    }

    /// `ResultPath`.
    pub(super) fn read_result_path(
        &mut self,
        object: &JsonObject<'_>,
        language: QueryLanguage,
    ) -> ResultTarget {
        let name = "ResultPath";
        if language == QueryLanguage::Jsonata || !object.has(name) {
            return ResultTarget::Whole;
        }
        if object.get(name) == Some(&Value::Null) {
            return ResultTarget::Nowhere;
        }
        let Some(text) = self.read_text(object, name) else {
            return ResultTarget::Whole;
        };
        // "$" is the whole input, the same as no path.
        if text == "$" {
            return ResultTarget::Whole;
        }
        self.check_token(&object.pointer_to(name), text);
        let read = ReferencePath::parse(text);
        self.accept_or_report(&object.pointer_to(name), ProblemCode::Path, read)
            .map_or(ResultTarget::Whole, ResultTarget::At)
    }

    pub(super) fn read_expression(&mut self, at: &Pointer, text: &str) -> Option<Expression> {
        let read = self.accept_or_report(at, ProblemCode::Expression, Expression::parse(text))?;
        self.check_expression(at, &read, StatesValue::Neither);
        Some(read)
    }

    /// A payload template in the query language of the state. Fields of the other
    /// language have been reported already and are not read.
    pub(super) fn read_template(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        language: QueryLanguage,
    ) -> Option<Template> {
        self.read_template_with(object, name, language, StatesValue::Neither)
    }

    /// A payload template where a result or an error may be available.
    fn read_template_with(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        language: QueryLanguage,
        has: StatesValue,
    ) -> Option<Template> {
        let value = object.get(name)?;
        let read = match language {
            QueryLanguage::JsonPath => Template::json_path(value),
            QueryLanguage::Jsonata => Template::jsonata(value),
        };
        if language == QueryLanguage::JsonPath {
            for inner in tokens::find_in_paths(value, |name| name.ends_with(".$")) {
                let at = object.pointer_to(name).join(&inner);
                self.report(&at, ProblemCode::Template, UNFILLED);
            }
        }
        let code = match language {
            QueryLanguage::JsonPath => ProblemCode::Template,
            QueryLanguage::Jsonata => ProblemCode::Expression,
        };
        let read = self.accept_or_report_all(&object.pointer_to(name), code, read)?;
        self.check_template(&object.pointer_to(name), &read, has);
        Some(read)
    }

    /// `Parameters` in JSONPath, `Arguments` in JSONata.
    pub(super) fn read_arguments(
        &mut self,
        object: &JsonObject<'_>,
        language: QueryLanguage,
    ) -> Option<Template> {
        match language {
            QueryLanguage::JsonPath => self.read_template(object, "Parameters", language),
            QueryLanguage::Jsonata => {
                self.check_object_or_expression(object, "Arguments");
                self.read_template(object, "Arguments", language)
            }
        }
    }

    /// Reports a string that is not an expression: most likely its `{% %}` is
    /// missing.
    pub(super) fn check_object_or_expression(&mut self, object: &JsonObject<'_>, name: &str) {
        if let Some(Value::String(text)) = object.get(name)
            && !is_expression(text)
        {
            self.report(
                &object.pointer_to(name),
                ProblemCode::Expression,
                format!(
                    "{name:?} is an object or an expression; write the text between {{% and %}}"
                ),
            );
        }
    }

    /// `Output` (JSONata only).
    pub(super) fn read_output(
        &mut self,
        object: &JsonObject<'_>,
        language: QueryLanguage,
        has: StatesValue,
    ) -> Option<Template> {
        match language {
            QueryLanguage::JsonPath => None,
            QueryLanguage::Jsonata => self.read_template_with(object, "Output", language, has),
        }
    }

    /// `Assign`: an object of variables.
    pub(super) fn read_assign(
        &mut self,
        object: &JsonObject<'_>,
        language: QueryLanguage,
        has: StatesValue,
    ) -> Option<Template> {
        let variables = self.read_object(object, "Assign")?;
        self.check_variable_names(&variables);
        // AWS accepts a branch that assigns the same variable as an enclosing
        // catcher.
        if has != StatesValue::Error {
            self.scopes.record_assignments(&variables);
        }
        self.read_template_with(object, "Assign", language, has)
    }

    /// A whole number: a literal `Name`, a `NamePath`, or `{% … %}`.
    pub(super) fn read_integer_value(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        language: QueryLanguage,
        (min, max): (u64, u64),
    ) -> Option<FieldValue<u64>> {
        if let Some(found) = self.read_dynamic_value(object, name, language) {
            return found;
        }
        self.read_integer(object, name, min, max)
            .map(FieldValue::Fixed)
    }

    /// A number: a literal, a path or an expression.
    pub(super) fn read_number_value(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        language: QueryLanguage,
        (min, max): (f64, f64),
    ) -> Option<FieldValue<f64>> {
        if let Some(found) = self.read_dynamic_value(object, name, language) {
            return found;
        }
        self.read_number(object, name, min, max)
            .map(FieldValue::Fixed)
    }

    /// The path or expression of a value that is not a literal. The outer option is
    /// none for literals; the inner one is none if the syntax is invalid.
    pub(super) fn read_dynamic_value<T>(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        language: QueryLanguage,
    ) -> Option<Option<FieldValue<T>>> {
        match language {
            QueryLanguage::JsonPath => {
                let path = format!("{name}Path");
                self.check_only_one(object, &[name, &path]);
                let is_path = object.has(&path) && !object.has(name);
                is_path.then(|| self.read_path(object, &path).map(FieldValue::Path))
            }
            QueryLanguage::Jsonata => {
                let text = object.get(name)?.as_str()?;
                let at = object.pointer_to(name);
                is_expression(text)
                    .then(|| self.read_expression(&at, text).map(FieldValue::Expression))
            }
        }
    }

    /// A string: a literal, a path, an intrinsic function or an expression.
    pub(super) fn read_text_value(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        language: QueryLanguage,
    ) -> Option<TextValue> {
        let path = format!("{name}Path");
        if language == QueryLanguage::JsonPath {
            self.check_only_one(object, &[name, &path]);
            if object.has(&path) && !object.has(name) {
                return self.read_text_path(object, &path);
            }
        }
        let text = self.read_text(object, name)?;
        if language == QueryLanguage::Jsonata && is_expression(text) {
            return self
                .read_expression(&object.pointer_to(name), text)
                .map(TextValue::Expression);
        }
        Some(TextValue::Fixed(text.to_owned()))
    }

    fn read_text_path(&mut self, object: &JsonObject<'_>, name: &str) -> Option<TextValue> {
        let written = self.read_text(object, name)?;
        if !written.starts_with("States.") {
            return self.read_path(object, name).map(TextValue::Path);
        }
        // Intrinsic functions are evaluated by templates: wrap it in a template
        // with a single field.
        let template = json!({ format!("{}.$", TextValue::FILLED): written });
        let read = Template::json_path(&template).map_err(|unreadable| {
            unreadable
                .into_iter()
                .map(|wrong| SyntaxError {
                    at: String::new(),
                    reason: wrong.reason,
                })
                .collect()
        });
        self.accept_or_report_all(&object.pointer_to(name), ProblemCode::Path, read)
            .map(TextValue::Function)
    }
}
