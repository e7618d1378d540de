//! Every rule by example: a definition that violates it and is rejected at the right
//! location, and a similar one that is accepted.

mod case;
mod errors;
mod fields;
mod flow;
mod items;
mod language;
mod tokens;
mod values;

use std::collections::BTreeSet;

use ballast_state_machines::language::{ProblemCode, ProblemSeverity, check};
use case::RuleCase;

fn all() -> Vec<RuleCase> {
    [
        errors::cases(),
        fields::cases(),
        flow::cases(),
        items::cases(),
        language::cases(),
        tokens::cases(),
        values::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn violations_are_reported_with_their_location() {
    for case in all() {
        let checked = check(&case.broken);
        let found = checked
            .problems
            .iter()
            .find(|problem| problem.code.as_str() == case.code && problem.path == case.at);
        let Some(found) = found else {
            panic!("{case}\nfound only: {:#?}", checked.problems);
        };
        assert!(found.message.contains(case.says), "{case}\nsays: {found}");
        assert_eq!(
            checked.definition.is_none(),
            checked.problems.iter().any(|problem| problem.is_error()),
            "{case}"
        );
        if found.severity == ProblemSeverity::Warning {
            assert!(
                checked.definition.is_some(),
                "{case}\n{:#?}",
                checked.problems
            );
        }
    }
}

#[test]
fn valid_definitions_are_accepted() {
    for case in all() {
        let checked = check(&case.accepted);
        let noted = checked
            .problems
            .iter()
            .any(|problem| problem.code.as_str() == case.code);
        assert!(
            checked.definition.is_some() && !noted,
            "{case}\nthe valid definition is not accepted: {:#?}",
            checked.problems
        );
    }
}

#[test]
fn every_rule_has_a_case() {
    // Parsed by `data`: see the test in `values`.
    let elsewhere = [
        ProblemCode::Path,
        ProblemCode::Template,
        ProblemCode::Condition,
    ];
    // Only for express machines: see `language`.
    let express = [ProblemCode::Express];
    let tested: BTreeSet<&str> = all().iter().map(|case| case.code).collect();
    for code in ProblemCode::ALL {
        assert!(
            tested.contains(code.as_str()) || elsewhere.contains(code) || express.contains(code),
            "{code} has no case"
        );
    }
}

#[test]
fn codes_are_kebab_case_and_unique() {
    let names: BTreeSet<&str> = ProblemCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(names.len(), ProblemCode::ALL.len());
    for name in names {
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
            "{name}"
        );
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = r#"{"StartAt": "A", "Extra": 1, "States": {
        "A": {"Type": "Task", "Resource": 5, "TimeoutSeconds": 0, "Next": "B"},
        "B": {"Type": "Wait", "Next": "C"},
        "C": {"Type": "Sleep"}}}"#;
    let reported: Vec<String> = check(text)
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        reported,
        [
            r#"/Extra: a state machine has no field "Extra""#,
            "/States/A/Resource: expected a string, found a number",
            r#"/States/A/TimeoutSeconds: "TimeoutSeconds" is 0, and must be from 1 to 99999999"#,
            "/States/B: a Wait needs one of: Seconds, SecondsPath, Timestamp, TimestampPath",
            r#"/States/C/Type: "Sleep" is not one of: Task, Parallel, Map, Choice, Wait, Pass, Succeed, Fail"#,
        ]
    );
}
