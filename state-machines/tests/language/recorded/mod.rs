//! Cases that others have recorded, which are not part of this repository: where
//! they are, and what of them is known to go otherwise here.
//!
//! A list of those has a line each: the file and the case's id, ` :: `, and the
//! reason. A case that fails and is not listed fails the test, and so does one
//! that is listed and passes.

mod data;
mod executions;
mod single_states;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The directory that `BALLAST_ASL_CASES` names, else one beside the checkout.
/// Without one, the test says that it is skipped.
pub(crate) fn directory() -> Option<PathBuf> {
    let directory = std::env::var_os("BALLAST_ASL_CASES").map_or_else(
        || {
            let beside = ["..", "..", "shared", "asl-cases"];
            Path::new(env!("CARGO_MANIFEST_DIR")).join(beside.iter().collect::<PathBuf>())
        },
        PathBuf::from,
    );
    if !directory.is_dir() {
        eprintln!("skipped: there are no cases; name their directory in BALLAST_ASL_CASES");
        return None;
    }
    Some(directory)
}

/// The cases of a list.
pub(crate) fn known(list: &str) -> BTreeSet<String> {
    list.lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(|line| {
            let (id, reason) = line.split_once(" :: ").expect("a case and a reason");
            assert!(!reason.trim().is_empty(), "{id} has no reason");
            id.trim().to_owned()
        })
        .collect()
}

/// Compares what failed with what is known to fail; `list` is the name of the
/// file that says so.
pub(crate) fn settle(list: &str, known: &BTreeSet<String>, failed: &BTreeMap<String, String>) {
    let unlisted: Vec<String> = failed
        .iter()
        .filter(|(id, _)| !known.contains(*id))
        .map(|(id, why)| format!("{id}\n    {why}"))
        .collect();
    assert!(
        unlisted.is_empty(),
        "{} cases fail; mend them, or list them in tests/language/recorded/{list} with the reason:\n{}",
        unlisted.len(),
        unlisted.join("\n")
    );
    let mended: Vec<&String> = known
        .iter()
        .filter(|id| !failed.contains_key(*id))
        .collect();
    assert!(
        mended.is_empty(),
        "these pass now, or are gone; remove them from tests/language/recorded/{list}: {mended:#?}"
    );
}
