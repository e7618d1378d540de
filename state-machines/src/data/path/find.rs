//! Evaluates paths on documents. Borrows values instead of copying where possible.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::query::{PathFunction, PathQuery, PathRoot, QueryStep, SliceBounds};
use crate::data::{EvaluationFault, EvaluationScope, errors, number};

/// The maximum number of intermediate values; paths such as `$..*..*` multiply.
const FOUND_MAX: usize = 1_000_000;

/// The result of a path.
pub(super) enum PathResult<'a> {
    /// The result of a definite path, if any.
    One(Option<Cow<'a, Value>>),
    /// The results of any other path.
    Many(Vec<Cow<'a, Value>>),
}

impl<'a> PathResult<'a> {
    /// Converts the result to a value: several results become an array, which may be
    /// empty.
    pub(super) fn value(self) -> Option<Cow<'a, Value>> {
        match self {
            Self::One(value) => value,
            Self::Many(values) => Some(Cow::Owned(Value::Array(
                values.into_iter().map(Cow::into_owned).collect(),
            ))),
        }
    }
}

impl PathQuery {
    /// Evaluates the path. `current` is the value of `@` inside a filter.
    pub(super) fn find<'a>(
        &self,
        scope: &EvaluationScope<'a>,
        current: Option<&'a Value>,
    ) -> Result<PathResult<'a>, EvaluationFault> {
        let start = match &self.root {
            PathRoot::Input => Some(scope.input),
            PathRoot::Context => Some(scope.context),
            PathRoot::Variable(name) => scope.variables.get(name),
            PathRoot::Current => current,
        };
        let mut values: Vec<Cow<'a, Value>> = start.map(Cow::Borrowed).into_iter().collect();
        let mut definite = true;
        for (at, step) in self.steps.iter().enumerate() {
            if let QueryStep::Apply(function) = step {
                let whole = match definite {
                    true => values.pop(),
                    false => PathResult::Many(values).value(),
                };
                let result = whole.map(|whole| function.apply(&whole)).transpose()?;
                return Ok(PathResult::One(result.map(Cow::Owned)));
            }
            let last = at + 1 == self.steps.len();
            let below_deep = at > 0 && self.steps[at - 1] == QueryStep::Deep;
            definite &= match step {
                QueryStep::Name(_) | QueryStep::Index(_) => true,
                QueryStep::Names(_) => last,
                _ => false,
            };
            let mut next = Vec::new();
            for value in values {
                apply_step(step, value, scope, last, below_deep, &mut next)?;
                if next.len() > FOUND_MAX {
                    return Err(EvaluationFault::new(
                        errors::RUNTIME,
                        format!("a path has more than {FOUND_MAX} results"),
                    ));
                }
            }
            values = next;
        }
        Ok(if definite {
            PathResult::One(values.pop())
        } else {
            PathResult::Many(values)
        })
    }
}

/// Applies one step to one value, and pushes the results to `into`.
fn apply_step<'a>(
    step: &QueryStep,
    value: Cow<'a, Value>,
    scope: &EvaluationScope<'a>,
    last: bool,
    below_deep: bool,
    into: &mut Vec<Cow<'a, Value>>,
) -> Result<(), EvaluationFault> {
    match step {
        QueryStep::Name(name) => into.extend(field(value, name)),
        QueryStep::Names(names) if last => into.extend(pick_fields(&value, names)),
        QueryStep::Names(names) => {
            into.extend(names.iter().filter_map(|name| field(value.clone(), name)));
        }
        QueryStep::Index(index) => into.extend(item(value, *index)),
        QueryStep::Indexes(indexes) => {
            into.extend(
                indexes
                    .iter()
                    .filter_map(|index| item(value.clone(), *index)),
            );
        }
        QueryStep::Slice(slice) => into.extend(slice.apply(value)),
        QueryStep::Any => into.extend(children(value)),
        QueryStep::Deep => descend(value, into),
        QueryStep::Filter(filter) => {
            // As in Jayway: a filter tests the items of an array, but an object
            // itself. After `..` it tests every value itself, because the items
            // are visited anyway.
            let candidates = match (&*value, below_deep) {
                (Value::Array(_), false) => children(value),
                (Value::Object(_), _) | (_, true) => vec![value],
                _ => Vec::new(),
            };
            for candidate in candidates {
                if filter.accepts(scope, &candidate)? {
                    into.push(candidate);
                }
            }
        }
        // Handled by the caller, since it ends the path.
        QueryStep::Apply(_) => {}
    }
    Ok(())
}

