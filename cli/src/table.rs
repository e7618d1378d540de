//! Tables and lists of facts, as text. On a terminal they fit its width; in a pipe every row is one
//! complete line.

use ballast_domain::Timestamp;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table as Comfy, presets};

use super::output::Screen;
use super::time;

/// A table to render.
pub struct Table<'a> {
    columns: Vec<TableColumn>,
    rows: Vec<TableRow>,
    screen: &'a Screen,
}

struct TableColumn {
    name: String,
    right: bool,
}

struct TableRow {
    cells: Vec<String>,
    faint: bool,
}

/// Spaces between two columns.
const GAP: usize = 2;
/// The length to which cells are cut before columns are dropped; Ballast's ids are shorter.
const CELL_LONG: usize = 28;
/// The length to which cells are cut if dropping columns is not enough.
const CELL_SHORT: usize = 14;
/// Number of columns that are never dropped.
const COLUMNS_MIN: usize = 2;

impl<'a> Table<'a> {
    /// A table with these columns, the most important first. Columns with the prefix `#` hold
    /// numbers and are right-aligned.
    pub fn new(screen: &'a Screen, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|name| TableColumn {
            name: name.trim_start_matches('#').to_uppercase(),
            right: name.starts_with('#'),
        });
        Self {
            columns: columns.collect(),
            rows: Vec::new(),
            screen,
        }
    }

    /// Adds a row.
    pub fn add_row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.push_row(cells, false);
    }

    /// Adds a dimmed row.
    pub(crate) fn add_dimmed_row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.push_row(cells, true);
    }

    fn push_row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>, faint: bool) {
        let cells = cells
            .into_iter()
            .map(|text| sanitize(&text.into()))
            .collect();
        self.rows.push(TableRow { cells, faint });
    }

    /// Renders the table. In a pipe it is complete. On a terminal it fits the width: long cells
    /// lose their middle, then the last columns are dropped.
    pub fn render(mut self) -> String {
        let mut left_out = Vec::new();
        if self.screen.terminal {
            let room = self.screen.width;
            if self.width() > room {
                self.shorten(CELL_LONG);
            }
            while self.width() > room && self.columns.len() > COLUMNS_MIN {
                left_out.extend(self.columns.pop().map(|column| column.name.to_lowercase()));
            }
            if self.width() > room {
                self.shorten(CELL_SHORT);
            }
        }
        let mut lines: Vec<String> = self.lines();
        if !left_out.is_empty() {
            left_out.reverse();
            let message = format!("no room for {}; see --json", left_out.join(", "));
            lines.push(self.screen.dim(&message));
        }
        lines.join("\n")
    }

    fn width(&self) -> usize {
        let gaps = GAP * self.columns.len().saturating_sub(1);
        gaps + (0..self.columns.len())
            .map(|n| self.column_width(n))
            .sum::<usize>()
    }

    fn column_width(&self, n: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(n));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(self.columns[n].name.chars().count())
    }

    fn shorten(&mut self, most: usize) {
        for cell in self.rows.iter_mut().flat_map(|row| &mut row.cells) {
            let chars: Vec<char> = cell.chars().collect();
            if chars.len() > most {
                let tail = most / 3;
                let head = most - tail - 1;
                let kept = chars[..head].iter().chain(&['…']);
                *cell = kept.chain(&chars[chars.len() - tail..]).collect();
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut table = Comfy::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        if self.screen.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let names = self.columns.iter().map(|column| {
            aligned(Cell::new(&column.name), column.right).add_attribute(Attribute::Dim)
        });
        table.set_header(names.collect::<Vec<_>>());
        for row in &self.rows {
            let cells = row.cells.iter().zip(&self.columns).map(|(text, column)| {
                let cell = aligned(Cell::new(text), column.right);
                if row.faint {
                    cell.add_attribute(Attribute::Dim)
                } else {
                    cell
                }
            });
            table.add_row(cells.collect::<Vec<_>>());
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }
}

fn aligned(cell: Cell, right: bool) -> Cell {
    if right {
        cell.set_alignment(CellAlignment::Right)
    } else {
        cell
    }
}

/// Replaces control characters in foreign text, for terminals.
pub(crate) fn sanitize(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// A list of names and values; absent values are left out.
pub(crate) fn fact_list(screen: &Screen, facts: &[(&str, Option<String>)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = facts.iter().filter_map(|(name, value)| {
        let value = sanitize(value.as_ref()?);
        let label = format!("{name:width$}");
        Some(format!("{}  {value}", screen.dim(&label)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A count with its noun: `1 poll`, `12,000 polls`.
pub(crate) fn count_noun(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", format_number(n))
}

/// `1234567` as `1,234,567`.
pub fn format_number(n: u64) -> String {
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

/// A time: relative on a terminal, exact in a pipe.
pub(crate) fn moment(screen: &Screen, at: Timestamp) -> String {
    if screen.terminal {
        time::format_relative(at, screen.now)
    } else {
        at.to_string()
    }
}

/// A time, exact and relative.
pub(crate) fn moment_long(screen: &Screen, at: Timestamp) -> String {
    format!(
        "{} ({})",
        time::format_exact(at),
        time::format_relative(at, screen.now)
    )
}

/// Joins items with commas; a dash if there are none.
pub(crate) fn join_or_dash<T: ToString>(items: &[T]) -> String {
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
        let message: Vec<_> = [0, 999, 1_000, 1_234_567].map(format_number).into();
        assert_eq!(message, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(sanitize("a\x1b[31mb"), "a\u{fffd}[31mb");
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let mut screen = Screen::plain();
        let mut draw = |terminal| {
            screen.terminal = terminal;
            let mut table = Table::new(&screen, &["!id", "#slices", "name"]);
            table.add_row(["acme", "1,000", &"very long ".repeat(20)]);
            table.render()
        };
        assert!(draw(true).lines().all(|line| line.chars().count() <= 80));
        assert_eq!(draw(false).lines().count(), 2, "a row in a pipe is a line");
    }
}
