//! Renders a task's progress on one line, as far as it fits.

use ballast_domain::Timestamp;

use super::line::{Style, StyledLine};
use super::pace::{format_rate, remaining_ms};
use crate::execution::body::TaskProgress;
use crate::table::format_number;
use crate::time::format_duration;

/// The widest bar, in columns.
const BAR_MAX: usize = 28;
const BAR_MIN: usize = 8;

/// The progress of a task, after an indentation.
pub(crate) fn progress_line(
    task: &TaskProgress,
    indent: &str,
    columns: usize,
    now: Timestamp,
) -> StyledLine {
    let mut line = StyledLine::new(Style::Plain, indent);
    // The last parts are dropped first.
    let mut parts: Vec<(Style, String)> = Vec::new();
    if let Some(total) = task.total.filter(|total| *total > 0) {
        let share = (task.done as f64 / total as f64).clamp(0.0, 1.0);
        let width = (columns / 4).clamp(BAR_MIN, BAR_MAX);
        let (full, rest) = split_bar(share, width);
        line = line.with(Style::Cyan, &full).with(Style::Dim, &rest);
        parts.push((Style::Bold, format_percent(share)));
        // A constant width avoids jumps.
        let (done, total) = (format_number(task.done), format_number(total));
        let counts = format!("{done:>width$} of {total}", width = total.len());
        parts.push((Style::Plain, with_unit(counts, &task.unit)));
    } else {
        line = line.with(
            Style::Plain,
            &with_unit(format_number(task.done), &task.unit),
        );
    }
    if let Some(per_second) = task.per_second {
        if let Some(left) = remaining_ms(task, per_second, now) {
            parts.push((Style::Plain, format!("{} left", format_duration(left))));
        }
        parts.push((Style::Dim, format_rate(per_second, &task.unit)));
    }
    for (paint, text) in parts {
        if line.width() + 2 + text.chars().count() <= columns {
            line = line.then_spaced(paint, &text);
        }
    }
    line
}

fn with_unit(count: String, unit: &str) -> String {
    if unit.is_empty() {
        count
    } else {
        format!("{count} {unit}")
    }
}

/// ` 41 %`, rounded down, so that 100 % means done.
pub(crate) fn format_percent(share: f64) -> String {
    format!("{:>3} %", (share * 100.0 + 1e-9).floor())
}

/// The filled part, in eighths of a column, and the rest.
fn split_bar(share: f64, width: usize) -> (String, String) {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * (width * 8) as f64).floor() as usize;
    let part = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    let full = format!("{}{part}", "█".repeat(eighths / 8));
    let rest = "░".repeat(width - eighths.div_ceil(8));
    (full, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_it_should_be() {
        for share in [0.0, 0.01, 0.33, 0.5, 0.999, 1.0] {
            let (full, rest) = split_bar(share, 12);
            assert_eq!(full.chars().count() + rest.chars().count(), 12, "{share}");
        }
        assert_eq!(split_bar(0.5, 4), ("██".to_owned(), "░░".to_owned()));
        assert_eq!(split_bar(0.45, 4).0, "█▊");
        assert_eq!(
            (format_percent(0.999), format_percent(1.0)),
            (" 99 %".to_owned(), "100 %".to_owned())
        );
        assert_eq!(format_percent(0.29), " 29 %");
    }
}
