//! Tables and lists of facts, in text. On a terminal they fit its width; in a
//! pipe every row is one line, whole.

use ballast_domain::Timestamp;
use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table as Comfy,
    Width, presets,
};

use super::output::Screen;
use super::time;

/// A table in the making.
pub(crate) struct Table<'a> {
    table: Comfy,
    right: Vec<bool>,
    whole: Vec<bool>,
    /// The longest word of each column: it is never broken.
    words: Vec<usize>,
    screen: &'a Screen,
}

impl<'a> Table<'a> {
    /// A table with these columns; one whose name begins with `#` holds
    /// numbers and is set to the right; one that begins with `!` holds what
    /// people copy. Neither is ever broken.
    pub(crate) fn new(screen: &'a Screen, columns: &[&str]) -> Self {
        let mut table = Comfy::new();
        table.load_style(presets::NOTHING);
        if screen.terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(u16::try_from(screen.width).unwrap_or(u16::MAX));
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        if screen.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let right: Vec<bool> = columns.iter().map(|name| name.starts_with('#')).collect();
        let whole = columns.iter().map(|name| name.starts_with(['#', '!']));
        let whole: Vec<bool> = whole.collect();
        let cells = columns.iter().zip(&right).map(|(name, right)| {
            let name = name.trim_start_matches(['#', '!']).to_uppercase();
            aligned(Cell::new(name), *right).add_attribute(Attribute::Dim)
        });
        table.set_header(cells.collect::<Vec<_>>());
        Self {
            table,
            right,
            words: columns.iter().map(|name| name.chars().count()).collect(),
            whole,
            screen,
        }
    }

    /// Adds a row.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.styled(cells, false);
    }

    /// Adds a row that is there but does not matter much.
    pub(crate) fn faint<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.styled(cells, true);
    }

    fn styled<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>, faint: bool) {
        let terminal = self.screen.terminal;
        let columns = self.right.iter().zip(&mut self.words);
        let cells = cells
            .into_iter()
            .zip(columns)
            .map(|(text, (right, longest))| {
                let mut text = clean(&text.into());
                if terminal {
                    text = words_shortened(&text);
                    let words = text.split(' ').map(|word| word.chars().count());
                    *longest = words.max().unwrap_or(0).max(*longest);
                }
                let cell = aligned(Cell::new(text), *right);
                if faint {
                    cell.add_attribute(Attribute::Dim)
                } else {
                    cell
                }
            });
        let mut row = Row::from(cells.collect::<Vec<_>>());
        if self.screen.terminal {
            row.max_height(3);
        }
        self.table.add_row(row);
    }

    /// The table's text.
    pub(crate) fn text(mut self) -> String {
        let wants = self.whole.iter().zip(&self.words);
        for (column, (whole, longest)) in self.table.column_iter_mut().zip(wants) {
            column.set_padding((0, 2));
            let longest = u16::try_from(longest + 2).unwrap_or(u16::MAX);
            column.set_constraint(if *whole {
                ColumnConstraint::ContentWidth
            } else {
                ColumnConstraint::LowerBoundary(Width::Fixed(longest))
            });
        }
        self.table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Words that would take half a terminal lose their middle; `--json` and
/// pipes have them whole.
fn words_shortened(text: &str) -> String {
    const CHARS_MAX: usize = 32;
    let words = text.split(' ').map(|word| {
        let chars: Vec<char> = word.chars().collect();
        if chars.len() <= CHARS_MAX {
            return word.to_owned();
        }
        let (head, tail) = (&chars[..CHARS_MAX - 9], &chars[chars.len() - 8..]);
        head.iter().chain(&['…']).chain(tail).collect()
    });
    words.collect::<Vec<String>>().join(" ")
}

fn aligned(cell: Cell, right: bool) -> Cell {
    if right {
        cell.set_alignment(CellAlignment::Right)
    } else {
        cell
    }
}

/// Text of others, fit for a terminal: no control characters in it.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// Names and values, one below the other; absent values are left out.
pub(crate) fn facts(screen: &Screen, facts: &[(&str, Option<String>)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = facts.iter().filter_map(|(name, value)| {
        let value = clean(value.as_ref()?);
        let label = format!("{name:width$}");
        Some(format!("{}  {value}", screen.dim(&label)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `1234567` as `1,234,567`.
pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A moment: how long ago for a person, exact for a pipe.
pub(crate) fn moment(screen: &Screen, at: Timestamp) -> String {
    if screen.terminal {
        time::relative(at, screen.now)
    } else {
        at.to_string()
    }
}

/// A moment, both ways.
pub(crate) fn moment_long(screen: &Screen, at: Timestamp) -> String {
    format!("{} ({})", time::exact(at), time::relative(at, screen.now))
}

/// Items with commas between, or a dash.
pub(crate) fn listed<T: ToString>(items: &[T]) -> String {
    if items.is_empty() {
        return "–".to_owned();
    }
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        let told: Vec<_> = [0, 999, 1_000, 1_234_567].map(number).into();
        assert_eq!(told, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[31mb"), "a\u{fffd}[31mb");
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let mut screen = Screen::plain();
        let mut draw = |terminal| {
            screen.terminal = terminal;
            let mut table = Table::new(&screen, &["!id", "#slices", "name"]);
            table.row(["acme", "1,000", &"very long ".repeat(20)]);
            table.text()
        };
        assert!(draw(true).lines().all(|line| line.chars().count() <= 80));
        assert_eq!(draw(false).lines().count(), 2, "a row in a pipe is a line");
    }
}
