//! Findings for people and programs.

use std::path::Path;

use ballast_cli::Screen;
use serde_json::json;

use super::checks::Finding;

/// The findings as text, or as JSON.
pub(super) fn format_findings(
    screen: &Screen,
    data_dir: &Path,
    findings: &[Finding],
) -> anyhow::Result<String> {
    let problems = findings.iter().filter(|finding| finding.is_problem());
    let problems = problems.count();
    if screen.json {
        let body = json!({
            "dataDir": data_dir,
            "healthy": problems == 0,
            "findings": findings,
        });
        return Ok(serde_json::to_string_pretty(&body)?);
    }
    let mut text = format!("{}\n\n", data_dir.display());
    for finding in findings {
        let mark = if finding.is_problem() {
            "PROBLEM"
        } else {
            "ok"
        };
        text += &format!("{mark:8} {}: {}\n", finding.subject, finding.found);
        if let Some(next) = &finding.next {
            text += &format!("{:8} → {next}\n", "");
        }
    }
    text += &match problems {
        0 => "\nno problems found; `ballast shard verify` reads all votes".to_owned(),
        1 => "\n1 problem".to_owned(),
        more => format!("\n{more} problems"),
    };
    Ok(text)
}