fn field<'a>(value: Cow<'a, Value>, name: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(mut value) => value.as_object_mut()?.swap_remove(name).map(Cow::Owned),
    }
}

/// An object with the named fields that exist.
fn pick_fields<'a>(value: &Value, names: &[String]) -> Option<Cow<'a, Value>> {
    let fields = value.as_object()?;
    let merged: Map<String, Value> = names
        .iter()
        .filter_map(|name| Some((name.clone(), fields.get(name)?.clone())))
        .collect();
    Some(Cow::Owned(Value::Object(merged)))
}

/// Resolves an index that may count from the end.
fn resolve_index(index: i64, length: usize) -> Option<usize> {
    let at = match index {
        0.. => usize::try_from(index).ok()?,
        _ => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (at < length).then_some(at)
}

fn item<'a>(value: Cow<'a, Value>, index: i64) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => {
            let items = value.as_array()?;
            items
                .get(resolve_index(index, items.len())?)
                .map(Cow::Borrowed)
        }
        Cow::Owned(mut value) => {
            let items = value.as_array_mut()?;
            let at = resolve_index(index, items.len())?;
            Some(Cow::Owned(items.swap_remove(at)))
        }
    }
}

/// The fields of an object, or the items of an array.
fn children(value: Cow<'_, Value>) -> Vec<Cow<'_, Value>> {
    match value {
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(fields)) => fields
            .into_iter()
            .map(|(_, value)| Cow::Owned(value))
            .collect(),
        _ => Vec::new(),
    }
}

/// Pushes the value and all its descendants, parents first.
fn descend<'a>(value: Cow<'a, Value>, into: &mut Vec<Cow<'a, Value>>) {
    let below = match &*value {
        Value::Array(_) | Value::Object(_) => children(value.clone()),
        _ => Vec::new(),
    };
    into.push(value);
    for child in below {
        descend(child, into);
    }
}

impl SliceBounds {
    fn apply<'a>(&self, value: Cow<'a, Value>) -> Vec<Cow<'a, Value>> {
        if !value.is_array() {
            return Vec::new();
        }
        let items = children(value);
        let clamp = |bound: i64| match bound {
            0.. => usize::try_from(bound)
                .unwrap_or(usize::MAX)
                .min(items.len()),
            _ => items
                .len()
                .saturating_sub(usize::try_from(bound.unsigned_abs()).unwrap_or(usize::MAX)),
        };
        let from = self.from.map_or(0, clamp);
        let to = self.to.map_or(items.len(), clamp);
        let length = to.saturating_sub(from);
        items
            .into_iter()
            .skip(from)
            .take(length)
            .step_by(self.step)
            .collect()
    }
}

impl PathFunction {
    /// Applies the function to an array; [`PathFunction::Length`] and
    /// [`PathFunction::Keys`] also accept objects, and the former strings.
    fn apply(self, value: &Value) -> Result<Value, EvaluationFault> {
        let unfit = |wanted: &str| {
            EvaluationFault::new(
                errors::RUNTIME,
                format!("the function at the end of the path needs {wanted}"),
            )
        };
        match (self, value) {
            (Self::Length, Value::Array(items)) => return Ok(items.len().into()),
            (Self::Length, Value::Object(fields)) => return Ok(fields.len().into()),
            (Self::Length, Value::String(text)) => return Ok(text.chars().count().into()),
            (Self::Length, _) => return Err(unfit("an array, an object or a string")),
            (Self::Keys, Value::Object(fields)) => {
                return Ok(fields.keys().cloned().map(Value::String).collect());
            }
            (Self::Keys, _) => return Err(unfit("an object")),
            _ => {}
        }
        let items = value.as_array().ok_or_else(|| unfit("an array"))?;
        match self {
            Self::First => return items.first().cloned().ok_or_else(|| unfit("items")),
            Self::Last => return items.last().cloned().ok_or_else(|| unfit("items")),
            _ => {}
        }
        let numbers: Vec<f64> = items.iter().filter_map(Value::as_f64).collect();
        if numbers.is_empty() {
            return Err(unfit("numbers"));
        }
        number::from_f64(self.aggregate(&numbers))
            .map(Value::Number)
            .ok_or_else(|| unfit("smaller numbers"))
    }

    fn aggregate(self, numbers: &[f64]) -> f64 {
        let sum: f64 = numbers.iter().sum();
        let average = sum / numbers.len() as f64;
        match self {
            Self::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Self::Avg => average,
            Self::StdDev => {
                let squares: f64 = numbers.iter().map(|n| (n - average).powi(2)).sum();
                (squares / numbers.len() as f64).sqrt()
            }
            _ => sum,
        }
    }
}
