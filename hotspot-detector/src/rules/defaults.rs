//! The default rules.

use super::problem::{RuleProblem, RuleProblems};
use super::{Ruleset, read};

/// The default rules as a file, as a template for custom rules.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// The same as JSON settings, which need no TOML parser. A test keeps both equal.
const AS_SETTINGS: &str = include_str!("defaults.json");

/// The default rules.
pub fn defaults() -> Result<Ruleset, RuleProblems> {
    match serde_json::from_str(AS_SETTINGS) {
        Ok(settings) => read(&settings),
        Err(error) => {
            let problem = RuleProblem::new("default rules", error.to_string());
            Err(RuleProblems(vec![problem]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_rules_are_the_same_in_both_files_and_right() {
        let file: serde_json::Value = toml::from_str(DEFAULTS).unwrap();
        let settings: serde_json::Value = serde_json::from_str(AS_SETTINGS).unwrap();
        assert_eq!(file, settings);
        let rules = defaults().unwrap();
        let names: Vec<_> = rules.rules.iter().map(|rule| &*rule.name).collect();
        let users = ["slo", "fairness", "sustained-pressure"];
        assert!(users.iter().all(|name| names.contains(name)));
        let slo = rules.rule("slo").unwrap();
        assert_eq!(slo.for_ms, 600_000);
        assert_eq!(rules.rule("sustained-pressure").unwrap().for_ms, 300_000);
    }

    #[test]
    fn the_rule_reference_has_the_default_rules_and_every_variable() {
        let reference = include_str!("../../../docs/hotspots.md");
        assert!(
            reference.contains(DEFAULTS),
            "docs/hotspots.md has different rules"
        );
        for what in crate::rules::vars::Metric::ALL {
            let row = format!("| `{}` |", what.name());
            let line = reference.lines().find(|line| line.starts_with(&row));
            let is_documented = line.is_some_and(|line| line.contains(what.meaning()));
            assert!(
                is_documented,
                "docs/hotspots.md does not explain {}",
                what.name()
            );
        }
    }
}
