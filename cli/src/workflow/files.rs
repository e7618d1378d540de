//! Reads files and prints JSON for commands that need no running instance.

use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::failure::CliError;
use crate::output::Screen;

/// Larger than any definition or case file needs.
const FILE_BYTES_MAX: u64 = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Prints JSON: indented on a terminal, on one line otherwise.
pub(crate) fn print_json(screen: &Screen, answer: &impl Serialize) -> Result<(), CliError> {
    let json = if screen.terminal {
        serde_json::to_vec_pretty(answer)
    } else {
        serde_json::to_vec(answer)
    };
    screen.data(&json.map_err(|error| CliError::local(error.to_string()))?)
}

/// Reads a file, or standard input.
pub(crate) fn read_text(file: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        let input = std::io::stdin().lock();
        input.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        let opened = std::fs::File::open(file).map_err(cannot)?;
        opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    read.map_err(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let shown = file.display();
        return Err(format!(
            "{shown} has more than {} MiB",
            FILE_BYTES_MAX >> 20
        ));
    }
    // Some editors write it; JSON parsers reject it.
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    // Invalid UTF-8 becomes a JSON error with its place.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()))
}
