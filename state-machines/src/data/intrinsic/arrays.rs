//! Functions of arrays.

use serde_json::Value;

use super::{expect_array, expect_integer, intrinsic_fault};
use crate::data::EvaluationFault;

/// The maximum length of `ArrayRange`.
const RANGE_MAX: u64 = 1000;

pub(super) fn contains(array: &Value, item: &Value) -> Result<Value, EvaluationFault> {
    let items = expect_array("States.ArrayContains", array)?;
    Ok(Value::Bool(items.contains(item)))
}

pub(super) fn get_item(array: &Value, index: &Value) -> Result<Value, EvaluationFault> {
    let items = expect_array("States.ArrayGetItem", array)?;
    let index = expect_integer("States.ArrayGetItem", index)?;
    usize::try_from(index)
        .ok()
        .and_then(|index| items.get(index))
        .cloned()
        .ok_or_else(|| {
            intrinsic_fault(format!(
                "States.ArrayGetItem: index {index} is out of range, the array has {} items",
                items.len()
            ))
        })
}

pub(super) fn length(array: &Value) -> Result<Value, EvaluationFault> {
    Ok(expect_array("States.ArrayLength", array)?.len().into())
}

/// Splits the array into chunks of one size; the last may be shorter.
pub(in crate::data) fn partition(array: &Value, size: &Value) -> Result<Value, EvaluationFault> {
    let items = expect_array("a partition", array)?;
    let size = expect_integer("a partition", size)?;
    let size = usize::try_from(size)
        .ok()
        .filter(|size| *size > 0)
        .ok_or_else(|| intrinsic_fault("a partition needs a size of at least 1"))?;
    Ok(items
        .chunks(size)
        .map(|piece| Value::Array(piece.to_vec()))
        .collect())
}

/// The numbers from `from` to `to`, inclusive, in steps of `step`.
pub(in crate::data) fn range(
    from: &Value,
    to: &Value,
    step: &Value,
) -> Result<Value, EvaluationFault> {
    let from = i128::from(expect_integer("a range", from)?);
    let to = i128::from(expect_integer("a range", to)?);
    let step = i128::from(expect_integer("a range", step)?);
    if step == 0 {
        return Err(intrinsic_fault("a range needs a step other than 0"));
    }
    let steps = (to - from) / step;
    // A step away from the end gives no items.
    if (to - from).signum() * step.signum() < 0 {
        return Ok(Value::Array(Vec::new()));
    }
    if steps >= i128::from(RANGE_MAX) {
        return Err(intrinsic_fault(format!(
            "a range has at most {RANGE_MAX} items, this one would have {}",
            steps + 1
        )));
    }
    Ok((0..=steps)
        // Both ends are i64, so all items are.
        .filter_map(|nth| i64::try_from(from + nth * step).ok())
        .map(Value::from)
        .collect())
}

/// Removes duplicates; keeps the first of each.
pub(super) fn unique(array: &Value) -> Result<Value, EvaluationFault> {
    let items = expect_array("States.ArrayUnique", array)?;
    let mut seen = std::collections::HashSet::new();
    Ok(items
        .iter()
        // The order of fields does not matter, so compare objects by their text
        // with sorted fields.
        .filter(|item| seen.insert(sort_fields(item).to_string()))
        .cloned()
        .collect())
}

fn sort_fields(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sort_fields).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            fields
                .into_iter()
                .map(|(name, value)| (name.clone(), sort_fields(value)))
                .collect()
        }
        other => other.clone(),
    }
}
