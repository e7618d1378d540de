//! The functions that the States Language adds to JSONata, and replacements for the
//! JSONata functions that read the clock or are random: they use the scope. One read
//! of the clock remains: `$toMillis` with a picture without a date uses today's date;
//! it cannot be replaced without losing its context argument.

use jsonata_core::ast::AstNode;
use jsonata_core::evaluator::{Context, Evaluator, EvaluatorError, HostFnResult};
use jsonata_core::value::JValue;
use serde_json::Value;

use super::SEQUENCE_MAX;
use super::mentions::Mentions;
use super::numbers::ExactIntegers;
use crate::data::random::{SeededRandom, seed_from_number};
use crate::data::{EvaluationFault, EvaluationScope, intrinsic};

/// Registers the functions that the expression mentions.
pub(super) fn register(
    evaluator: &mut Evaluator,
    mentions: &Mentions,
    scope: &EvaluationScope<'_>,
    chance: &SeededRandom,
    exact: &ExactIntegers,
) -> Result<(), EvaluatorError> {
    let now = (scope.now.unix_timestamp_nanos() / 1_000_000) as f64;
    if mentions.uses("partition") {
        let exact = exact.clone();
        evaluator.register_fn("partition", move |args: &[JValue]| partition(args, &exact))?;
    }
    if mentions.uses("range") {
        evaluator.register_fn("range", range)?;
    }
    if mentions.uses("hash") {
        let exact = exact.clone();
        evaluator.register_fn("hash", move |args: &[JValue]| hash(args, &exact))?;
    }
    if mentions.uses("parse") {
        let exact = exact.clone();
        evaluator.register_fn("parse", move |args: &[JValue]| parse(args, &exact))?;
    }
    if mentions.uses("uuid") {
        let chance = chance.clone();
        evaluator.register_fn("uuid", move |_: &[JValue]| {
            Ok(JValue::string(chance.next_uuid()))
        })?;
    }
    if mentions.uses("random") {
        let chance = chance.clone();
        evaluator.register_fn_override("random", move |args: &[JValue]| random(args, &chance))?;
    }
    if mentions.uses("shuffle") {
        let chance = chance.clone();
        evaluator.register_fn_override("shuffle", move |args: &[JValue]| shuffle(args, &chance))?;
    }
    if mentions.uses("millis") {
        evaluator.register_fn_override("millis", move |_: &[JValue]| Ok(JValue::Number(now)))?;
    }
    if mentions.uses("now") {
        evaluator.register_fn_override("now", move |args: &[JValue]| format_now(now, args))?;
    }
    if mentions.uses("eval") {
        evaluator.register_fn_override("eval", |_: &[JValue]| {
            Err(evaluator_error(
                "D3120: the function $eval is not supported",
            ))
        })?;
    }
    Ok(())
}

fn evaluator_error(message: impl Into<String>) -> EvaluatorError {
    EvaluatorError::EvaluationError(message.into())
}

fn from_fault(fault: EvaluationFault) -> EvaluatorError {
    evaluator_error(format!("T0410: {}", fault.cause))
}

/// Converts the arguments to JSON; `None` if one is undefined: then the result is
/// undefined too.
fn arguments_to_json(
    args: &[JValue],
    exact: &ExactIntegers,
) -> Result<Option<Vec<Value>>, EvaluatorError> {
    args.iter()
        .map(|arg| {
            exact
                .extract_json(arg)
                .map_err(|what| evaluator_error(format!("T0410: an argument is {what}")))
        })
        .collect()
}

fn partition(args: &[JValue], exact: &ExactIntegers) -> HostFnResult {
    match arguments_to_json(args, exact)?.as_deref() {
        None => Ok(JValue::Undefined),
        Some([array, size]) => intrinsic::partition(array, size)
            .map(|pieces| exact.to_jsonata(&pieces))
            .map_err(from_fault),
        Some(_) => Err(evaluator_error(
            "T0410: $partition takes an array and a size",
        )),
    }
}

