//! `workflow check`: lists every problem of a definition; runs locally.

use std::path::Path;

use ballast_state_machines::definitions::BuiltInWorkflow;
use ballast_state_machines::language::{CheckedDefinition, DefinitionProblem, check};
use serde::Serialize;
use serde_json::json;

use super::files::{print_json, read_text};
use super::graph::built_in_names;
use crate::failure::{CliError, CommandOutcome};
use crate::output::Screen;
use crate::view::workflows;

/// The JSON output of `check`.
#[derive(Serialize)]
struct CheckResult<'a> {
    valid: bool,
    problems: &'a [DefinitionProblem],
}

/// Checks a file, or a built-in workflow.
pub(super) fn check_definition(file: &Path, screen: &Screen) -> Result<CommandOutcome, CliError> {
    let known = file.to_str().and_then(BuiltInWorkflow::find);
    let text = match known.map_or_else(|| read_text(file), |known| Ok(known.text.to_owned())) {
        Ok(text) => text,
        // With --json, print JSON even if the file cannot be read.
        Err(why) if screen.json => {
            let problem = json!({"path": "", "code": "unreadable-file", "severity": "error",
                "message": why});
            print_json(screen, &json!({"valid": false, "problems": [problem]}))?;
            return Ok(CommandOutcome::Negative);
        }
        Err(why) => return Err(unreadable(why)),
    };
    let CheckedDefinition { problems, .. } = check(&text);
    let valid = !problems.iter().any(DefinitionProblem::is_error);
    if screen.json {
        let problems = &problems;
        print_json(screen, &CheckResult { valid, problems })?;
    } else {
        let text =
            workflows::describe_problems(screen, &file.display().to_string(), valid, &problems);
        screen.data(text.as_bytes())?;
    }
    Ok(if valid {
        CommandOutcome::Done
    } else {
        CommandOutcome::Negative
    })
}

fn unreadable(why: String) -> CliError {
    let next = format!(
        "Give a file, - for standard input, or a built-in workflow: {}.",
        built_in_names()
    );
    let title = "No definition to check";
    CliError::rejected_locally("unreadable-file", title, why, &next)
}
