//! Compares the result of a case with its expected outcome.
//!
//! - `status`, always.
//! - `output` as JSON, numbers by value, unless `deterministic_output` is
//!   false. At the `placeholder_paths` only the type is compared.
//! - `error`, if present; `null` means no error.
//! - `cause`, if a mock of the case or the definition contains it. The texts of
//!   errors that the engine raises are not compared.
//! - `states_entered` and `events` in order, if the definition has no Parallel
//!   and no Map. Otherwise, unless they are in the same order anyway, machine
//!   by machine: the entries and exits of a machine's states in order, and
//!   within a Map, where iterations mix, however they are ordered; and the
//!   events of iterations however they are ordered. Events without a name
//!   cannot be distinguished then, and are not compared.
//!
//! The inputs of tasks are compared while the case runs, and reported as remarks.

use serde_json::Value;

use super::case::{EventSummary, ExpectedOutcome, TestCase};
use super::run::TrialResult;
use crate::core::ExecutionStatus;
use crate::language::model::StateKind;
use crate::language::{Definition, Machine};

/// The differences between the result of a case and its expected outcome; empty if
/// there are none. The remarks of the run ([`TrialResult::remarks`]) are not included.
#[must_use]
pub fn differences(case: &TestCase, trial: &TrialResult) -> Vec<String> {
    let mut found = Vec::new();
    let Some(expected) = &case.expected else {
        return found;
    };
    let mut note = |different: Option<String>| found.extend(different);
    note(compare_status(expected, trial));
    note(compare_output(case, expected, trial));
    note(compare_error(expected, trial));
    note(compare_cause(case, expected, trial));
    if let Ok(definition) = case.read_definition() {
        note(compare_states(&definition, expected, trial));
        found.extend(compare_events(&definition, expected, trial));
    }
    found
}

fn compare_status(expected: &ExpectedOutcome, trial: &TrialResult) -> Option<String> {
    let status = expected.status.as_deref()?;
    (status != trial.status.as_str()).then(|| {
        let why = match (&trial.error, &trial.cause) {
            (None, None) => String::new(),
            (error, cause) => format!(
                " ({}: {})",
                error.as_deref().unwrap_or("no error"),
                cause.as_deref().unwrap_or("no cause")
            ),
        };
        format!(
            "the status is {}{why} instead of {status}",
            trial.status.as_str()
        )
    })
}

fn compare_output(
    case: &TestCase,
    expected: &ExpectedOutcome,
    trial: &TrialResult,
) -> Option<String> {
    let expected = expected.output.as_ref()?;
    if !case.deterministic_output || trial.status != ExecutionStatus::Succeeded {
        return None;
    }
    let (mut found, mut wanted) = (trial.output.clone().unwrap_or_default(), expected.clone());
    for path in &case.placeholder_paths {
        if let (Some(found), Some(wanted)) = (found.pointer_mut(path), wanted.pointer_mut(path))
            && std::mem::discriminant(found) == std::mem::discriminant(wanted)
        {
            *found = Value::Null;
            *wanted = Value::Null;
        }
    }
    (!json_equals(&found, &wanted)).then(|| format!("the output is {found} instead of {wanted}"))
}

fn compare_error(expected: &ExpectedOutcome, trial: &TrialResult) -> Option<String> {
    let wanted = expected.error.as_ref()?;
    let found = trial.error.as_deref().map_or(Value::Null, Value::from);
    (found != *wanted).then(|| format!("the error is {found} instead of {wanted}"))
}

fn compare_cause(
    case: &TestCase,
    expected: &ExpectedOutcome,
    trial: &TrialResult,
) -> Option<String> {
    let Value::String(wanted) = expected.cause.as_ref()? else {
        return None;
    };
    let answered = case.tasks.iter().filter_map(|answer| answer.cause_text());
    let is_mocked = answered
        .into_iter()
        .any(|cause| is_same_text(&cause, wanted));
    if !is_mocked && !is_cause_in_definition(&case.definition, wanted) {
        return None;
    }
    let found = trial.cause.as_deref().unwrap_or_default();
    (!is_same_text(found, wanted)).then(|| format!("the cause is {found:?} instead of {wanted:?}"))
}

/// Equal as text, or as JSON if both are JSON texts.
fn is_same_text(left: &str, right: &str) -> bool {
    let json = |text: &str| serde_json::from_str::<Value>(text).ok();
    left == right
        || matches!((json(left), json(right)), (Some(left), Some(right)) if json_equals(&left, &right))
}

/// Whether a `Cause` field of the definition has this text.
fn is_cause_in_definition(definition: &Value, text: &str) -> bool {
    match definition {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            (name == "Cause" && value.as_str() == Some(text)) || is_cause_in_definition(value, text)
        }),
        Value::Array(items) => items.iter().any(|item| is_cause_in_definition(item, text)),
        _ => false,
    }
}