/// Returns a sequence, so that a range of one number is that number, as on AWS.
fn range(args: &[JValue]) -> HostFnResult {
    let numbers: Option<Vec<f64>> = args.iter().map(JValue::as_f64).collect();
    let (from, to, step) = match (args, numbers.as_deref()) {
        (args, _) if args.iter().any(JValue::is_undefined) => return Ok(JValue::Undefined),
        (_, Some([from, to])) => (*from, *to, 1.0),
        (_, Some([from, to, step])) => (*from, *to, *step),
        _ => {
            return Err(evaluator_error(
                "T0410: $range takes a start, an end and a step",
            ));
        }
    };
    let steps = ((to - from) / step).floor();
    if step == 0.0 || !steps.is_finite() {
        return Err(evaluator_error("T0410: $range needs a step other than 0"));
    }
    if steps >= SEQUENCE_MAX as f64 {
        return Err(evaluator_error(format!(
            "D2014: $range has at most {SEQUENCE_MAX} items"
        )));
    }
    // A step away from the end gives no items.
    let count = if steps < 0.0 { 0 } else { steps as u64 + 1 };
    Ok(JValue::sequence(
        (0..count)
            .map(|nth| JValue::Number(from + nth as f64 * step))
            .collect(),
    ))
}

fn hash(args: &[JValue], exact: &ExactIntegers) -> HostFnResult {
    match arguments_to_json(args, exact)?.as_deref() {
        None => Ok(JValue::Undefined),
        Some([data, algorithm]) => intrinsic::hash(data, algorithm)
            .map(|digest| exact.to_jsonata(&digest))
            .map_err(from_fault),
        Some(_) => Err(evaluator_error(
            "T0410: $hash takes a string and an algorithm",
        )),
    }
}

fn parse(args: &[JValue], exact: &ExactIntegers) -> HostFnResult {
    match args {
        [JValue::Undefined, ..] => Ok(JValue::Undefined),
        // `$map` passes the index and the array as additional arguments.
        [JValue::String(text), ..] => serde_json::from_str(text)
            .map(|value: Value| exact.to_jsonata(&value))
            .map_err(|error| evaluator_error(format!("D3120: $parse needs valid JSON: {error}"))),
        _ => Err(evaluator_error("T0410: $parse takes a string")),
    }
}

fn random(args: &[JValue], chance: &SeededRandom) -> HostFnResult {
    match args {
        [] => Ok(JValue::Number(chance.next_unit())),
        [JValue::Number(seed)] => Ok(JValue::Number(
            SeededRandom::new(seed_from_number(*seed)).next_unit(),
        )),
        _ => Err(evaluator_error(
            "T0410: $random takes no argument, or a number as its seed",
        )),
    }
}

fn shuffle(args: &[JValue], chance: &SeededRandom) -> HostFnResult {
    let mut items = match args {
        [JValue::Undefined] => return Ok(JValue::Undefined),
        [JValue::Array(items)] => items.to_vec(),
        [one] => vec![one.clone()],
        _ => return Err(evaluator_error("T0410: $shuffle takes an array")),
    };
    for last in (1..items.len()).rev() {
        let other = chance.next_below(last as u64 + 1) as usize;
        items.swap(last, other);
    }
    Ok(JValue::array(items))
}

/// `$now`, with an optional picture and time zone. The formatting is that of JSONata,
/// so this calls an evaluator.
fn format_now(now: f64, args: &[JValue]) -> HostFnResult {
    let mut context = Context::new();
    context.bind("millis".to_owned(), JValue::Number(now));
    let mut arguments = vec![AstNode::variable("millis")];
    for (name, arg) in ["picture", "timezone"].into_iter().zip(args) {
        context.bind(name.to_owned(), arg.clone());
        arguments.push(AstNode::variable(name));
    }
    let call = AstNode::Function {
        name: "fromMillis".to_owned(),
        args: arguments,
        is_builtin: true,
    };
    Evaluator::with_context(context).evaluate(&call, &JValue::Undefined)
}
