//! Runs the cases in `tests/language/cases`, which follow the specification, in the
//! format of `docs/workflow-tests.md`.

use std::collections::BTreeSet;
use std::path::Path;

use ballast_state_machines::core::HistoryType;
use ballast_state_machines::trial::{CaseFile, TestCase, differences, run};

/// The directories with case files.
const DIRECTORIES: &[&str] = &["tests/language/cases", "examples"];

#[test]
fn every_case_has_the_expected_outcome() {
    let mut failed = Vec::new();
    let mut written = BTreeSet::new();
    for (name, cases) in files() {
        let before = failed.len();
        for case in &cases {
            let id = case.id.as_deref().unwrap_or("the only one");
            match run(case) {
                Err(unusable) => failed.push(format!("{name}: {id}\n    {unusable}")),
                Ok(trial) => {
                    written.extend(trial.history.iter().map(|event| event.kind));
                    let mut different = differences(case, &trial);
                    different.extend(trial.remarks);
                    if !different.is_empty() {
                        let different = different.join("\n    ");
                        failed.push(format!("{name}: {id}\n    {different}"));
                    }
                }
            }
        }
        let wrong = failed.len() - before;
        eprintln!("{name}: {} of {} pass", cases.len() - wrong, cases.len());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(written.contains(&HistoryType::MapIterationAborted));
    assert!(written.len() > 45, "{written:?}");
}

/// Two runs of a case must have the same result.
#[test]
fn cases_are_deterministic() {
    for (name, cases) in files() {
        for case in &cases {
            assert_eq!(run(case), run(case), "{name}: {:?}", case.id);
        }
    }
}

fn files() -> Vec<(String, Vec<TestCase>)> {
    let mut files = Vec::new();
    for directory in DIRECTORIES {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let cases = match CaseFile::parse(&text) {
                Ok(CaseFile::Many(cases)) => cases,
                Ok(CaseFile::One(case)) => vec![*case],
                Err(unusable) => unreachable!("{name} is invalid: {unusable}"),
            };
            files.push((name, cases));
        }
    }
    files.sort_by(|one, other| one.0.cmp(&other.0));
    files
}
