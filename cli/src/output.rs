//! The way to the terminal: data to stdout, the rest to stderr, colours only
//! where someone sees them. A reader that has gone ends the command in peace.

use std::io::{self, IsTerminal, Write};

use ballast_domain::Timestamp;

use super::failure::Failure;
use super::globals::Globals;
use super::now::now;

/// How wide texts are drawn when no terminal says how wide it is.
const WIDTH_DEFAULT: usize = 100;

/// Where answers are shown, and how.
#[derive(Debug, Clone)]
pub struct Screen {
    /// Print the API's bodies.
    pub json: bool,
    /// Someone looks: relative times, tables as wide as the terminal.
    pub(crate) terminal: bool,
    /// Colours are welcome.
    pub(crate) color: bool,
    /// Columns to draw in.
    pub(crate) width: usize,
    /// The moment that relative times are relative to.
    pub(crate) now: Timestamp,
}

impl Screen {
    /// What stdout is.
    pub fn detect(globals: &Globals) -> Self {
        let terminal = io::stdout().is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = comfy_table::Table::new()
            .width()
            .filter(|_| terminal)
            .map(usize::from)
            .filter(|width| *width > 0);
        Self {
            json: globals.json,
            terminal,
            color: terminal && io::stderr().is_terminal() && !globals.no_color && !refused,
            width: width.unwrap_or(WIDTH_DEFAULT).max(40),
            now: now(),
        }
    }

    /// A screen nobody looks at.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            json: false,
            terminal: false,
            color: false,
            width: 80,
            now: Timestamp::from_unix_ms(1_794_821_400_000),
        }
    }

    /// Writes data and a line end to stdout.
    pub fn data(&self, text: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let written = out
            .write_all(text)
            .and_then(|()| {
                if text.ends_with(b"\n") {
                    Ok(())
                } else {
                    out.write_all(b"\n")
                }
            })
            .and_then(|()| out.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::reader_gone(),
            _ => Failure::local(format!("stdout cannot be written to: {error}")),
        })
    }

    /// Writes a line to stderr. When that fails there is nobody left to tell.
    pub fn note(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = writeln!(err, "{text}");
    }

    /// Writes a line to stderr that only a person needs.
    pub fn hint(&self, text: &str) {
        if !self.json {
            self.note(text);
        }
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.painted("1", text)
    }

    pub(crate) fn dim(&self, text: &str) -> String {
        self.painted("2", text)
    }

    pub(crate) fn red(&self, text: &str) -> String {
        self.painted("1;31", text)
    }

    pub(crate) fn green(&self, text: &str) -> String {
        self.painted("32", text)
    }

    pub(crate) fn yellow(&self, text: &str) -> String {
        self.painted("33", text)
    }

    pub(crate) fn cyan(&self, text: &str) -> String {
        self.painted("36", text)
    }
}
