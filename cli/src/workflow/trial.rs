//! `workflow test`: cases run on a simulated clock, on this machine.

use std::path::Path;

use ballast_state_machines::trial::{self, Case, File, Trial};
use serde::Serialize;
use serde_json::json;

use super::files::{read, tell};
use crate::failure::{Failure, Verdict};
use crate::output::Screen;

/// Runs what a file holds, and judges it.
pub(super) fn test(file: &Path, screen: &Screen) -> Result<Verdict, Failure> {
    let parsed = read(file).and_then(|text| File::parse(&text).map_err(|bad| bad.to_string()));
    match parsed {
        Ok(File::One(case)) => one(&case, screen),
        Ok(File::Many(cases)) => many(&cases, screen),
        Err(why) => unusable(screen, &why),
    }
}

fn unusable(screen: &Screen, why: &str) -> Result<Verdict, Failure> {
    let answer = json!({"status": "UNUSABLE", "error": "unusable-case", "cause": why,
        "statesEntered": [], "events": []});
    tell(screen, &answer)?;
    Ok(Verdict::Unusable)
}

/// What `test` answers for one case.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    outcome: &'a Trial,
    /// How it is not as expected.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    differences: &'a [String],
    /// What was noticed that decides nothing.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    remarks: &'a [String],
}

fn one(case: &Case, screen: &Screen) -> Result<Verdict, Failure> {
    let trial = match trial::run(case) {
        Ok(trial) => trial,
        Err(bad) => return unusable(screen, &bad.to_string()),
    };
    let different = trial::differences(case, &trial);
    let remarks = remarks(&trial);
    let answer = Answer {
        outcome: &trial,
        differences: &different,
        remarks: &remarks,
    };
    tell(screen, &answer)?;
    for remark in &remarks {
        screen.hint(&format!("note: {remark}"));
    }
    for difference in &different {
        screen.hint(&format!("{} {difference}", screen.red("not as expected:")));
    }
    Ok(met(&different))
}

/// What a case's author should look at, whether it passed or not.
fn remarks(trial: &Trial) -> Vec<String> {
    [trial.remarks.as_slice(), &trial.idle].concat()
}

fn met(different: &[String]) -> Verdict {
    if different.is_empty() {
        Verdict::Done
    } else {
        Verdict::Negative
    }
}

/// What `test` answers for a file with several cases.
#[derive(Serialize)]
struct Summary {
    cases: usize,
    passed: usize,
    failed: usize,
    /// The ids of those that failed.
    failing: Vec<String>,
    failures: Vec<FailedCase>,
}

#[derive(Serialize)]
struct FailedCase {
    id: String,
    differences: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Trial>,
}

fn many(cases: &[Case], screen: &Screen) -> Result<Verdict, Failure> {
    let mut failures = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        let id = case.id.clone().unwrap_or_else(|| format!("#{place}"));
        let (differences, outcome) = match trial::run(case) {
            Ok(trial) => (trial::differences(case, &trial), Some(trial)),
            Err(bad) => (vec![bad.to_string()], None),
        };
        if !differences.is_empty() {
            let remarks = outcome.as_ref().map(remarks).unwrap_or_default();
            failures.push(FailedCase {
                id,
                differences,
                remarks,
                outcome,
            });
        }
    }
    let summary = Summary {
        cases: cases.len(),
        passed: cases.len() - failures.len(),
        failed: failures.len(),
        failing: failures.iter().map(|failed| failed.id.clone()).collect(),
        failures,
    };
    tell(screen, &summary)?;
    screen.hint(&format!("{} of {} passed", summary.passed, summary.cases));
    Ok(if summary.failed == 0 {
        Verdict::Done
    } else {
        Verdict::Negative
    })
}
