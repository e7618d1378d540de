//! Words for texts that people read.

/// A count with its noun: `1 row`, `4 rows`.
#[must_use]
pub fn count_noun(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
