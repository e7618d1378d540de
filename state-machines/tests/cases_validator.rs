//! The verdicts of others: definitions that AWS, or two validators, accept or
//! refuse. The cases are not part of this repository; without them the test
//! says so and passes.
//!
//! `tests/known_verdicts.txt` lists the cases where we decide otherwise, each
//! with its reason. A case that fails and is not listed fails the test, and
//! so does one that is listed and passes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, in its helpers too"
)]
#![allow(
    clippy::print_stderr,
    reason = "a test tells what it skipped and counted"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ballast_state_machines::language::{Durability, check_for};
use serde_json::Value;

/// Where a verdict comes from: the file, and what its cases expect.
const FILES: &[(&str, Option<bool>)] = &[
    ("validator-invalid", None),
    ("validator-valid", None),
    ("realworld-definitions", Some(true)),
    ("exec-jsonpath", Some(true)),
    ("exec-variables", Some(true)),
    ("exec-jsonata", Some(true)),
    ("exec-extended", Some(true)),
    ("choice-comparators", Some(true)),
];

#[test]
fn definitions_are_accepted_and_refused_as_by_others() {
    let Some(directory) = cases() else {
        eprintln!("skipped: there are no cases; name their directory in BALLAST_ASL_CASES");
        return;
    };
    let known = known();
    let mut failed = BTreeMap::new();
    for (file, accepted) in FILES {
        check_file(&directory, file, *accepted, &known, &mut failed);
    }
    let unlisted: Vec<String> = failed
        .iter()
        .filter(|(id, _)| !known.contains(*id))
        .map(|(id, why)| format!("{id}\n    {why}"))
        .collect();
    assert!(
        unlisted.is_empty(),
        "{} cases fail; mend them, or list them in tests/known_verdicts.txt with the reason:\n{}",
        unlisted.len(),
        unlisted.join("\n")
    );
    let mended: Vec<&String> = known
        .iter()
        .filter(|id| !failed.contains_key(*id))
        .collect();
    assert!(
        mended.is_empty(),
        "these pass now, or are gone; remove them from tests/known_verdicts.txt: {mended:#?}"
    );
}

/// Runs the cases of a file, prints how many pass, and notes those that fail.
fn check_file(
    directory: &Path,
    file: &str,
    accepted: Option<bool>,
    known: &BTreeSet<String>,
    failed: &mut BTreeMap<String, String>,
) {
    let text = std::fs::read_to_string(directory.join(format!("{file}.json"))).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let (mut passed, mut listed, mut all) = (0, 0, 0);
    for case in json["cases"].as_array().unwrap() {
        // In tier C the validators disagree.
        if case["tier"] == "C" {
            continue;
        }
        all += 1;
        let expected = accepted.unwrap_or_else(|| case["expected"] == "valid");
        let id = format!("{file} {}", case["id"].as_str().unwrap());
        match verdict(case, expected) {
            Ok(()) => passed += 1,
            Err(why) => {
                listed += usize::from(known.contains(&id));
                let tier = case["tier"].as_str().unwrap_or("-");
                failed.insert(id, format!("tier {tier}: {why}"));
            }
        }
    }
    eprintln!("{file}: {passed} of {all} pass, {listed} are known to fail");
}

fn verdict(case: &Value, expected: bool) -> Result<(), String> {
    let text = match &case["definition_text"] {
        Value::String(text) => text.clone(),
        _ => case["definition"].to_string(),
    };
    let durability = match case["type"].as_str() {
        Some("EXPRESS") => Durability::Express,
        _ => Durability::Standard,
    };
    let checked = check_for(&text, durability);
    match (checked.definition.is_some(), expected) {
        (true, true) | (false, false) => Ok(()),
        (true, false) => Err("it is accepted, and must be refused".to_owned()),
        (false, true) => {
            let problems = checked.problems.iter().filter(|problem| problem.is_error());
            let problems: Vec<String> = problems.map(ToString::to_string).collect();
            Err(format!(
                "it is refused, and must be accepted: {}",
                problems.join("; ")
            ))
        }
    }
}

/// The directory that `BALLAST_ASL_CASES` names, else one beside the checkout.
fn cases() -> Option<PathBuf> {
    let directory = std::env::var_os("BALLAST_ASL_CASES").map_or_else(
        || {
            let beside = ["..", "..", "shared", "asl-cases"];
            Path::new(env!("CARGO_MANIFEST_DIR")).join(beside.iter().collect::<PathBuf>())
        },
        PathBuf::from,
    );
    directory.is_dir().then_some(directory)
}

/// The cases that are known to fail: a line each, the file and id first, then
/// ` :: ` and the reason.
fn known() -> BTreeSet<String> {
    include_str!("known_verdicts.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(|line| {
            let (id, reason) = line.split_once(" :: ").expect("a case and a reason");
            assert!(!reason.trim().is_empty(), "{id} has no reason");
            id.trim().to_owned()
        })
        .collect()
}
