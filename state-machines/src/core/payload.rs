//! Input and output processing of states: pure functions of a state and a scope.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::data::{EvaluationFault, EvaluationScope, Template, errors, parse_timestamp, pipeline};
use crate::language::State;
use crate::language::model::{
    Catcher, ChoiceState, FailState, FieldValue, PassState, PathSelection, QueryLanguage,
    ResultTarget, RuleTest, TextValue,
};

/// An evaluation fault, and the field of the state it occurred in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldFault {
    pub(super) fault: EvaluationFault,
    pub(super) field: &'static str,
}

type FieldResult<T> = Result<T, FieldFault>;

/// Adds the field name to a fault.
pub(super) trait InField<T> {
    fn in_field(self, field: &'static str) -> FieldResult<T>;
}

impl<T> InField<T> for Result<T, EvaluationFault> {
    fn in_field(self, field: &'static str) -> FieldResult<T> {
        self.map_err(|fault| FieldFault { fault, field })
    }
}

/// The output of a state, and the variables it assigns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct StateOutput {
    pub(super) output: Value,
    pub(super) assigned: Map<String, Value>,
}

/// Applies `InputPath` or `OutputPath` to a value.
fn apply_path<'a>(
    part: &PathSelection,
    value: Cow<'a, Value>,
    scope: &EvaluationScope<'_>,
) -> Result<Cow<'a, Value>, EvaluationFault> {
    match part {
        PathSelection::Whole => Ok(value),
        PathSelection::Nothing => Ok(Cow::Owned(json!({}))),
        PathSelection::Path(path) => path.read(&scope.with_input(&value)).map(Cow::Owned),
    }
}

/// The effective input of the state: its raw input after `InputPath`.
pub(super) fn effective_input<'a>(
    state: &State,
    scope: &EvaluationScope<'a>,
) -> FieldResult<Cow<'a, Value>> {
    apply_path(&state.input, Cow::Borrowed(scope.input), scope).in_field("InputPath")
}

/// Evaluates `Parameters` or `Arguments`, the input of the work. Defaults to the
/// effective input of the state.
pub(super) fn evaluate_arguments(
    state: &State,
    template: Option<&Template>,
    scope: &EvaluationScope<'_>,
) -> FieldResult<Value> {
    let field = match state.query_language {
        QueryLanguage::JsonPath => "Parameters",
        QueryLanguage::Jsonata => "Arguments",
    };
    let input = effective_input(state, scope)?;
    match template {
        None => Ok(input.into_owned()),
        Some(template) => template
            .fill(&scope.with_input(&input).seeded_for(field))
            .in_field(field),
    }
}

/// Fills a template whose `$` is the effective input of the state.
pub(super) fn fill_field(
    state: &State,
    template: &Template,
    field: &'static str,
    scope: &EvaluationScope<'_>,
) -> FieldResult<Value> {
    let input = effective_input(state, scope)?;
    template
        .fill(&scope.with_input(&input).seeded_for(field))
        .in_field(field)
}

/// The output of a state that has a result.
pub(super) fn leave_with_result(
    state: &State,
    selector: Option<&Template>,
    place: &ResultTarget,
    result: &Value,
    scope: &EvaluationScope<'_>,
) -> FieldResult<StateOutput> {
    if state.query_language == QueryLanguage::Jsonata {
        let scope = EvaluationScope {
            result: Some(result),
            ..*scope
        };
        return leave_jsonata(state.output.as_ref(), state.assign.as_ref(), result, &scope);
    }
    let selected = match selector {
        None => Cow::Borrowed(result),
        Some(selector) => Cow::Owned(
            selector
                .fill(&scope.with_input(result).seeded_for("ResultSelector"))
                .in_field("ResultSelector")?,
        ),
    };
    let assigned = evaluate_assign(state.assign.as_ref(), &scope.with_input(&selected))?;
    let placed = apply_result_path(place, scope.input, selected)?;
    let output = apply_path(&state.output_path, placed, scope).in_field("OutputPath")?;
    Ok(StateOutput {
        output: output.into_owned(),
        assigned,
    })
}

/// The output of a state that has no result of its own.
pub(super) fn leave_without_result(
    state: &State,
    scope: &EvaluationScope<'_>,
) -> FieldResult<StateOutput> {
    if state.query_language == QueryLanguage::Jsonata {
        let input = scope.input;
        return leave_jsonata(state.output.as_ref(), state.assign.as_ref(), input, scope);
    }
    let input = effective_input(state, scope)?;
    let assigned = evaluate_assign(state.assign.as_ref(), &scope.with_input(&input))?;
    let output = apply_path(&state.output_path, input, scope).in_field("OutputPath")?;
    Ok(StateOutput {
        output: output.into_owned(),
        assigned,
    })
}

