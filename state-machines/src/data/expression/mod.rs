//! JSONata expressions.
//!
//! An expression is read once into a syntax tree, which threads may share.
//! Each evaluation runs in an evaluator of its own, with no more of the scope
//! in it than the expression mentions, and within limits on time, depth and
//! the length of sequences. The limit on time is the one thing here that a
//! replay might decide otherwise: so it is far from what an expression needs,
//! a replay has more of it, and a [`EvaluationFault`] tells that it ran out.

mod functions;
mod mentions;
mod numbers;
#[cfg(test)]
mod tests;
mod values;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use jsonata_core::ast::AstNode;
use jsonata_core::evaluator::{Context, Evaluator, EvaluatorError, EvaluatorOptions};
use jsonata_core::value::JValue;
use serde_json::{Map, Value};

use self::mentions::{DirectPath, Mentions};
use self::numbers::ExactIntegers;
use super::random::SeededRandom;
use super::{EvaluationFault, EvaluationScope, SyntaxError, errors};

/// How long one expression may take.
pub(crate) const MILLISECONDS_MAX: u64 = 500;
/// How long it may take where it was evaluated before, in time: on a machine
/// that has more to do now it must not be refused.
pub(crate) const REPLAY_MILLISECONDS_MAX: u64 = 5_000;
/// How JSONata begins to say that the time ran out.
const OUT_OF_TIME: &str = "D1012";
/// How long it may take by itself, outside of a state.
const ALONE_MILLISECONDS_MAX: u64 = 5_000;
/// How deep evaluation may nest: about a thousand calls within calls.
const DEPTH_MAX: usize = 3_000;
/// The longest sequence that may be built on the way.
const SEQUENCE_MAX: usize = 100_000;
/// The longest expression that is read.
const BYTES_MAX: usize = 64 * 1024;

/// The text between `{%` and `%}`.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    tree: AstNode,
    mentions: Mentions,
    direct: Option<DirectPath>,
}

/// What the expressions of one evaluation share: their draws, and the parts of
/// the scope that were made ready for JSONata. A template with twenty
/// expressions takes its input in once.
#[derive(Debug)]
pub(super) struct EvaluationSession {
    pub(super) chance: SeededRandom,
    exact: ExactIntegers,
    taken: RefCell<HashMap<String, JValue>>,
}

impl EvaluationSession {
    pub(super) fn new(scope: &EvaluationScope<'_>) -> Self {
        Self {
            chance: SeededRandom::new(scope.seed),
            exact: ExactIntegers::default(),
            taken: RefCell::default(),
        }
    }

    /// The value for JSONata; `name` stands for the same value in all of the
    /// session.
    fn to_jsonata(&self, name: &str, value: &Value) -> JValue {
        if let Some(taken) = self.taken.borrow().get(name) {
            return taken.clone();
        }
        let taken = self.exact.to_jsonata(value);
        self.taken
            .borrow_mut()
            .insert(name.to_owned(), taken.clone());
        taken
    }
}

/// A field of the reserved variable `$states`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatesField {
    /// `$states.input`
    Input,
    /// `$states.context`
    Context,
    /// `$states.result`
    Result,
    /// `$states.errorOutput`
    ErrorOutput,
}

impl StatesField {
    const ALL: [Self; 4] = [Self::Input, Self::Context, Self::Result, Self::ErrorOutput];

