//! Parses rules from settings and reports all problems with their places.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::duration::human_ms;
use super::problem::{RuleProblem, RuleProblems, did_you_mean};
use super::{HotspotRule, HotspotSeverity, RuleCondition, Ruleset, SubjectKind};
use crate::load::{Spans, Window};

/// The most rules.
pub const RULES_MAX: usize = 100;
/// The longest rule name.
const NAME_MAX: usize = 63;
const RULE_KEYS: [&str; 9] = [
    "name",
    "summary",
    "subject",
    "when",
    "for",
    "clear",
    "clear_for",
    "cooldown",
    "severity",
];

/// Parses rules. On failure all problems are reported.
pub fn read(settings: &Value) -> Result<Ruleset, RuleProblems> {
    let mut reader = RuleReader::default();
    let spans_and_rules = reader.file(settings);
    match spans_and_rules {
        Some(ruleset) if reader.problems.is_empty() => Ok(ruleset),
        _ => Err(RuleProblems(reader.problems)),
    }
}

#[derive(Default)]
struct RuleReader {
    problems: Vec<RuleProblem>,
}

impl RuleReader {
    fn file(&mut self, settings: &Value) -> Option<Ruleset> {
        let file = self.object(settings, "rules")?;
        self.reject_unknown_keys(file, &["windows", "rule"], "rules");
        let spans = match file.get("windows") {
            None => Spans::default(),
            Some(windows) => self.windows(windows).unwrap_or_default(),
        };
        let none = Vec::new();
        let rules = match file.get("rule") {
            None => &none,
            Some(Value::Array(rules)) => rules,
            Some(_) => {
                let problem = RuleProblem::new("rules, rule", "must be a list of rules");
                self.problems
                    .push(problem.help("write [[rule]] before each rule"));
                return None;
            }
        };
        if rules.len() > RULES_MAX {
            let message = format!(
                "{} rules are more than the maximum of {RULES_MAX}",
                rules.len()
            );
            self.problems.push(RuleProblem::new("rules", message));
            return None;
        }
        let mut names = BTreeSet::new();
        let mut read = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let Some(rule) = self.rule(rule, at, &spans) else {
                continue;
            };
            if !names.insert(rule.name.clone()) {
                let place = format!("rule {:?}", rule.name);
                let problem = RuleProblem::new(place, "duplicate rule name");
                self.problems.push(problem);
            }
            read.push(rule);
        }
        Some(Ruleset { spans, rules: read })
    }

    fn object<'a>(&mut self, value: &'a Value, place: &str) -> Option<&'a Map<String, Value>> {
        let object = value.as_object();
        if object.is_none() {
            self.problems
                .push(RuleProblem::new(place, "must be a table"));
        }
        object
    }

    fn reject_unknown_keys(&mut self, object: &Map<String, Value>, keys: &[&str], place: &str) {
        for key in object.keys().filter(|key| !keys.contains(&key.as_str())) {
            let problem = RuleProblem::new(place, format!("unknown setting {key:?}"));
            let help = did_you_mean(key, keys.iter().copied());
            let all = || format!("valid settings are {}", keys.join(", "));
            self.problems.push(problem.help(help.unwrap_or_else(all)));
        }
    }

    fn windows(&mut self, value: &Value) -> Option<Spans> {
        let place = "windows";
        let windows = self.object(value, place)?;
        self.reject_unknown_keys(windows, &["step", "short", "long"], place);
        let normal = Spans::default();
        let mut ms = |key: &str, normal: u64| match windows.get(key) {
            None => Some(normal),
            Some(value) => self.duration(value, &format!("{place}, {key}")),
        };
        let step = ms("step", normal.step_ms);
        let short = ms("short", normal.length_ms(Window::Short));
        let long = ms("long", normal.length_ms(Window::Long));
        let (step, short, long) = (step?, short?, long?);
        let mut wrong = |key: &str, message: &str| {
            self.problems
                .push(RuleProblem::new(format!("{place}, {key}"), message));
        };
        if !(1_000..=3_600_000).contains(&step) {
            wrong("step", "a step must be from one second to one hour long");
            return None;
        }
        if short < step || !short.is_multiple_of(step) || short / step > 60 {
            wrong(
                "short",
                "a short window must be a whole number of steps, at most 60",
            );
            return None;
        }
        if long <= short || !long.is_multiple_of(short) || long / short > 60 {
            wrong("long", "a long window must be 2 to 60 short windows");
            return None;
        }
        Some(Spans {
            step_ms: step,
            short_steps: (short / step) as u32,
            long_shorts: (long / short) as u32,
        })
    }

    fn duration(&mut self, value: &Value, place: &str) -> Option<u64> {
        let ms = value.as_str().and_then(human_ms);
        if ms.is_none() {
            let problem = RuleProblem::new(place, format!("{value} is not a duration"));
            self.problems
                .push(problem.help("write for example \"90s\", \"10m\" or \"1h 30m\""));
        }
        ms
    }

    /// A duration, or a number of short windows.
    fn span(&mut self, value: &Value, place: &str, spans: &Spans) -> Option<u64> {
        let windows = value.as_str().and_then(|text| {
            let (many, unit) = text.trim().split_once(' ')?;
            let many: u64 = many.parse().ok()?;
            (unit == "window" || unit == "windows").then_some(many)
        });
        match windows {
            Some(many) if many <= 10_000 => Some(many * spans.length_ms(Window::Short)),
            Some(_) => {
                let problem = RuleProblem::new(place, "must not be more than 10,000 windows");
                self.problems.push(problem);
                None
            }
            None => self.duration(value, place),
        }
    }

    fn rule(&mut self, value: &Value, at: usize, spans: &Spans) -> Option<HotspotRule> {
        let number = format!("rule {}", at + 1);
        let rule = self.object(value, &number)?;
        let name = rule.get("name").and_then(Value::as_str).unwrap_or_default();
        let place = if name.is_empty() {
            number
        } else {
            format!("rule {name:?}")
        };
        self.reject_unknown_keys(rule, &RULE_KEYS, &place);
        let is_slug = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let has_name = !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_slug);
        if !has_name {
            let problem =
                RuleProblem::new(format!("{place}, name"), "invalid or missing rule name");
            self.problems.push(
                problem.help("use lower-case letters, digits and '-', at most 63 characters"),
            );
        }
        let subject = self.word(rule, "subject", &place, Some("shard"));
        let severity: Option<HotspotSeverity> =
            self.word(rule, "severity", &place, Some("warning"));
        let for_ms = self.optional_span(rule, "for", &place, spans);
        let clear_for_ms = self.optional_span(rule, "clear_for", &place, spans);
        let cooldown_ms = self.optional_span(rule, "cooldown", &place, spans);
        let summary = self.text(rule, "summary", &place);
        // Variables cannot be checked without a subject.
        let subject: SubjectKind = subject?;
        let when = match rule.get("when") {
            Some(_) => self.condition(rule, "when", &place, subject).flatten(),
            None => {
                let problem = RuleProblem::new(place.clone(), "the rule has no condition");
                self.problems.push(problem.help("write when = \"…\""));
                None
            }
        };
        let clear = self.condition(rule, "clear", &place, subject);
        Some(HotspotRule {
            name: name.into(),
            summary: summary.unwrap_or_default(),
            subject,
            when: when?,
            for_ms: for_ms?,
            clear: clear?,
            clear_for_ms: clear_for_ms?,
            cooldown_ms: cooldown_ms?,
            severity: severity?,
        })
        .filter(|_| has_name)
    }

    fn optional_span(
        &mut self,
        rule: &Map<String, Value>,
        key: &str,
        place: &str,
        spans: &Spans,
    ) -> Option<u64> {
        match rule.get(key) {
            None => Some(0),
            Some(value) => self.span(value, &format!("{place}, {key}"), spans),
        }
    }

    fn text(&mut self, rule: &Map<String, Value>, key: &str, place: &str) -> Option<String> {
        let value = rule.get(key)?;
        let text = value.as_str();
        if text.is_none() {
            let problem =
                RuleProblem::new(format!("{place}, {key}"), format!("{value} is not a text"));
            self.problems.push(problem);
        }
        text.map(str::to_owned)
    }

    /// A value of an enumeration.
    fn word<T: serde::de::DeserializeOwned>(
        &mut self,
        rule: &Map<String, Value>,
        key: &str,
        place: &str,
        normal: Option<&str>,
    ) -> Option<T> {
        let value = match (rule.get(key), normal) {
            (Some(value), _) => value.clone(),
            (None, Some(normal)) => Value::from(normal),
            (None, None) => return None,
        };
        match serde_json::from_value(value) {
            Ok(word) => Some(word),
            Err(error) => {
                let place = format!("{place}, {key}");
                self.problems
                    .push(RuleProblem::new(place, error.to_string()));
                None
            }
        }
    }

    /// A condition; `Some(None)` if there is none, `None` if it is invalid.
    fn condition(
        &mut self,
        rule: &Map<String, Value>,
        key: &str,
        place: &str,
        subject: SubjectKind,
    ) -> Option<Option<RuleCondition>> {
        if !rule.contains_key(key) {
            return Some(None);
        }
        let text = self.text(rule, key, place)?;
        match RuleCondition::new(&text, subject) {
            Ok(condition) => Some(Some(condition)),
            Err(problem) => {
                self.problems
                    .push(problem.within(&format!("{place}, {key}")));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> String {
        let settings: Value = toml::from_str(text).unwrap();
        read(&settings).unwrap_err().to_string()
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        insta::assert_snapshot!(problems(
            r#"
            polling = "1m"
            [windows]
            step = "10s"
            short = "25s"
            lang = "10m"
            [[rule]]
            name = "full"
            when = "shard.storag > 0.8"
            for = "ten minutes"
            cooldwon = "1h"
            severity = "bad"
            [[rule]]
            name = "full"
            when = "shard.storage > 0.8 && tenant.share > 0.3"
            clear = "shard.storage < 75%"
            [[rule]]
            name = "No Name"
            subject = "slice"
            when = "true"
            [[rule]]
            name = "empty"
            [[rule]]
            summary = 7
            when = 3
            "#
        ));
    }

    #[test]
    fn duplicate_rule_names_are_rejected() {
        let said = problems("[[rule]]\nname='a'\nwhen='true'\n[[rule]]\nname='a'\nwhen='true'\n");
        assert_eq!(said, "rule \"a\": duplicate rule name");
    }

    #[test]
    fn an_empty_file_has_no_rules() {
        let none = read(&serde_json::json!({})).unwrap();
        assert_eq!(none.spans, Spans::default());
        assert!(none.rules.is_empty());
        assert!(read(&serde_json::json!([])).is_err());
        assert!(read(&serde_json::json!({"rule": 3})).is_err());
    }
}
