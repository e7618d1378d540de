//! Reads the hotspot rules of a file.

use std::path::Path;

use anyhow::Context;
use ballast_hotspot_detector::rules::{self, Ruleset};

/// A larger file is refused without being read.
const RULES_BYTES_MAX: u64 = 1 << 20;

/// Reads a rules file. The error lists every problem with its place, one per line.
pub fn read_rules(file: &Path) -> anyhow::Result<Ruleset> {
    let shown = file.display();
    let size = std::fs::metadata(file).with_context(|| format!("{shown} cannot be read"))?;
    anyhow::ensure!(
        size.len() <= RULES_BYTES_MAX,
        "{shown} is larger than {RULES_BYTES_MAX} bytes, which no rules file needs"
    );
    let text = std::fs::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
    let value: serde_json::Value = toml::from_str(&text).map_err(|error| {
        let before = error.span().map_or(0, |span| span.start);
        let line = text
            .bytes()
            .take(before)
            .filter(|byte| *byte == b'\n')
            .count()
            + 1;
        anyhow::anyhow!("{shown}:{line}: {}", error.message())
    })?;
    rules::read(&value).map_err(|problems| {
        let lines = problems.0.iter().map(|it| format!("{shown}: {it}"));
        anyhow::anyhow!("{}", lines.collect::<Vec<_>>().join("\n"))
    })
}
