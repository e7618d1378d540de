//! Bars: shards by score, drawn with blocks.

use crate::output::Screen;

/// One line of a chart.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) kind: Kind,
    /// What is to be said beside it.
    pub(crate) notes: Vec<String>,
}

/// How a bar is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The one that won.
    Winner,
    /// One that could have won.
    Rival,
    /// One that could not.
    Out,
}

const NAME_CHARS_MAX: usize = 24;

/// Draws bars of the same scale, in `screen.width` columns. A bar that could
/// not win is drawn to the same scale and may be cut by the edge.
pub(crate) fn draw(screen: &Screen, bars: &[Bar]) -> String {
    let scale = bars
        .iter()
        .filter(|bar| bar.kind != Kind::Out)
        .map(|bar| bar.value)
        .reduce(f64::max)
        .or_else(|| bars.iter().map(|bar| bar.value).reduce(f64::max))
        .unwrap_or(1.0);
    let names = bars.iter().map(|bar| cut(&bar.name).chars().count());
    let name_width = names.max().unwrap_or(0);
    let values: Vec<String> = bars.iter().map(|bar| value(bar.value)).collect();
    let value_width = values.iter().map(String::len).max().unwrap_or(0);
    let width = (screen.width / 3).clamp(8, 36);
    let indent = 2 + 2 + name_width + 2;
    let mut lines = Vec::new();
    for (bar, value) in bars.iter().zip(&values) {
        let mark = if bar.kind == Kind::Winner { "▶" } else { " " };
        let name = format!("{:name_width$}", cut(&bar.name));
        let blocks = blocks(bar.value / scale, width, bar.kind);
        let head = format!("  {mark} {name}  {blocks}  {value:>value_width$}");
        let used = head.chars().count();
        let note = bar.notes.join("; ");
        let fits = used + 2 + note.chars().count() <= screen.width;
        let line = match note.is_empty() {
            true => head.trim_end().to_owned(),
            false if fits => format!("{head}  {note}"),
            false => head.clone(),
        };
        lines.push(paint(screen, bar.kind, &line));
        if !fits && !note.is_empty() {
            for part in wrapped(&note, screen.width.saturating_sub(indent).max(16)) {
                lines.push(paint(screen, bar.kind, &format!("{:indent$}{part}", "")));
            }
        }
    }
    lines.join("\n")
}

fn paint(screen: &Screen, kind: Kind, line: &str) -> String {
    match kind {
        Kind::Winner => screen.green(line),
        Kind::Rival => line.to_owned(),
        Kind::Out => screen.dim(line),
    }
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_CHARS_MAX - 1).collect();
    format!("{kept}…")
}

/// A score: more digits for small ones.
pub(crate) fn value(value: f64) -> String {
    match value.abs() {
        small if small < 0.1 && small > 0.0 => format!("{value:.4}"),
        large if large >= 1_000.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// A bar of eighths of a column.
fn blocks(share: f64, width: usize, kind: Kind) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let over = share > 1.0;
    let share = if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let eighths = (share * (width * 8) as f64).round() as usize;
    let drawn = if kind == Kind::Out && over {
        format!("{}»", "░".repeat(width - 1))
    } else if kind == Kind::Out {
        "░".repeat(eighths.div_ceil(8).max(1))
    } else {
        let rest = EIGHTHS.get(eighths.max(1) % 8).unwrap_or(&"");
        format!("{}{rest}", "█".repeat(eighths / 8))
    };
    format!("{drawn:width$}")
}

/// Words in lines of at most `width` characters.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
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
        assert_eq!(blocks(1.0, 4, Kind::Winner), "████");
        assert_eq!(blocks(0.5, 4, Kind::Rival), "██  ");
        assert_eq!(blocks(0.0, 4, Kind::Rival), "▏   ", "never nothing");
        assert_eq!(blocks(9.0, 4, Kind::Out), "░░░»", "never over the edge");
        assert_eq!(blocks(f64::NAN, 4, Kind::Rival), "▏   ");
    }

    #[test]
    fn scores_have_the_digits_that_matter() {
        assert_eq!(
            [0.00123, 1.4821, 12_345.6].map(value),
            ["0.0012", "1.48", "12346"]
        );
    }
}
