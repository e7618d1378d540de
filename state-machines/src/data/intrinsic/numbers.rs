//! `MathAdd`, `MathRandom`.

use serde_json::Value;

use super::{expect_integer, intrinsic_fault};
use crate::data::EvaluationFault;
use crate::data::random::{SeededRandom, seed_from_number};

/// AWS accepts 32-bit integers only.
fn expect_i32(function: &str, value: &Value) -> Result<i64, EvaluationFault> {
    let integer = expect_integer(function, value)?;
    if i32::try_from(integer).is_err() {
        return Err(intrinsic_fault(format!(
            "{function} needs integers from {} to {}",
            i32::MIN,
            i32::MAX
        )));
    }
    Ok(integer)
}

/// The sum of the rounded numbers.
pub(super) fn add(one: &Value, two: &Value) -> Result<Value, EvaluationFault> {
    let sum = expect_i32("States.MathAdd", one)? + expect_i32("States.MathAdd", two)?;
    Ok(sum.into())
}

/// A random number from `from` to `to`, exclusive.
pub(super) fn random(
    from: &Value,
    to: &Value,
    chance: &SeededRandom,
) -> Result<Value, EvaluationFault> {
    let from = expect_i32("States.MathRandom", from)?;
    let to = expect_i32("States.MathRandom", to)?;
    let width = u64::try_from(to - from)
        .ok()
        .filter(|width| *width > 0)
        .ok_or_else(|| intrinsic_fault("States.MathRandom needs an end greater than its start"))?;
    // Both are 32-bit integers, so the sum fits.
    Ok((from + chance.next_below(width) as i64).into())
}

/// The same with an explicit seed.
pub(super) fn random_seeded(
    from: &Value,
    to: &Value,
    seed: &Value,
) -> Result<Value, EvaluationFault> {
    let seed = expect_integer("States.MathRandom", seed)?;
    random(from, to, &SeededRandom::new(seed_from_number(seed as f64)))
}
