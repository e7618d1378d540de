//! `workflow check`: everything that is wrong with a definition, told on this
//! machine.

use std::path::Path;

use ballast_state_machines::definitions::BuiltIn;
use ballast_state_machines::language::{Checked, Problem, check};
use serde::Serialize;
use serde_json::json;

use super::files::{read, tell};
use super::graph::built_in_names;
use crate::failure::{Failure, Verdict};
use crate::output::Screen;
use crate::view::workflows;

/// What `check` answers.
#[derive(Serialize)]
struct Answer<'a> {
    valid: bool,
    problems: &'a [Problem],
}

/// Checks a file, or a workflow that comes with Ballast.
pub(super) fn checked(file: &Path, screen: &Screen) -> Result<Verdict, Failure> {
    let known = file.to_str().and_then(BuiltIn::find);
    let text = match known.map_or_else(|| read(file), |known| Ok(known.text.to_owned())) {
        Ok(text) => text,
        // Whoever reads JSON gets JSON, whatever became of the file.
        Err(why) if screen.json => {
            let problem = json!({"path": "", "code": "unreadable-file", "severity": "error",
                "message": why});
            tell(screen, &json!({"valid": false, "problems": [problem]}))?;
            return Ok(Verdict::Negative);
        }
        Err(why) => return Err(unreadable(why)),
    };
    let Checked { problems, .. } = check(&text);
    let valid = !problems.iter().any(Problem::is_error);
    if screen.json {
        let problems = &problems;
        tell(screen, &Answer { valid, problems })?;
    } else {
        let text = workflows::problems(screen, &file.display().to_string(), valid, &problems);
        screen.data(text.as_bytes())?;
    }
    Ok(if valid {
        Verdict::Done
    } else {
        Verdict::Negative
    })
}

fn unreadable(why: String) -> Failure {
    let next = format!(
        "Give a file, - for the standard input, or a workflow that comes with Ballast: {}.",
        built_in_names()
    );
    let title = "There is no definition to check";
    Failure::refused_here("unreadable-file", title, why, &next)
}
