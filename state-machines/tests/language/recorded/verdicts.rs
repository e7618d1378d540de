//! Definitions that AWS or two other validators accept or reject. See the parent module
//! for the files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ballast_state_machines::language::{Durability, check_for};
use serde_json::Value;

/// The files, and the verdict that all cases of a file expect, if it is the same.
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
fn verdicts_match_other_validators() {
    let Some(directory) = super::directory() else {
        return;
    };
    let known = super::parse_known(include_str!("known_verdicts.txt"));
    let mut failed = BTreeMap::new();
    for (file, accepted) in FILES {
        check_file(&directory, file, *accepted, &known, &mut failed);
    }
    super::compare_with_known("known_verdicts.txt", &known, &failed);
}

/// Runs the cases of a file, prints how many pass, and collects the failures.
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
