//! Draws the live view's lines over the previous ones. The cursor is hidden meanwhile and restored
//! at the end.

use std::io::{self, Write};

use crate::failure::CliError;
use crate::output::Screen;
use crate::view::watch::line::StyledLine;

/// The height if the terminal reports none.
const ROWS_DEFAULT: usize = 24;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const CLEAR_LINE_REST: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The state of the terminal.
pub(crate) struct Painter {
    /// The drawn lines, with their colours.
    drawn: Vec<String>,
    /// The display width of each line.
    widths: Vec<usize>,
    columns: usize,
}

impl Painter {
    pub(crate) fn new() -> Self {
        Self {
            drawn: Vec::new(),
            widths: Vec::new(),
            columns: 0,
        }
    }

    /// The current columns and rows.
    pub(crate) fn size(&self, screen: &Screen) -> (usize, usize) {
        match crossterm::terminal::size() {
            Ok((columns, rows)) if columns > 0 && rows > 0 => {
                (usize::from(columns), usize::from(rows))
            }
            _ => (screen.width, ROWS_DEFAULT),
        }
    }

    /// Redraws the lines, unless they are unchanged.
    pub(crate) fn draw(
        &mut self,
        screen: &Screen,
        columns: usize,
        lines: &[StyledLine],
    ) -> Result<(), CliError> {
        let painted: Vec<String> = lines.iter().map(|line| line.painted(screen)).collect();
        if painted == self.drawn && columns == self.columns {
            return Ok(());
        }
        let widths: Vec<usize> = lines.iter().map(StyledLine::width).collect();
        let text = overwrite(&self.widths, columns, &painted, &widths);
        self.drawn = painted;
        self.widths = widths;
        self.columns = columns;
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::closed_pipe(),
            _ => CliError::local(format!("stdout cannot be written to: {error}")),
        })
    }
}

/// The escape sequence that replaces lines of widths `before` with `painted`. A terminal that
/// became narrower has wrapped the old lines into several rows.
fn overwrite(before: &[usize], columns: usize, painted: &[String], widths: &[usize]) -> String {
    let rows: usize = before
        .iter()
        .map(|width| width.div_ceil(columns.max(1)).max(1))
        .sum();
    let mut text = String::from(HIDE_CURSOR);
    if rows > 0 {
        text.push_str(&format!("\x1b[{rows}A\r"));
    }
    for (line, width) in painted.iter().zip(widths) {
        text.push_str(line);
        // In the last column, some terminals would clear the last character.
        if *width < columns {
            text.push_str(CLEAR_LINE_REST);
        }
        text.push_str("\r\n");
    }
    text.push_str(CLEAR_BELOW);
    text
}

impl Drop for Painter {
    fn drop(&mut self) {
        if !self.drawn.is_empty() {
            let mut out = io::stdout().lock();
            // Clear echoed input such as ^C.
            let text = format!("\r{CLEAR_LINE_REST}{SHOW_CURSOR}");
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_over_those_that_are_there() {
        let lines = ["a".to_owned(), "b".to_owned()];
        let over = |before: &[usize], columns| overwrite(before, columns, &lines, &[1, 30]);
        let first = over(&[], 80);
        assert_eq!(first, "\x1b[?25la\x1b[K\r\nb\x1b[K\r\n\x1b[J");
        assert!(over(&[1, 0], 80).starts_with("\x1b[?25l\x1b[2A\r"));
        let narrower = over(&[70, 10, 61], 30);
        assert!(
            narrower.starts_with("\x1b[?25l\x1b[7A\r"),
            "3 + 1 + 3 rows: {narrower:?}"
        );
        assert!(narrower.ends_with("a\x1b[K\r\nb\r\n\x1b[J"), "{narrower:?}");
    }

    /// What a terminal of this width shows after this output: a minimal emulator.
    fn shown(written: &str, columns: usize) -> Vec<String> {
        let mut rows: Vec<Vec<char>> = vec![Vec::new()];
        let (mut row, mut column) = (0, 0);
        let mut chars = written.chars();
        while let Some(c) = chars.next() {
            match c {
                '\r' => column = 0,
                '\n' => {
                    row += 1;
                    rows.resize(rows.len().max(row + 1), Vec::new());
                }
                '\x1b' => {
                    let mut code: String = chars.by_ref().skip(1).take(1).collect();
                    while !code.ends_with(char::is_alphabetic) {
                        code.extend(chars.next());
                    }
                    match code.as_str() {
                        "K" => rows[row].truncate(column),
                        "J" => {
                            rows[row].truncate(column);
                            rows.truncate(row + 1);
                        }
                        up if up.ends_with('A') => {
                            row -= up[..up.len() - 1].parse::<usize>().unwrap()
                        }
                        _ => {}
                    }
                }
                c => {
                    assert!(column < columns, "a line is too long");
                    let width = rows[row].len().max(column + 1);
                    rows[row].resize(width, ' ');
                    rows[row][column] = c;
                    column += 1;
                }
            }
        }
        rows.into_iter().map(String::from_iter).collect()
    }

    #[test]
    fn a_terminal_shows_the_last_lines_only() {
        let frames = [
            vec!["one", "two, which is long", "three"],
            vec!["1", "2"],
            vec!["exactly twenty chars", "", "b", "c", "d"],
            vec!["the end"],
        ];
        let mut written = String::from("$ ballast execution\r\n");
        let mut before = Vec::new();
        for frame in frames {
            let painted: Vec<String> = frame.iter().map(|line| (*line).to_owned()).collect();
            let widths: Vec<usize> = frame.iter().map(|line| line.len()).collect();
            written.push_str(&overwrite(&before, 20, &painted, &widths));
            before = widths;
            let mut expected = vec!["$ ballast execution".to_owned()];
            expected.extend(painted);
            expected.push(String::new());
            assert_eq!(shown(&written, 20), expected);
        }
    }
}
