//! JSONata expressions.
//!
//! An expression is parsed once into a syntax tree, which threads can share. Each
//! evaluation uses a new evaluator that holds only the parts of the scope that the
//! expression mentions, with limits on time, depth and sequence length. Only the time
//! limit could make a replay decide otherwise. It is therefore much larger than what
//! an expression needs, a replay has a longer one, and a [`EvaluationFault`] reports a timeout.

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

/// The time limit of one expression.
pub(crate) const MILLISECONDS_MAX: u64 = 500;
/// The time limit in a replay. The expression was evaluated in time before; it must
/// not fail on a slower or busier machine now.
pub(crate) const REPLAY_MILLISECONDS_MAX: u64 = 5_000;
/// The prefix of the timeout error of JSONata.
const OUT_OF_TIME: &str = "D1012";
/// The time limit of an expression outside of a state.
const ALONE_MILLISECONDS_MAX: u64 = 5_000;
/// The maximum evaluation depth: about a thousand nested calls.
const DEPTH_MAX: usize = 3_000;
/// The maximum length of a sequence.
const SEQUENCE_MAX: usize = 100_000;
/// The maximum length of an expression.
const BYTES_MAX: usize = 64 * 1024;

/// A parsed JSONata expression.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    tree: AstNode,
    mentions: Mentions,
    direct: Option<DirectPath>,
}

/// What the expressions of one evaluation share: the random generator, and the parts
/// of the scope that are already converted to JSONata values. A template with twenty
/// expressions converts its input once.
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

    /// Converts a value for JSONata and caches it under `name`, which must identify the
    /// same value during the whole session.
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

    /// Its name after `$states.`.
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
    /// Whether a string is intended as an expression: it begins with `{%` or ends with
    /// `%}`. One without the other is an error that
    /// [`Expression::parse`] reports.
    #[must_use]
    pub fn is_marked(text: &str) -> bool {
        text.starts_with("{%") || text.ends_with("%}")
    }

    /// Parses `{% … %}`.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let inner = text
            .strip_prefix("{%")
            .and_then(|rest| rest.strip_suffix("%}"))
            .ok_or_else(|| {
                SyntaxError::new("a JSONata expression must begin with '{%' and end with '%}'")
            })?;
        let expression = Self::parse_bare(inner)?;
        if expression.mentions.calls("eval") {
            return Err(SyntaxError::new(
                "the function $eval is not supported: write the expression itself, or $parse for JSON",
            ));
        }
        Ok(expression)
    }

    /// Parses JSONata without `{%` and `%}`.
    pub fn parse_bare(text: &str) -> Result<Self, SyntaxError> {
        let text = text.trim();
        if text.len() > BYTES_MAX {
            return Err(SyntaxError::new(format!(
                "an expression has at most {BYTES_MAX} bytes"
            )));
        }
        let tree = jsonata_core::parser::parse(text).map_err(|error| {
            SyntaxError::new(format!(
                "invalid JSONata '{text}': {}",
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

    /// Whether it reads a field of `$states`.
    #[must_use]
    pub fn mentions(&self, field: StatesField) -> bool {
        self.mentions.reads(field)
    }

    /// The free variables, without `$`; neither `states` nor functions are included.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        self.mentions.free_variables().collect()
    }

    /// Evaluates the expression. A result that is undefined, a function or a number that
    /// JSON cannot represent is a `States.QueryEvaluationError`.
    ///
    /// Integers beyond 2^53 stay exact if they are only passed on; computations and
    /// comparisons use the numbers of JSONata, with 53 bits.
    pub fn evaluate(&self, scope: &EvaluationScope<'_>) -> Result<Value, EvaluationFault> {
        self.evaluate_in(&EvaluationSession::new(scope), scope)
    }

    /// Evaluates in a session that other expressions share; all must use the same scope.
    pub(super) fn evaluate_in(
        &self,
        session: &EvaluationSession,
        scope: &EvaluationScope<'_>,
    ) -> Result<Value, EvaluationFault> {
        let value = match self.direct.as_ref().and_then(|direct| direct.find(scope)) {
            Some(found) => found.map(Cow::into_owned),
            None => self.evaluate_tree(session, scope)?,
        };
        value.ok_or_else(|| self.fault("has no result (undefined)"))
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
        self.extract_json(exact, &result)
    }

    /// Evaluates as plain JSONata: with a document as `$`, bindings as variables, without
    /// the functions of states, and with only a time limit. `None` is JSONata's
    /// undefined.
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
        self.extract_json(&exact, &result)
    }

    fn extract_json(
        &self,
        exact: &ExactIntegers,
        result: &JValue,
    ) -> Result<Option<Value>, EvaluationFault> {
        // If the expression computes, a float that equals a converted input may be
        // a computed result.
        let exact = match self.mentions.computes() {
            true => &ExactIntegers::default(),
            false => exact,
        };
        exact
            .extract_json(result)
            .map_err(|reason| self.fault(&format!("has an invalid result: {reason}")))
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