/// The output of a Pass.
pub(super) fn leave_pass(
    state: &State,
    pass: &PassState,
    scope: &EvaluationScope<'_>,
) -> FieldResult<StateOutput> {
    if state.query_language == QueryLanguage::Jsonata {
        return leave_without_result(state, scope);
    }
    let made = evaluate_arguments(state, pass.parameters.as_ref(), scope)?;
    let result = pass.result.as_ref().unwrap_or(&made);
    leave_with_result(state, None, &pass.result_place, result, scope)
}

/// The output of a state whose error was caught. `OutputPath` does not apply.
pub(super) fn leave_by_catcher(
    state: &State,
    catcher: &Catcher,
    error_output: &Value,
    scope: &EvaluationScope<'_>,
) -> FieldResult<StateOutput> {
    if state.query_language == QueryLanguage::Jsonata {
        let scope = EvaluationScope {
            error_output: Some(error_output),
            ..*scope
        };
        let (output, assign) = (catcher.output.as_ref(), catcher.assign.as_ref());
        return leave_jsonata(output, assign, error_output, &scope);
    }
    let assigned = evaluate_assign(catcher.assign.as_ref(), &scope.with_input(error_output))?;
    let output = apply_result_path(&catcher.result, scope.input, Cow::Borrowed(error_output))?;
    Ok(StateOutput {
        output: output.into_owned(),
        assigned,
    })
}

/// The target of a Choice, and its output; none if no rule matches.
pub(super) fn choose_rule(
    state: &State,
    choice: &ChoiceState,
    scope: &EvaluationScope<'_>,
) -> FieldResult<Option<(String, StateOutput)>> {
    let input = effective_input(state, scope)?;
    let scope = scope.with_input(&input);
    for rule in &choice.rules {
        if evaluate_test(&rule.test, &scope)? {
            let (output, assign) = (rule.output.as_ref(), rule.assign.as_ref());
            let state_output = leave_choice(state, output, assign, &scope)?;
            return Ok(Some((rule.next.clone(), state_output)));
        }
    }
    let Some(default) = &choice.default else {
        return Ok(None);
    };
    let (output, assign) = (state.output.as_ref(), state.assign.as_ref());
    let state_output = leave_choice(state, output, assign, &scope)?;
    Ok(Some((default.clone(), state_output)))
}

fn leave_choice(
    state: &State,
    output: Option<&Template>,
    assign: Option<&Template>,
    scope: &EvaluationScope<'_>,
) -> FieldResult<StateOutput> {
    if state.query_language == QueryLanguage::Jsonata {
        return leave_jsonata(output, assign, scope.input, scope);
    }
    let assigned = evaluate_assign(assign, scope)?;
    let output =
        apply_path(&state.output_path, Cow::Borrowed(scope.input), scope).in_field("OutputPath")?;
    Ok(StateOutput {
        output: output.into_owned(),
        assigned,
    })
}

fn evaluate_test(test: &RuleTest, scope: &EvaluationScope<'_>) -> FieldResult<bool> {
    match test {
        RuleTest::Fixed(holds) => Ok(*holds),
        RuleTest::Condition(condition) => condition.holds(scope).in_field("Choices"),
        RuleTest::Expression(expression) => {
            let value = expression
                .evaluate(&scope.seeded_for("Condition"))
                .in_field("Condition")?;
            value
                .as_bool()
                .ok_or_else(|| unexpected_value("true or false", &value, true))
                .in_field("Condition")
        }
    }
}

fn leave_jsonata(
    output: Option<&Template>,
    assign: Option<&Template>,
    otherwise: &Value,
    scope: &EvaluationScope<'_>,
) -> FieldResult<StateOutput> {
    let assigned = evaluate_assign(assign, scope)?;
    let output = match output {
        None => otherwise.clone(),
        Some(output) => output
            .fill(&scope.seeded_for("Output"))
            .in_field("Output")?,
    };
    Ok(StateOutput { output, assigned })
}

fn evaluate_assign(
    template: Option<&Template>,
    scope: &EvaluationScope<'_>,
) -> FieldResult<Map<String, Value>> {
    match template {
        None => Ok(Map::new()),
        Some(template) => pipeline::assign(template, scope).in_field("Assign"),
    }
}

/// `ResultPath`.
fn apply_result_path<'a>(
    place: &ResultTarget,
    input: &'a Value,
    result: Cow<'a, Value>,
) -> FieldResult<Cow<'a, Value>> {
    match place {
        ResultTarget::Whole => Ok(result),
        ResultTarget::Nowhere => Ok(Cow::Borrowed(input)),
        ResultTarget::At(path) => path
            .insert(input.clone(), result.into_owned())
            .map(Cow::Owned)
            .in_field("ResultPath"),
    }
}

