//! `workflow test`: runs test cases on a simulated clock, locally.

use std::path::Path;

use ballast_state_machines::trial::{self, CaseFile, TestCase, TrialResult};
use serde::Serialize;
use serde_json::json;

use super::files::{print_json, read_text};
use crate::failure::{CliError, CommandOutcome};
use crate::output::Screen;

/// Runs the cases of a file and checks their outcomes.
pub(super) fn run_cases(file: &Path, screen: &Screen) -> Result<CommandOutcome, CliError> {
    let parsed =
        read_text(file).and_then(|text| CaseFile::parse(&text).map_err(|bad| bad.to_string()));
    match parsed {
        Ok(CaseFile::One(case)) => run_case(&case, screen),
        Ok(CaseFile::Many(cases)) => run_case_list(&cases, screen),
        Err(why) => report_unusable(screen, &why),
    }
}

fn report_unusable(screen: &Screen, why: &str) -> Result<CommandOutcome, CliError> {
    let answer = json!({"status": "UNUSABLE", "error": "unusable-case", "cause": why,
        "statesEntered": [], "events": []});
    print_json(screen, &answer)?;
    Ok(CommandOutcome::Unusable)
}

/// The JSON output for one case.
#[derive(Serialize)]
struct CaseResult<'a> {
    #[serde(flatten)]
    outcome: &'a TrialResult,
    /// Differences from the expected outcome.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    differences: &'a [String],
    /// Remarks that do not affect the result.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    remarks: &'a [String],
}

fn run_case(case: &TestCase, screen: &Screen) -> Result<CommandOutcome, CliError> {
    let trial = match trial::run(case) {
        Ok(trial) => trial,
        Err(bad) => return report_unusable(screen, &bad.to_string()),
    };
    let different = trial::differences(case, &trial);
    let remarks = remarks(&trial);
    let answer = CaseResult {
        outcome: &trial,
        differences: &different,
        remarks: &remarks,
    };
    print_json(screen, &answer)?;
    for remark in &remarks {
        screen.hint(&format!("note: {remark}"));
    }
    for difference in &different {
        screen.hint(&format!("{} {difference}", screen.red("not as expected:")));
    }
    Ok(judge(&different))
}

/// Remarks for the author of a case.
fn remarks(trial: &TrialResult) -> Vec<String> {
    [trial.remarks.as_slice(), &trial.unused].concat()
}

fn judge(different: &[String]) -> CommandOutcome {
    if different.is_empty() {
        CommandOutcome::Done
    } else {
        CommandOutcome::Negative
    }
}

/// The JSON output for several cases.
#[derive(Serialize)]
struct CaseSummary {
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
    outcome: Option<TrialResult>,
}

fn run_case_list(cases: &[TestCase], screen: &Screen) -> Result<CommandOutcome, CliError> {
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
    let summary = CaseSummary {
        cases: cases.len(),
        passed: cases.len() - failures.len(),
        failed: failures.len(),
        failing: failures.iter().map(|failed| failed.id.clone()).collect(),
        failures,
    };
    print_json(screen, &summary)?;
    screen.hint(&format!("{} of {} passed", summary.passed, summary.cases));
    Ok(if summary.failed == 0 {
        CommandOutcome::Done
    } else {
        CommandOutcome::Negative
    })
}
