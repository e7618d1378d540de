//! What states make of JSON on its way through them: pure functions of a
//! state and of what it may look at.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::data::{Fault, Scope, Template, errors, parse_timestamp, pipeline};
use crate::language::State;
use crate::language::model::{
    Catcher, Choice, Fail, Given, Part, Pass, Place, QueryLanguage, Test, Text,
};

/// A fault, and the field of the state that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) fault: Fault,
    pub(super) field: &'static str,
}

type Sound<T> = Result<T, Trouble>;

/// Names the field that a fault is in.
pub(super) trait InField<T> {
    fn in_field(self, field: &'static str) -> Sound<T>;
}

impl<T> InField<T> for Result<T, Fault> {
    fn in_field(self, field: &'static str) -> Sound<T> {
        self.map_err(|fault| Trouble { fault, field })
    }
}

/// What leaves a state.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Leaving {
    pub(super) output: Value,
    pub(super) assigned: Map<String, Value>,
}

/// What `InputPath` or `OutputPath` takes of a value.
fn part<'a>(
    part: &Part,
    value: Cow<'a, Value>,
    scope: &Scope<'_>,
) -> Result<Cow<'a, Value>, Fault> {
    match part {
        Part::Whole => Ok(value),
        Part::Nothing => Ok(Cow::Owned(json!({}))),
        Part::Path(path) => path.read(&scope.with_input(&value)).map(Cow::Owned),
    }
}

/// What the state works on: its input, after `InputPath`.
pub(super) fn effective<'a>(state: &State, scope: &Scope<'a>) -> Sound<Cow<'a, Value>> {
    part(&state.input, Cow::Borrowed(scope.input), scope).in_field("InputPath")
}

/// `Parameters` or `Arguments`: what work is given. Without them it is the
/// state's input.
pub(super) fn arguments(
    state: &State,
    template: Option<&Template>,
    scope: &Scope<'_>,
) -> Sound<Value> {
    let field = match state.query_language {
        QueryLanguage::JsonPath => "Parameters",
        QueryLanguage::Jsonata => "Arguments",
    };
    let input = effective(state, scope)?;
    match template {
        None => Ok(input.into_owned()),
        Some(template) => template
            .fill(&scope.with_input(&input).seeded_for(field))
            .in_field(field),
    }
}

/// A template whose `$` is the state's input after `InputPath`.
pub(super) fn filled(
    state: &State,
    template: &Template,
    field: &'static str,
    scope: &Scope<'_>,
) -> Sound<Value> {
    let input = effective(state, scope)?;
    template
        .fill(&scope.with_input(&input).seeded_for(field))
        .in_field(field)
}

