//! Numbers: comparison by value, and rounding as on AWS.

use std::cmp::Ordering;

use serde_json::Number;

/// Compares by value: `1` equals `1.0`, and integers beyond 2^53 compare exactly.
pub(super) fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (as_integer(left), as_integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// The number as an integer, if it is stored as one.
fn as_integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

/// The nearest integer, halves upwards: 1.5 becomes 2, and -1.5 becomes -1.
/// `None` if it does not fit in an `i64`.
pub(super) fn round_to_i64(number: &Number) -> Option<i64> {
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let nearest = (number.as_f64()? + 0.5).floor();
    // Beyond 2^63 a cast would saturate silently.
    (nearest.abs() < 9.2e18).then_some(nearest as i64)
}

/// Converts a float to the shortest JSON number: whole ones to integers, as in
/// JavaScript. `None` for NaN and infinities.
pub(super) fn from_f64(number: f64) -> Option<Number> {
    if number.fract() == 0.0 && number.abs() < 9.2e18 {
        return Some(Number::from(number as i64));
    }
    Number::from_f64(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn number(value: serde_json::Value) -> Number {
        match value {
            serde_json::Value::Number(number) => number,
            other => panic!("{other} is no number"),
        }
    }

    #[test]
    fn forms_do_not_matter_and_large_integers_do() {
        let pairs = [
            (json!(1), json!(1.0), Ordering::Equal),
            (
                json!(9007199254740992u64),
                json!(9007199254740993u64),
                Ordering::Less,
            ),
            (json!(-1), json!(u64::MAX), Ordering::Less),
            (json!(2.5), json!(2), Ordering::Greater),
        ];
        for (left, right, expected) in pairs {
            assert_eq!(compare(&number(left), &number(right)), Some(expected));
        }
    }

    #[test]
    fn halves_go_up() {
        for (given, expected) in [(1.5, 2), (-1.5, -1), (-1.51, -2), (0.49, 0), (-0.5, 0)] {
            assert_eq!(
                round_to_i64(&number(json!(given))),
                Some(expected),
                "{given}"
            );
        }
        assert_eq!(round_to_i64(&number(json!(1e300))), None);
    }
}
