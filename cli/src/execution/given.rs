//! JSON as it is given on the command line: as it is, from a file, or from
//! the standard input.

use std::path::Path;

use serde_json::Value;

use crate::failure::Failure;
use crate::workflow::files;

/// Reads `{"a": 1}`, `@file` or `-`. `flag` is what it was given with.
pub(crate) fn json(flag: &str, text: &str) -> Result<Value, Failure> {
    let (text, place) = match (text, text.strip_prefix('@')) {
        ("-", _) => (read(Path::new("-"))?, " on the standard input"),
        (_, Some(file)) => (read(Path::new(file))?, " in the file"),
        (text, None) => (text.to_owned(), ""),
    };
    serde_json::from_str(&text).map_err(|bad| {
        Failure::usage(
            format!("{flag}: that is no JSON{place}: {bad}"),
            "give JSON such as '{\"tenantID\": \"acme\"}', a file as @input.json, or - for the \
             standard input; a text has quotes of its own: '\"yes\"'",
        )
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    files::read(file)
        .map_err(|why| Failure::usage(why, "name a file that is there, as @input.json, or -"))
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
        assert_eq!(super::json("--input", &named).unwrap(), json!({"a": [1]}));
        assert_eq!(super::json("--input", "\"yes\"").unwrap(), json!("yes"));
        for bad in ["yes", "{", "@not-there.json"] {
            assert_eq!(super::json("--input", bad).unwrap_err().exit(), 2, "{bad}");
        }
    }
}