    /// Its name behind `$states.`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Context => "context",
            Self::Result => "result",
            Self::ErrorOutput => "errorOutput",
        }
    }

    fn value_in<'a>(self, scope: &EvaluationScope<'a>) -> Option<&'a Value> {
        match self {
            Self::Input => Some(scope.input),
            Self::Context => Some(scope.context),
            Self::Result => scope.result,
            Self::ErrorOutput => scope.error_output,
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Expression {
    /// Whether a text is meant as an expression: it begins with `{%` or ends
    /// with `%}`. One without the other is a mistake that
    /// [`Expression::parse`] tells of.
    #[must_use]
    pub fn is_marked(text: &str) -> bool {
        text.starts_with("{%") || text.ends_with("%}")
    }

    /// Reads a whole `{% … %}`.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let inner = text
            .strip_prefix("{%")
            .and_then(|rest| rest.strip_suffix("%}"))
            .ok_or_else(|| {
                SyntaxError::new(
                    "a JSONata expression begins with '{%' and ends with '%}', with nothing around",
                )
            })?;
        let expression = Self::parse_bare(inner)?;
        if expression.mentions.calls("eval") {
            return Err(SyntaxError::new(
                "the function $eval is not supported: write the expression itself, or $parse for JSON",
            ));
        }
        Ok(expression)
    }

    /// Reads JSONata without `{%` and `%}`.
    pub fn parse_bare(text: &str) -> Result<Self, SyntaxError> {
        let text = text.trim();
        if text.len() > BYTES_MAX {
            return Err(SyntaxError::new(format!(
                "an expression has at most {BYTES_MAX} bytes"
            )));
        }
        let tree = jsonata_core::parser::parse(text).map_err(|error| {
            SyntaxError::new(format!(
                "the JSONata '{text}' cannot be read: {}",
                error.display_message()
            ))
        })?;
        Ok(Self {
            text: text.to_owned(),
            mentions: Mentions::from_tree(&tree),
            direct: DirectPath::from_tree(&tree),
            tree,
        })
    }

    /// The expression without `{%` and `%}`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it reads that field of `$states`.
    #[must_use]
    pub fn mentions(&self, field: StatesField) -> bool {
        self.mentions.reads(field)
    }

    /// The variables it reads and does not bind itself, without `$` and
    /// without `states`. Functions are not among them.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        self.mentions.free_variables().collect()
    }

    /// What it evaluates to. Nothing at all (undefined), a function or a
    /// number that JSON cannot say are a `States.QueryEvaluationError`.
    ///
    /// Integers beyond 2^53 survive where they are only passed on; where an
    /// expression computes or compares, its numbers are those of JSONata, with
    /// 53 bits.
    pub fn evaluate(&self, scope: &EvaluationScope<'_>) -> Result<Value, EvaluationFault> {
        self.evaluate_in(&EvaluationSession::new(scope), scope)
    }

    /// The same, in a session that other expressions have a part in. All of
    /// them see the same scope.
    pub(super) fn evaluate_in(
        &self,
        session: &EvaluationSession,
        scope: &EvaluationScope<'_>,
    ) -> Result<Value, EvaluationFault> {
        let value = match self.direct.as_ref().and_then(|direct| direct.find(scope)) {
            Some(found) => found.map(Cow::into_owned),
            None => self.evaluate_tree(session, scope)?,
        };
        value.ok_or_else(|| self.fault("gave nothing (undefined)"))
    }

    fn evaluate_tree(
        &self,
        session: &EvaluationSession,
        scope: &EvaluationScope<'_>,
    ) -> Result<Option<Value>, EvaluationFault> {
        let mut context = Context::new();
        if self.mentions.mentions_variable("states") {
            let fields = StatesField::ALL.into_iter().filter_map(|field| {
                let value = field
                    .value_in(scope)
                    .filter(|_| self.mentions.needs(field))?;
                let key = format!("states.{}", field.name());
                Some((field.name().to_owned(), session.to_jsonata(&key, value)))
            });
            context.bind("states".to_owned(), JValue::object(fields.collect()));
        }
        for name in self.mentions.free_variables() {
            if let Some(value) = scope.variables.get(name) {
                context.bind(name.to_owned(), session.to_jsonata(name, value));
            }
        }
        let options = EvaluatorOptions {
            timeout_ms: Some(scope.milliseconds_max),
            max_stack_depth: Some(DEPTH_MAX),
            max_sequence_length: Some(SEQUENCE_MAX),
            ..EvaluatorOptions::default()
        };
        let mut evaluator = Evaluator::with_options(context, options);
        let (chance, exact) = (&session.chance, &session.exact);
        functions::register(&mut evaluator, &self.mentions, scope, chance, exact)
            .map_err(|error| self.evaluator_fault(&error))?;
        let result = evaluator
            .evaluate(&self.tree, &JValue::Undefined)
            .map_err(|error| self.evaluator_fault(&error))?;
        self.from_jsonata(exact, &result)
    }

    /// Evaluates as JSONata by itself does: with a document as `$`, bindings
    /// as variables, without the functions of states, and with a limit on time
    /// alone. `None` is JSONata's undefined.
    pub fn evaluate_on(
        &self,
        document: Option<&Value>,
        bindings: &Map<String, Value>,
    ) -> Result<Option<Value>, EvaluationFault> {
        let exact = ExactIntegers::default();
        let mut context = Context::new();
        for (name, value) in bindings {
            context.bind(name.clone(), exact.to_jsonata(value));
        }
        let document = document.map_or(JValue::Undefined, |value| exact.to_jsonata(value));
        let options = EvaluatorOptions {
            timeout_ms: Some(ALONE_MILLISECONDS_MAX),
            ..EvaluatorOptions::default()
        };
        let result = Evaluator::with_options(context, options)
            .evaluate(&self.tree, &document)
            .map_err(|error| self.evaluator_fault(&error))?;
        self.from_jsonata(&exact, &result)
    }

    fn from_jsonata(
        &self,
        exact: &ExactIntegers,
        result: &JValue,
    ) -> Result<Option<Value>, EvaluationFault> {
        // Where an expression computes, a float that looks like one that came
        // in may be a result of its own.
        let exact = match self.mentions.computes() {
            true => &ExactIntegers::default(),
            false => exact,
        };
        exact
            .from_jsonata(result)
            .map_err(|reason| self.fault(&format!("gave {reason}")))
    }

    fn evaluator_fault(&self, error: &EvaluatorError) -> EvaluationFault {
        let message = error.message();
        EvaluationFault {
            is_out_of_time: message.starts_with(OUT_OF_TIME),
            ..self.fault(&format!("failed: {message}"))
        }
    }

    fn fault(&self, what: &str) -> EvaluationFault {
        EvaluationFault::new(
            errors::QUERY_EVALUATION_ERROR,
            format!("the JSONata '{}' {what}", self.text),
        )
    }
}
