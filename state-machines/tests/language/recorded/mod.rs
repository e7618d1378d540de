//! Recorded cases from AWS and other projects. They are not part of this repository;
//! without them the tests print a message and pass.
//!
//! The `known_*.txt` files list the cases with a different result here, one per line:
//! the file and the id of the case, ` :: `, and the reason. A test fails if an unlisted
//! case fails, or if a listed case passes.

mod data;
mod executions;
mod single_states;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The directory with the cases: `BALLAST_ASL_CASES`, or one next to the checkout.
/// Prints a message if there is none.
pub(crate) fn directory() -> Option<PathBuf> {
    let directory = std::env::var_os("BALLAST_ASL_CASES").map_or_else(
        || {
            let default = ["..", "..", "shared", "asl-cases"];
            Path::new(env!("CARGO_MANIFEST_DIR")).join(default.iter().collect::<PathBuf>())
        },
        PathBuf::from,
    );
    if !directory.is_dir() {
        eprintln!("skipped: no recorded cases; set BALLAST_ASL_CASES to their directory");
        return None;
    }
    Some(directory)
}

/// Parses a list of known differences.
pub(crate) fn parse_known(list: &str) -> BTreeSet<String> {
    list.lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(|line| {
            let (id, reason) = line.split_once(" :: ").expect("a case and a reason");
            assert!(!reason.trim().is_empty(), "{id} has no reason");
            id.trim().to_owned()
        })
        .collect()
}

/// Compares the failures with the known ones. `list` is the file name of the list.
pub(crate) fn compare_with_known(
    list: &str,
    known: &BTreeSet<String>,
    failed: &BTreeMap<String, String>,
) {
    let unlisted: Vec<String> = failed
        .iter()
        .filter(|(id, _)| !known.contains(*id))
        .map(|(id, why)| format!("{id}\n    {why}"))
        .collect();
    assert!(
        unlisted.is_empty(),
        "{} cases fail; fix them, or list them in tests/language/recorded/{list} with the reason:\n{}",
        unlisted.len(),
        unlisted.join("\n")
    );
    let fixed: Vec<&String> = known
        .iter()
        .filter(|id| !failed.contains_key(*id))
        .collect();
    assert!(
        fixed.is_empty(),
        "these pass now, or no longer exist; remove them from tests/language/recorded/{list}: {fixed:#?}"
    );
}
