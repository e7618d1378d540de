//! Whole executions, recorded on AWS: definition, input and task results, and the
//! outcome. See the parent module for the files.

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
fn executions_match_the_recordings_of_aws() {
    let Some(directory) = super::directory() else {
        return;
    };
    let known = super::parse_known(include_str!("known_failures_executions.txt"));
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
    super::compare_with_known("known_failures_executions.txt", &known, &failed);
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

/// Where the events of runs do not interleave, ids and previous ids of events equal
/// those on AWS.
#[test]
fn event_ids_match_aws() {
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
        "{} of {compared} histories have the same event ids",
        compared - different.len()
    );
    // Known differences: a deleted activity, and a Map whose four tasks time out at
    // the same time: AWS records all four timeouts, we record the first.
    assert!(different.len() <= 2, "{}", different.join("\n"));
}
