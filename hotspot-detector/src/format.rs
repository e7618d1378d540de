//! Formatting of numbers and lists.

pub(crate) use crate::rules::vars::rounded;

/// A duration in milliseconds: `10m`, `1.5s`.
pub(crate) fn duration(ms: f64) -> String {
    crate::rules::format_duration(ms)
}

/// A share: `83 %`.
pub(crate) fn percent(share: f64) -> String {
    crate::rules::vars::Unit::Share.format(share)
}

/// Bytes: `2.4 GB`.
pub(crate) fn bytes(many: f64) -> String {
    crate::rules::vars::Unit::Bytes.format(many)
}

/// `a`, `a and b`, `a, b and c`, `a, b and 3 more`.
pub(crate) fn list(names: &[String]) -> String {
    const SHOWN: usize = 4;
    match names {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] if names.len() <= SHOWN => format!("{} and {last}", first.join(", ")),
        _ => format!(
            "{} and {} more",
            names[..SHOWN - 1].join(", "),
            names.len() - SHOWN + 1
        ),
    }
}