/// What leaves a state that has a result.
pub(super) fn leave(
    state: &State,
    selector: Option<&Template>,
    place: &Place,
    result: &Value,
    scope: &Scope<'_>,
) -> Sound<Leaving> {
    if state.query_language == QueryLanguage::Jsonata {
        let scope = Scope {
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
    let assigned = assigned(state.assign.as_ref(), &scope.with_input(&selected))?;
    let placed = put(place, scope.input, selected)?;
    let output = part(&state.output_path, placed, scope).in_field("OutputPath")?;
    Ok(Leaving {
        output: output.into_owned(),
        assigned,
    })
}

/// What leaves a state that has no result of its own.
pub(super) fn pass_on(state: &State, scope: &Scope<'_>) -> Sound<Leaving> {
    if state.query_language == QueryLanguage::Jsonata {
        let input = scope.input;
        return leave_jsonata(state.output.as_ref(), state.assign.as_ref(), input, scope);
    }
    let input = effective(state, scope)?;
    let assigned = assigned(state.assign.as_ref(), &scope.with_input(&input))?;
    let output = part(&state.output_path, input, scope).in_field("OutputPath")?;
    Ok(Leaving {
        output: output.into_owned(),
        assigned,
    })
}

/// What leaves a Pass.
pub(super) fn pass(state: &State, pass: &Pass, scope: &Scope<'_>) -> Sound<Leaving> {
    if state.query_language == QueryLanguage::Jsonata {
        return pass_on(state, scope);
    }
    let made = arguments(state, pass.parameters.as_ref(), scope)?;
    let result = pass.result.as_ref().unwrap_or(&made);
    leave(state, None, &pass.result_place, result, scope)
}

/// What leaves a state whose error was caught: `OutputPath` has no part in it.
pub(super) fn caught(
    state: &State,
    catcher: &Catcher,
    error_output: &Value,
    scope: &Scope<'_>,
) -> Sound<Leaving> {
    if state.query_language == QueryLanguage::Jsonata {
        let scope = Scope {
            error_output: Some(error_output),
            ..*scope
        };
        let (output, assign) = (catcher.output.as_ref(), catcher.assign.as_ref());
        return leave_jsonata(output, assign, error_output, &scope);
    }
    let assigned = assigned(catcher.assign.as_ref(), &scope.with_input(error_output))?;
    let output = put(&catcher.result, scope.input, Cow::Borrowed(error_output))?;
    Ok(Leaving {
        output: output.into_owned(),
        assigned,
    })
}

/// Where a Choice goes, and what leaves it.
pub(super) fn choose(
    state: &State,
    choice: &Choice,
    scope: &Scope<'_>,
) -> Sound<Option<(String, Leaving)>> {
    let input = effective(state, scope)?;
    let scope = scope.with_input(&input);
    for rule in &choice.rules {
        if holds(&rule.test, &scope)? {
            let (output, assign) = (rule.output.as_ref(), rule.assign.as_ref());
            let leaving = leave_choice(state, output, assign, &scope)?;
            return Ok(Some((rule.next.clone(), leaving)));
        }
    }
    let Some(default) = &choice.default else {
        return Ok(None);
    };
    let (output, assign) = (state.output.as_ref(), state.assign.as_ref());
    let leaving = leave_choice(state, output, assign, &scope)?;
    Ok(Some((default.clone(), leaving)))
}

fn leave_choice(
    state: &State,
    output: Option<&Template>,
    assign: Option<&Template>,
    scope: &Scope<'_>,
) -> Sound<Leaving> {
    if state.query_language == QueryLanguage::Jsonata {
        return leave_jsonata(output, assign, scope.input, scope);
    }
    let assigned = assigned(assign, scope)?;
    let output =
        part(&state.output_path, Cow::Borrowed(scope.input), scope).in_field("OutputPath")?;
    Ok(Leaving {
        output: output.into_owned(),
        assigned,
    })
}

fn holds(test: &Test, scope: &Scope<'_>) -> Sound<bool> {
    match test {
        Test::Fixed(holds) => Ok(*holds),
        Test::Condition(condition) => condition.holds(scope).in_field("Choices"),
        Test::Expression(expression) => {
            let value = expression
                .evaluate(&scope.seeded_for("Condition"))
                .in_field("Condition")?;
            value
                .as_bool()
                .ok_or_else(|| unexpected("true or false", &value, true))
                .in_field("Condition")
        }
    }
}

fn leave_jsonata(
    output: Option<&Template>,
    assign: Option<&Template>,
    otherwise: &Value,
    scope: &Scope<'_>,
) -> Sound<Leaving> {
    let assigned = assigned(assign, scope)?;
    let output = match output {
        None => otherwise.clone(),
        Some(output) => output
            .fill(&scope.seeded_for("Output"))
            .in_field("Output")?,
    };
    Ok(Leaving { output, assigned })
}

fn assigned(template: Option<&Template>, scope: &Scope<'_>) -> Sound<Map<String, Value>> {
    match template {
        None => Ok(Map::new()),
        Some(template) => pipeline::assign(template, scope).in_field("Assign"),
    }
}

/// `ResultPath`.
fn put<'a>(place: &Place, input: &'a Value, result: Cow<'a, Value>) -> Sound<Cow<'a, Value>> {
    match place {
        Place::Whole => Ok(result),
        Place::Nowhere => Ok(Cow::Borrowed(input)),
        Place::At(path) => path
            .put(input.clone(), result.into_owned())
            .map(Cow::Owned)
            .in_field("ResultPath"),
    }
}

/// The error and the cause that a Fail names.
pub(super) fn fail(
    state: &State,
    fail: &Fail,
    scope: &Scope<'_>,
) -> Sound<(Option<String>, Option<String>)> {
    let input = effective(state, scope)?;
    let scope = scope.with_input(&input);
    let text = |text: &Option<Text>, field| match text {
        None => Ok(None),
        Some(text) => found_text(text, &scope.seeded_for(field))
            .map(Some)
            .in_field(field),
    };
    Ok((text(&fail.error, "Error")?, text(&fail.cause, "Cause")?))
}

fn found_text(text: &Text, scope: &Scope<'_>) -> Result<String, Fault> {
    let (value, by_expression) = match text {
        Text::Fixed(text) => return Ok(text.clone()),
        Text::Path(path) => (path.read(scope)?, false),
        Text::Function(template) => {
            let mut filled = template.fill(scope)?;
            (filled[Text::FILLED].take(), false)
        }
        Text::Expression(expression) => (expression.evaluate(scope)?, true),
    };
    match value {
        Value::String(text) => Ok(text),
        other => Err(unexpected("a text", &other, by_expression)),
    }
}

/// A whole number that is written, or found when the state runs. Where a path
/// finds a text with a number in it, AWS takes it.
pub(super) fn whole(given: &Given<u64>, min: u64, scope: &Scope<'_>) -> Result<u64, Fault> {
    let number = number_of(given, scope)?;
    let (value, by_expression) = match number {
        Found::Fixed(fixed) => return Ok(*fixed),
        Found::Value(value, by_expression) => (value, by_expression),
    };
    let whole = match &value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_f64().and_then(whole_of)),
        Value::String(text) if !by_expression => text.trim().parse().ok(),
        _ => None,
    };
    let wanted = format!("a whole number of at least {min}");
    whole
        .filter(|whole| *whole >= min)
        .ok_or_else(|| unexpected(&wanted, &value, by_expression))
}