/// Evaluates the error and the cause of a Fail.
pub(super) fn evaluate_fail(
    state: &State,
    fail: &FailState,
    scope: &EvaluationScope<'_>,
) -> FieldResult<(Option<String>, Option<String>)> {
    let input = effective_input(state, scope)?;
    let scope = scope.with_input(&input);
    let text = |text: &Option<TextValue>, field| match text {
        None => Ok(None),
        Some(text) => resolve_text(text, &scope.seeded_for(field))
            .map(Some)
            .in_field(field),
    };
    Ok((text(&fail.error, "Error")?, text(&fail.cause, "Cause")?))
}

fn resolve_text(text: &TextValue, scope: &EvaluationScope<'_>) -> Result<String, EvaluationFault> {
    let (value, by_expression) = match text {
        TextValue::Fixed(text) => return Ok(text.clone()),
        TextValue::Path(path) => (path.read(scope)?, false),
        TextValue::Function(template) => {
            let mut filled = template.fill(scope)?;
            (filled[TextValue::FILLED].take(), false)
        }
        TextValue::Expression(expression) => (expression.evaluate(scope)?, true),
    };
    match value {
        Value::String(text) => Ok(text),
        other => Err(unexpected_value("a string", &other, by_expression)),
    }
}

/// Resolves a whole number that is a literal, a path or an expression. As on AWS,
/// a path may lead to a string that contains a number.
pub(super) fn resolve_whole(
    given: &FieldValue<u64>,
    min: u64,
    scope: &EvaluationScope<'_>,
) -> Result<u64, EvaluationFault> {
    let number = resolve_value(given, scope)?;
    let (value, by_expression) = match number {
        ResolvedValue::Fixed(fixed) => return Ok(*fixed),
        ResolvedValue::Value(value, by_expression) => (value, by_expression),
    };
    let whole = match &value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_f64().and_then(float_to_whole)),
        Value::String(text) if !by_expression => text.trim().parse().ok(),
        _ => None,
    };
    let wanted = format!("a whole number of at least {min}");
    whole
        .filter(|whole| *whole >= min)
        .ok_or_else(|| unexpected_value(&wanted, &value, by_expression))
}

/// Resolves a number within bounds.
pub(super) fn resolve_number(
    given: &FieldValue<f64>,
    (min, max): (f64, f64),
    scope: &EvaluationScope<'_>,
) -> Result<f64, EvaluationFault> {
    let (value, by_expression) = match resolve_value(given, scope)? {
        ResolvedValue::Fixed(fixed) => return Ok(*fixed),
        ResolvedValue::Value(value, by_expression) => (value, by_expression),
    };
    let number = match &value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if !by_expression => text.trim().parse().ok(),
        _ => None,
    };
    let wanted = format!("a number from {min} to {max}");
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| unexpected_value(&wanted, &value, by_expression))
}

/// Resolves a timestamp that is a literal, a path or an expression.
pub(super) fn resolve_time(
    given: &FieldValue<OffsetDateTime>,
    scope: &EvaluationScope<'_>,
) -> Result<OffsetDateTime, EvaluationFault> {
    let (value, by_expression) = match resolve_value(given, scope)? {
        ResolvedValue::Fixed(fixed) => return Ok(*fixed),
        ResolvedValue::Value(value, by_expression) => (value, by_expression),
    };
    let time = value.as_str().and_then(parse_timestamp);
    let wanted = "a time such as 2016-03-14T01:59:00Z";
    time.ok_or_else(|| unexpected_value(wanted, &value, by_expression))
}

enum ResolvedValue<'a, T> {
    Fixed(&'a T),
    Value(Value, bool),
}

fn resolve_value<'a, T>(
    given: &'a FieldValue<T>,
    scope: &EvaluationScope<'_>,
) -> Result<ResolvedValue<'a, T>, EvaluationFault> {
    Ok(match given {
        FieldValue::Fixed(fixed) => ResolvedValue::Fixed(fixed),
        FieldValue::Path(path) => ResolvedValue::Value(path.read(scope)?, false),
        FieldValue::Expression(expression) => {
            ResolvedValue::Value(expression.evaluate(scope)?, true)
        }
    })
}

/// Converts a float without a fraction to an integer.
fn float_to_whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..9.0e15).contains(&number)).then_some(number as u64)
}

/// The fault for a value of the wrong type or range.
pub(super) fn unexpected_value(
    wanted: &str,
    value: &Value,
    by_expression: bool,
) -> EvaluationFault {
    let error = if by_expression {
        errors::QUERY_EVALUATION_ERROR
    } else {
        errors::RUNTIME
    };
    let shown = value.to_string();
    let short: String = shown.chars().take(120).collect();
    EvaluationFault::new(error, format!("expected {wanted}, found {short}"))
}
