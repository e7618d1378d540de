//! Whole executions, as AWS recorded them: definition, input and what tasks
//! answered, against what came of it. The cases are not part of this
//! repository; without them the test says so and passes.
//!
//! `known_failures_executions.txt` lists the cases that fail, each with its
//! reason. A case that fails and is not listed fails the test, and so does one
//! that is listed and passes.

use std::collections::BTreeMap;

use ballast_state_machines::trial::{CaseFile, TestCase, differences, run};
use serde_json::Value;

const FILES: &[&str] = &[
    "exec-jsonpath",
    "exec-variables",
    "exec-jsonata",
    "exec-extended",
    "choice-comparators",
    "choice-extra-nibble",
];

#[test]
fn executions_go_as_aws_recorded_them() {
    let Some(directory) = super::directory() else {
        return;
    };
    let known = super::known(include_str!("known_failures_executions.txt"));
    let mut failed = BTreeMap::new();
    for file in FILES {
        let text = std::fs::read_to_string(directory.join(format!("{file}.json"))).unwrap();
        let CaseFile::Many(cases) = CaseFile::parse(&text).unwrap() else {
            unreachable!("{file} holds several cases");
        };
        let before = failed.len();
        for case in &cases {
            let id = format!("{file} {}", case.id.as_deref().unwrap());
            if let Err(why) = outcome(case) {
                failed.insert(id, why);
            }
        }
        let wrong = failed.len() - before;
        eprintln!("{file}: {} of {} pass", cases.len() - wrong, cases.len());
    }
    super::settle("known_failures_executions.txt", &known, &failed);
}

fn outcome(case: &TestCase) -> Result<(), String> {
    let trial = run(case).map_err(|unusable| unusable.to_string())?;
    let mut differences = differences(case, &trial);
    differences.extend(trial.remarks);
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences.join("\n    ")),
    }
}

/// Where runs do not mix, an event also has the number that AWS gave it, and
/// follows the event that it followed there.
#[test]
fn events_follow_each_other_as_on_aws() {
    let Some(directory) = super::directory() else {
        return;
    };
    let (mut compared, mut different) = (0, Vec::new());
    for file in ["exec-jsonpath", "exec-variables", "exec-jsonata"] {
        let text = std::fs::read_to_string(directory.join(format!("{file}.json"))).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        for case in json["cases"].as_array().unwrap() {
            let row = |event: &Value| {
                let field = |name: &str| event[name].to_string();
                format!(
                    "{} {}<{}",
                    field("type"),
                    field("id"),
                    field("previousEventId")
                )
            };
            let wanted: Vec<String> = case["history"]
                .as_array()
                .unwrap()
                .iter()
                .map(row)
                .collect();
            let parsed: TestCase = serde_json::from_value(case.clone()).unwrap();
            let trial = run(&parsed).unwrap();
            let found: Vec<String> = trial
                .history
                .iter()
                .map(|event| row(&serde_json::to_value(event).unwrap()))
                .collect();
            compared += 1;
            if found != wanted {
                let at = found
                    .iter()
                    .zip(&wanted)
                    .take_while(|(l, r)| l == r)
                    .count();
                different.push(format!(
                    "{}: {:?} instead of {:?}",
                    case["id"],
                    found.get(at),
                    wanted.get(at)
                ));
            }
        }
    }
    eprintln!(
        "{} of {compared} histories are numbered alike",
        compared - different.len()
    );
    // The activity that was deleted, and the Map whose tasks all time out at
    // once: AWS notices all four, we the first.
    assert!(different.len() <= 2, "{}", different.join("\n"));
}
