//! JSON arguments of the command line: inline, from a file, or from standard input.

use std::path::Path;

use serde_json::Value;

use crate::failure::CliError;
use crate::workflow::files;

/// Reads `{"a": 1}`, `@file` or `-`. `flag` names the argument in errors.
pub(crate) fn parse_json_argument(flag: &str, text: &str) -> Result<Value, CliError> {
    let (text, place) = match (text, text.strip_prefix('@')) {
        ("-", _) => (read(Path::new("-"))?, " on the standard input"),
        (_, Some(file)) => (read(Path::new(file))?, " in the file"),
        (text, None) => (text.to_owned(), ""),
    };
    serde_json::from_str(&text).map_err(|bad| {
        CliError::usage(
            format!("{flag}: invalid JSON{place}: {bad}"),
            "give JSON such as '{\"tenantID\": \"acme\"}', a file as @input.json, or - for the \
             standard input; a string keeps its own quotes: '\"yes\"'",
        )
    })
}

fn read(file: &Path) -> Result<String, CliError> {
    files::read_text(file)
        .map_err(|why| CliError::usage(why, "name an existing file, as @input.json, or -"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn json_is_taken_as_it_is_or_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("input.json");
        std::fs::write(&file, "{\"a\": [1]}").unwrap();
        let named = format!("@{}", file.display());
        assert_eq!(
            super::parse_json_argument("--input", &named).unwrap(),
            json!({"a": [1]})
        );
        assert_eq!(
            super::parse_json_argument("--input", "\"yes\"").unwrap(),
            json!("yes")
        );
        for bad in ["yes", "{", "@not-there.json"] {
            assert_eq!(
                super::parse_json_argument("--input", bad)
                    .unwrap_err()
                    .exit(),
                2,
                "{bad}"
            );
        }
    }
}