fn compare_states(
    definition: &Definition,
    expected: &ExpectedOutcome,
    trial: &TrialResult,
) -> Option<String> {
    let wanted = expected.states_entered.as_ref()?;
    let mut found = trial.states_entered.clone();
    let mut sorted = wanted.clone();
    if has_nested_machines(definition) {
        found.sort();
        sorted.sort();
    }
    (found != sorted).then(|| {
        let entered = &trial.states_entered;
        format!("the states entered are {entered:?} instead of {wanted:?}")
    })
}

fn compare_events(
    definition: &Definition,
    expected: &ExpectedOutcome,
    trial: &TrialResult,
) -> Vec<String> {
    let Some(wanted) = &expected.events else {
        return Vec::new();
    };
    if *wanted == trial.events {
        return Vec::new();
    }
    if !has_nested_machines(definition) {
        return first_difference("the events", &trial.events, wanted)
            .into_iter()
            .collect();
    }
    let mut different = Vec::new();
    compare_machine(
        definition.machine(),
        false,
        &trial.events,
        wanted,
        &mut different,
    );
    different
}

/// Whether the events of several runs may interleave.
fn has_nested_machines(definition: &Definition) -> bool {
    let states = definition.states().iter();
    states.into_iter().any(|state| !state.machines().is_empty())
}

fn compare_machine(
    machine: &Machine,
    is_in_map: bool,
    found: &[EventSummary],
    wanted: &[EventSummary],
    different: &mut Vec<String>,
) {
    let of_states = |events: &[EventSummary], of_iterations: bool| -> Vec<EventSummary> {
        let mine = events.iter().filter(|event| {
            let is_mine = event
                .name
                .as_ref()
                .is_some_and(|name| machine.state(name).is_some());
            is_mine && event.index.is_some() == of_iterations
        });
        mine.cloned().collect()
    };
    for of_iterations in [false, true] {
        let mut found = of_states(found, of_iterations);
        let mut wanted = of_states(wanted, of_iterations);
        if is_in_map || of_iterations {
            found.sort();
            wanted.sort();
        }
        let what = format!(
            "the events of the machine that begins with {:?}",
            machine.start_at()
        );
        different.extend(first_difference(&what, &found, &wanted));
    }
    for state in machine.states() {
        let is_in_map = is_in_map || matches!(state.kind, StateKind::Map(_));
        for inner in state.machines() {
            compare_machine(inner, is_in_map, found, wanted, different);
        }
    }
}

/// Describes the first difference between two lists of events.
fn first_difference(what: &str, found: &[EventSummary], wanted: &[EventSummary]) -> Option<String> {
    if found == wanted {
        return None;
    }
    let at = found.iter().zip(wanted).take_while(|(l, r)| l == r).count();
    let shown = |events: &[EventSummary]| {
        events.get(at).map_or("nothing".to_owned(), |event| {
            let name = event.name.as_deref().map(|name| format!(" {name:?}"));
            let index = event.index.map(|index| format!(" #{index}"));
            let (name, index) = (name.unwrap_or_default(), index.unwrap_or_default());
            format!("{}{name}{index}", event.kind)
        })
    };
    Some(format!(
        "{what} differ at number {}: {} instead of {}",
        at + 1,
        shown(found),
        shown(wanted)
    ))
}

/// Equal as JSON, numbers by value.
pub(super) fn json_equals(left: &Value, right: &Value) -> bool {
    compare_json(left, right, false)
}

/// Equal as JSON, except that `<…>` on the right side matches any string, and that all
/// context objects, which differ from run to run, are equal.
pub(super) fn json_equals_leniently(left: &Value, right: &Value) -> bool {
    compare_json(left, right, true)
}

fn compare_json(left: &Value, right: &Value, is_lenient: bool) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(l, r)| compare_json(l, r, is_lenient))
        }
        (Value::Object(left), Value::Object(right))
            if is_lenient && is_context_object(left) && is_context_object(right) =>
        {
            true
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, l)| {
                    right
                        .get(name)
                        .is_some_and(|r| compare_json(l, r, is_lenient))
                })
        }
        (Value::String(_), Value::String(right)) if is_lenient && has_placeholder(right) => true,
        _ => left == right,
    }
}

fn is_context_object(fields: &serde_json::Map<String, Value>) -> bool {
    let parts = ["Execution", "StateMachine", "State"];
    parts.iter().all(|part| fields.contains_key(*part))
}

/// Whether a text contains `<…>`.
fn has_placeholder(text: &str) -> bool {
    text.find('<')
        .is_some_and(|open| text[open..].contains('>'))
}
