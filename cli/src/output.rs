//! Output: data to stdout, the rest to stderr, colours only on a terminal. A closed stdout ends the
//! command without an error.

use std::io::{self, IsTerminal, Write};

use ballast_domain::Timestamp;

use super::failure::CliError;
use super::globals::Globals;
use super::now::now;

/// The width without a terminal.
const WIDTH_DEFAULT: usize = 100;

/// Where output goes, and how it looks.
#[derive(Debug, Clone)]
pub struct Screen {
    /// Print the API's bodies unchanged (`--json`).
    pub json: bool,
    /// Stdout is a terminal: relative times, tables as wide as the terminal.
    pub(crate) terminal: bool,
    /// Use colours.
    pub(crate) color: bool,
    /// Width in columns.
    pub(crate) width: usize,
    /// The time that relative times refer to.
    pub(crate) now: Timestamp,
}

impl Screen {
    /// Detects what stdout is.
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

    /// A screen without a terminal.
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
    pub fn data(&self, text: &[u8]) -> Result<(), CliError> {
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
            io::ErrorKind::BrokenPipe => CliError::closed_pipe(),
            _ => CliError::local(format!("stdout cannot be written to: {error}")),
        })
    }

    /// Writes a line to stderr; ignores errors.
    pub fn note(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = writeln!(err, "{text}");
    }

    /// Writes a line to stderr, unless `--json` is set.
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
