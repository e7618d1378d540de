//! Draws bars of shard scores with block characters.

use crate::output::Screen;

/// One line of a chart.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) kind: BarKind,
    /// Notes next to the bar.
    pub(crate) notes: Vec<String>,
}

/// How a bar is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarKind {
    /// The winner.
    Winner,
    /// A candidate.
    Rival,
    /// A vetoed shard.
    Out,
}

const NAME_CHARS_MAX: usize = 24;

/// Draws bars to a common scale, in `screen.width` columns. A vetoed bar uses the same scale and
/// may be cut off.
pub(crate) fn draw_bars(screen: &Screen, bars: &[Bar]) -> String {
    let scale = bars
        .iter()
        .filter(|bar| bar.kind != BarKind::Out)
        .map(|bar| bar.value)
        .reduce(f64::max)
        .or_else(|| bars.iter().map(|bar| bar.value).reduce(f64::max))
        .unwrap_or(1.0);
    let names = bars
        .iter()
        .map(|bar| truncate_name(&bar.name).chars().count());
    let name_width = names.max().unwrap_or(0);
    let values: Vec<String> = bars.iter().map(|bar| format_score(bar.value)).collect();
    let value_width = values.iter().map(String::len).max().unwrap_or(0);
    let width = (screen.width / 3).clamp(8, 36);
    let indent = 2 + 2 + name_width + 2;
    let mut lines = Vec::new();
    for (bar, value) in bars.iter().zip(&values) {
        let mark = if bar.kind == BarKind::Winner {
            "▶"
        } else {
            " "
        };
        let name = format!("{:name_width$}", truncate_name(&bar.name));
        let blocks = bar_blocks(bar.value / scale, width, bar.kind);
        let head = format!("  {mark} {name}  {blocks}  {value:>value_width$}");
        let used = head.chars().count();
        let note = bar.notes.join("; ");
        let fits = used + 2 + note.chars().count() <= screen.width;
        let line = match note.is_empty() {
            true => head.trim_end().to_owned(),
            false if fits => format!("{head}  {note}"),
            false => head.clone(),
        };
        lines.push(paint_bar(screen, bar.kind, &line));
        if !fits && !note.is_empty() {
            for part in wrap_words(&note, screen.width.saturating_sub(indent).max(16)) {
                lines.push(paint_bar(
                    screen,
                    bar.kind,
                    &format!("{:indent$}{part}", ""),
                ));
            }
        }
    }
    lines.join("\n")
}

fn paint_bar(screen: &Screen, kind: BarKind, line: &str) -> String {
    match kind {
        BarKind::Winner => screen.green(line),
        BarKind::Rival => line.to_owned(),
        BarKind::Out => screen.dim(line),
    }
}

fn truncate_name(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_CHARS_MAX - 1).collect();
    format!("{kept}…")
}

/// Formats a score; small ones get more digits.
pub(crate) fn format_score(value: f64) -> String {
    match value.abs() {
        small if small < 0.1 && small > 0.0 => format!("{value:.4}"),
        large if large >= 1_000.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// A bar of eighths of a column.
fn bar_blocks(share: f64, width: usize, kind: BarKind) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let over = share > 1.0;
    let share = if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let eighths = (share * (width * 8) as f64).round() as usize;
    let drawn = if kind == BarKind::Out && over {
        format!("{}»", "░".repeat(width - 1))
    } else if kind == BarKind::Out {
        "░".repeat(eighths.div_ceil(8).max(1))
    } else {
        let rest = EIGHTHS.get(eighths.max(1) % 8).unwrap_or(&"");
        format!("{}{rest}", "█".repeat(eighths / 8))
    };
    format!("{drawn:width$}")
}

/// Wraps words into lines of at most `width` characters.
pub(crate) fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_to_scale() {
        assert_eq!(bar_blocks(1.0, 4, BarKind::Winner), "████");
        assert_eq!(bar_blocks(0.5, 4, BarKind::Rival), "██  ");
        assert_eq!(bar_blocks(0.0, 4, BarKind::Rival), "▏   ", "never nothing");
        assert_eq!(
            bar_blocks(9.0, 4, BarKind::Out),
            "░░░»",
            "never over the edge"
        );
        assert_eq!(bar_blocks(f64::NAN, 4, BarKind::Rival), "▏   ");
    }

    #[test]
    fn scores_have_the_digits_that_matter() {
        assert_eq!(
            [0.00123, 1.4821, 12_345.6].map(format_score),
            ["0.0012", "1.48", "12346"]
        );
    }
}
