//! Fields that hold paths, expressions and templates, and those that hold
//! either a plain value or a way to find it.

use serde_json::{Value, json};

use super::Reader;
use super::object::Object;
use super::reserved::Has;
use super::tokens::{self, UNFILLED};
use crate::data::{Expression, Path, ReferencePath, Template, Unreadable};
use crate::language::model::{Given, Part, Place, QueryLanguage, Text};
use crate::language::pointer::Pointer;
use crate::language::problem::Code;

/// Whether a text is meant as a JSONata expression, well formed or not.
pub(super) fn is_expression(text: &str) -> bool {
    text.starts_with("{%") || text.ends_with("%}")
}

impl Reader {
    /// Notes what cannot be read, and gives what could.
    pub(super) fn readable<T>(
        &mut self,
        at: &Pointer,
        code: Code,
        read: Result<T, Unreadable>,
    ) -> Option<T> {
        self.all_readable(at, code, read.map_err(|unreadable| vec![unreadable]))
    }

    /// Notes all that cannot be read, and gives what could.
    pub(super) fn all_readable<T>(
        &mut self,
        at: &Pointer,
        code: Code,
        read: Result<T, Vec<Unreadable>>,
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

    /// Notes a token in a path, which might be read as a name.
    fn check_token(&mut self, at: &Pointer, text: &str) {
        if tokens::token(text).is_some() {
            self.report(at, Code::Path, UNFILLED);
        }
    }

    pub(super) fn path(&mut self, object: &Object<'_>, name: &str) -> Option<Path> {
        let text = self.text(object, name)?;
        self.check_token(&object.at(name), text);
        self.readable(&object.at(name), Code::Path, Path::parse(text))
    }

    /// `InputPath`, `OutputPath`.
    pub(super) fn part(&mut self, object: &Object<'_>, name: &str) -> Part {
        match object.get(name) {
            Some(Value::Null) => Part::Nothing,
            _ => self.path(object, name).map_or(Part::Whole, Part::Path),
        }
    }

    /// `ResultPath`.
    pub(super) fn place(&mut self, object: &Object<'_>, language: QueryLanguage) -> Place {
        let name = "ResultPath";
        if language == QueryLanguage::Jsonata || !object.has(name) {
            return Place::Whole;
        }
        if object.get(name) == Some(&Value::Null) {
            return Place::Nowhere;
        }
        let Some(text) = self.text(object, name) else {
            return Place::Whole;
        };
        // "$" names the whole, which is what happens without a path.
        if text == "$" {
            return Place::Whole;
        }
        self.check_token(&object.at(name), text);
        let read = ReferencePath::parse(text);
        self.readable(&object.at(name), Code::Path, read)
            .map_or(Place::Whole, Place::At)
    }

    pub(super) fn expression(&mut self, at: &Pointer, text: &str) -> Option<Expression> {
        let read = self.readable(at, Code::Expression, Expression::parse(text))?;
        self.check_expression(at, &read, Has::Neither);
        Some(read)
    }

    /// A payload in the language of the state. A field of the other language
    /// was noted before, and is not read.
    pub(super) fn template(
        &mut self,
        object: &Object<'_>,
        name: &str,
        language: QueryLanguage,
    ) -> Option<Template> {
        self.template_with(object, name, language, Has::Neither)
    }

    /// A payload that is made when there is a result, or an error.
    fn template_with(
        &mut self,
        object: &Object<'_>,
        name: &str,
        language: QueryLanguage,
        has: Has,
    ) -> Option<Template> {
        let value = object.get(name)?;
        let read = match language {
            QueryLanguage::JsonPath => Template::json_path(value),
            QueryLanguage::Jsonata => Template::jsonata(value),
        };
        if language == QueryLanguage::JsonPath {
            for inner in tokens::in_paths(value, |name| name.ends_with(".$")) {
                let at = object.at(name).join(&inner);
                self.report(&at, Code::Template, UNFILLED);
            }
        }
        let code = match language {
            QueryLanguage::JsonPath => Code::Template,
            QueryLanguage::Jsonata => Code::Expression,
        };
        let read = self.all_readable(&object.at(name), code, read)?;
        self.check_template(&object.at(name), &read, has);
        Some(read)
    }

    /// `Parameters` in JSONPath, `Arguments` in JSONata.
    pub(super) fn arguments(
        &mut self,
        object: &Object<'_>,
        language: QueryLanguage,
    ) -> Option<Template> {
        match language {
            QueryLanguage::JsonPath => self.template(object, "Parameters", language),
            QueryLanguage::Jsonata => {
                self.object_or_expression(object, "Arguments");
                self.template(object, "Arguments", language)
            }
        }
    }

    /// A text must be an expression here: other texts are most likely one
    /// whose `{% %}` was forgotten.
    pub(super) fn object_or_expression(&mut self, object: &Object<'_>, name: &str) {
        if let Some(Value::String(text)) = object.get(name)
            && !is_expression(text)
        {
            self.report(
                &object.at(name),
                Code::Expression,
                format!(
                    "{name:?} is an object or an expression; write the text between {{% and %}}"
                ),
            );
        }
    }

    /// `Output`, which JSONata alone has.
    pub(super) fn output(
        &mut self,
        object: &Object<'_>,
        language: QueryLanguage,
        has: Has,
    ) -> Option<Template> {
        match language {
            QueryLanguage::JsonPath => None,
            QueryLanguage::Jsonata => self.template_with(object, "Output", language, has),
        }
    }

    /// `Assign`: an object of variables.
    pub(super) fn assign(
        &mut self,
        object: &Object<'_>,
        language: QueryLanguage,
        has: Has,
    ) -> Option<Template> {
        let variables = self.object(object, "Assign")?;
        self.variable_names(&variables);
        // AWS accepts a branch that assigns what the catcher around it does.
        if has != Has::Error {
            self.scopes.assign(&variables);
        }
        self.template_with(object, "Assign", language, has)
    }

    /// A whole number, or how it is found: `Name`, `NamePath`, `{% … %}`.
    pub(super) fn given_integer(
        &mut self,
        object: &Object<'_>,
        name: &str,
        language: QueryLanguage,
        (min, max): (u64, u64),
    ) -> Option<Given<u64>> {
        if let Some(found) = self.found(object, name, language) {
            return found;
        }
        self.integer(object, name, min, max).map(Given::Fixed)
    }

    /// A number, or how it is found.
    pub(super) fn given_number(
        &mut self,
        object: &Object<'_>,
        name: &str,
        language: QueryLanguage,
        (min, max): (f64, f64),
    ) -> Option<Given<f64>> {
        if let Some(found) = self.found(object, name, language) {
            return found;
        }
        self.number(object, name, min, max).map(Given::Fixed)
    }

    /// How a value is found, if it is not written: the outer option tells
    /// whether it is found, the inner whether the way could be read.
    pub(super) fn found<T>(
        &mut self,
        object: &Object<'_>,
        name: &str,
        language: QueryLanguage,
    ) -> Option<Option<Given<T>>> {
        match language {
            QueryLanguage::JsonPath => {
                let path = format!("{name}Path");
                self.only_one(object, &[name, &path]);
                let is_path = object.has(&path) && !object.has(name);
                is_path.then(|| self.path(object, &path).map(Given::Path))
            }
            QueryLanguage::Jsonata => {
                let text = object.get(name)?.as_str()?;
                let at = object.at(name);
                is_expression(text).then(|| self.expression(&at, text).map(Given::Expression))
            }
        }
    }

    /// A text, or how it is found; by an intrinsic function, too.
    pub(super) fn given_text(
        &mut self,
        object: &Object<'_>,
        name: &str,
        language: QueryLanguage,
    ) -> Option<Text> {
        let path = format!("{name}Path");
        if language == QueryLanguage::JsonPath {
            self.only_one(object, &[name, &path]);
            if object.has(&path) && !object.has(name) {
                return self.text_by_path(object, &path);
            }
        }
        let text = self.text(object, name)?;
        if language == QueryLanguage::Jsonata && is_expression(text) {
            return self
                .expression(&object.at(name), text)
                .map(Text::Expression);
        }
        Some(Text::Fixed(text.to_owned()))
    }

    fn text_by_path(&mut self, object: &Object<'_>, name: &str) -> Option<Text> {
        let written = self.text(object, name)?;
        if !written.starts_with("States.") {
            return self.path(object, name).map(Text::Path);
        }
        // A template is what evaluates functions: one with a single field.
        let template = json!({ format!("{}.$", Text::FILLED): written });
        let read = Template::json_path(&template).map_err(|unreadable| {
            unreadable
                .into_iter()
                .map(|wrong| Unreadable {
                    at: String::new(),
                    reason: wrong.reason,
                })
                .collect()
        });
        self.all_readable(&object.at(name), Code::Path, read)
            .map(Text::Function)
    }
}
