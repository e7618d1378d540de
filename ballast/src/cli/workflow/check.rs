//! `workflow check`: everything that is wrong with a definition, told on this
//! machine.

use std::path::Path;

use ballast_state_machines::language::{Checked, Problem, check};
use serde::Serialize;
use serde_json::json;

use super::files::{read, tell};
use crate::cli::failure::{Failure, Verdict};
use crate::cli::output::Screen;
use crate::cli::view::workflows;

/// What `check` answers.
#[derive(Serialize)]
struct Answer<'a> {
    valid: bool,
    problems: &'a [Problem],
}

/// Checks a file.
pub(super) fn checked(file: &Path, screen: &Screen) -> Result<Verdict, Failure> {
    let text = match read(file) {
        Ok(text) => text,
        // Whoever reads JSON gets JSON, whatever became of the file.
        Err(why) if screen.json => {
            let problem = json!({"path": "", "code": "unreadable-file", "severity": "error",
                "message": why});
            tell(screen, &json!({"valid": false, "problems": [problem]}))?;
            return Ok(Verdict::Negative);
        }
        Err(why) => return Err(Failure::local(why)),
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
