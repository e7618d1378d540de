//! `MathAdd`, `MathRandom`.

use serde_json::Value;

use super::{failure, integer_of};
use crate::data::Fault;
use crate::data::chance::{Chance, seed_of};

/// What AWS takes: the integers of 32 bits.
fn small(function: &str, value: &Value) -> Result<i64, Fault> {
    let integer = integer_of(function, value)?;
    if i32::try_from(integer).is_err() {
        return Err(failure(format!(
            "{function} needs integers from {} to {}",
            i32::MIN,
            i32::MAX
        )));
    }
    Ok(integer)
}

/// The sum; each number is rounded before.
pub(super) fn add(one: &Value, two: &Value) -> Result<Value, Fault> {
    let sum = small("States.MathAdd", one)? + small("States.MathAdd", two)?;
    Ok(sum.into())
}

/// A number from `from` up to `to`, without it.
pub(super) fn random(from: &Value, to: &Value, chance: &Chance) -> Result<Value, Fault> {
    let from = small("States.MathRandom", from)?;
    let to = small("States.MathRandom", to)?;
    let width = u64::try_from(to - from)
        .ok()
        .filter(|width| *width > 0)
        .ok_or_else(|| failure("States.MathRandom needs an end beyond its start"))?;
    // Both are integers of 32 bits, so the sum fits.
    Ok((from + chance.below(width) as i64).into())
}

/// The same, always equal for an equal seed.
pub(super) fn random_seeded(from: &Value, to: &Value, seed: &Value) -> Result<Value, Fault> {
    let seed = integer_of("States.MathRandom", seed)?;
    random(from, to, &Chance::new(seed_of(seed as f64)))
}