/// A number within bounds.
pub(super) fn number(
    given: &Given<f64>,
    (min, max): (f64, f64),
    scope: &Scope<'_>,
) -> Result<f64, Fault> {
    let (value, by_expression) = match number_of(given, scope)? {
        Found::Fixed(fixed) => return Ok(*fixed),
        Found::Value(value, by_expression) => (value, by_expression),
    };
    let number = match &value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if !by_expression => text.trim().parse().ok(),
        _ => None,
    };
    let wanted = format!("a number from {min} to {max}");
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| unexpected(&wanted, &value, by_expression))
}

/// A time that is written, or found when the state runs.
pub(super) fn time(
    given: &Given<OffsetDateTime>,
    scope: &Scope<'_>,
) -> Result<OffsetDateTime, Fault> {
    let (value, by_expression) = match number_of(given, scope)? {
        Found::Fixed(fixed) => return Ok(*fixed),
        Found::Value(value, by_expression) => (value, by_expression),
    };
    let time = value.as_str().and_then(parse_timestamp);
    let wanted = "a time such as 2016-03-14T01:59:00Z";
    time.ok_or_else(|| unexpected(wanted, &value, by_expression))
}

enum Found<'a, T> {
    Fixed(&'a T),
    Value(Value, bool),
}

fn number_of<'a, T>(given: &'a Given<T>, scope: &Scope<'_>) -> Result<Found<'a, T>, Fault> {
    Ok(match given {
        Given::Fixed(fixed) => Found::Fixed(fixed),
        Given::Path(path) => Found::Value(path.read(scope)?, false),
        Given::Expression(expression) => Found::Value(expression.evaluate(scope)?, true),
    })
}

/// A float that is a whole number, as one.
fn whole_of(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..9.0e15).contains(&number)).then_some(number as u64)
}

/// A value that is not what its place calls for.
pub(super) fn unexpected(wanted: &str, value: &Value, by_expression: bool) -> Fault {
    let error = if by_expression {
        errors::QUERY_EVALUATION_ERROR
    } else {
        errors::RUNTIME
    };
    let shown = value.to_string();
    let short: String = shown.chars().take(120).collect();
    Fault::new(error, format!("it should be {wanted}, and is {short}"))
}
