//! Reads rules from settings and names every problem at once, with its place.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::duration::human_ms;
use super::problem::{Problem, Problems, did_you_mean};
use super::{Condition, Rule, Ruleset, Severity, SubjectKind};
use crate::load::{Spans, Window};

/// How many rules there may be.
pub const RULES_MAX: usize = 100;
/// How long a rule's name may be.
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

/// Reads rules. All that is wrong is told.
pub fn read(settings: &Value) -> Result<Ruleset, Problems> {
    let mut reader = Reader::default();
    let spans_and_rules = reader.file(settings);
    match spans_and_rules {
        Some(ruleset) if reader.problems.is_empty() => Ok(ruleset),
        _ => Err(Problems(reader.problems)),
    }
}

#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn file(&mut self, settings: &Value) -> Option<Ruleset> {
        let file = self.object(settings, "rules")?;
        self.known(file, &["windows", "rule"], "rules");
        let spans = match file.get("windows") {
            None => Spans::default(),
            Some(windows) => self.windows(windows).unwrap_or_default(),
        };
        let none = Vec::new();
        let rules = match file.get("rule") {
            None => &none,
            Some(Value::Array(rules)) => rules,
            Some(_) => {
                let problem = Problem::new("rules, rule", "this is no list of rules");
                self.problems
                    .push(problem.help("write [[rule]] before each rule"));
                return None;
            }
        };
        if rules.len() > RULES_MAX {
            let message = format!("there are {} rules, more than {RULES_MAX}", rules.len());
            self.problems.push(Problem::new("rules", message));
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
                let problem = Problem::new(place, "another rule has this name");
                self.problems.push(problem);
            }
            read.push(rule);
        }
        Some(Ruleset { spans, rules: read })
    }

    fn object<'a>(&mut self, value: &'a Value, place: &str) -> Option<&'a Map<String, Value>> {
        let object = value.as_object();
        if object.is_none() {
            self.problems.push(Problem::new(place, "this is no table"));
        }
        object
    }

    fn known(&mut self, object: &Map<String, Value>, keys: &[&str], place: &str) {
        for key in object.keys().filter(|key| !keys.contains(&key.as_str())) {
            let problem = Problem::new(place, format!("there is no setting {key:?}"));
            let help = did_you_mean(key, keys.iter().copied());
            let all = || format!("there are {}", keys.join(", "));
            self.problems.push(problem.help(help.unwrap_or_else(all)));
        }
    }

    fn windows(&mut self, value: &Value) -> Option<Spans> {
        let place = "windows";
        let windows = self.object(value, place)?;
        self.known(windows, &["step", "short", "long"], place);
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
                .push(Problem::new(format!("{place}, {key}"), message));
        };
        if !(1_000..=3_600_000).contains(&step) {
            wrong("step", "a step is from one second to one hour long");
            return None;
        }
        if short < step || !short.is_multiple_of(step) || short / step > 60 {
            wrong(
                "short",
                "a short window is a whole number of steps, 60 at the most",
            );
            return None;
        }
        if long <= short || !long.is_multiple_of(short) || long / short > 60 {
            wrong("long", "a long window is 2 to 60 short windows");
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
            let problem = Problem::new(place, format!("{value} is no duration"));
            self.problems
                .push(problem.help("write for instance \"90s\", \"10m\" or \"1h 30m\""));
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
                let problem = Problem::new(place, "these are more than 10,000 windows");
                self.problems.push(problem);
                None
            }
            None => self.duration(value, place),
        }
    }

    fn rule(&mut self, value: &Value, at: usize, spans: &Spans) -> Option<Rule> {
        let number = format!("rule {}", at + 1);
        let rule = self.object(value, &number)?;
        let name = rule.get("name").and_then(Value::as_str).unwrap_or_default();
        let place = if name.is_empty() {
            number
        } else {
            format!("rule {name:?}")
        };
        self.known(rule, &RULE_KEYS, &place);
        let is_slug = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let has_name = !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_slug);
        if !has_name {
            let problem = Problem::new(format!("{place}, name"), "the rule has no good name");
            self.problems
                .push(problem.help("lower-case letters, digits and '-', at most 63"));
        }
        let subject = self.word(rule, "subject", &place, Some("shard"));
        let severity: Option<Severity> = self.word(rule, "severity", &place, Some("warning"));
        let for_ms = self.span_of(rule, "for", &place, spans);
        let clear_for_ms = self.span_of(rule, "clear_for", &place, spans);
        let cooldown_ms = self.span_of(rule, "cooldown", &place, spans);
        let summary = self.text(rule, "summary", &place);
        // Without a subject no variable can be checked.
        let subject: SubjectKind = subject?;
        let when = match rule.get("when") {
            Some(_) => self.condition(rule, "when", &place, subject).flatten(),
            None => {
                let problem = Problem::new(place.clone(), "the rule has no condition");
                self.problems.push(problem.help("write when = \"…\""));
                None
            }
        };
        let clear = self.condition(rule, "clear", &place, subject);
        Some(Rule {
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

    fn span_of(
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
            let problem = Problem::new(format!("{place}, {key}"), format!("{value} is no text"));
            self.problems.push(problem);
        }
        text.map(str::to_owned)
    }

    /// One of the words of an enumeration.
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
                self.problems.push(Problem::new(place, error.to_string()));
                None
            }
        }
    }

    /// A condition; `Some(None)` if there is none, `None` if it is wrong.
    fn condition(
        &mut self,
        rule: &Map<String, Value>,
        key: &str,
        place: &str,
        subject: SubjectKind,
    ) -> Option<Option<Condition>> {
        if !rule.contains_key(key) {
            return Some(None);
        }
        let text = self.text(rule, key, place)?;
        match Condition::new(&text, subject) {
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
    fn every_problem_is_told_at_once() {
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
    fn two_rules_of_one_name_are_refused() {
        let said = problems("[[rule]]\nname='a'\nwhen='true'\n[[rule]]\nname='a'\nwhen='true'\n");
        assert_eq!(said, "rule \"a\": another rule has this name");
    }

    #[test]
    fn no_rules_are_rules_too() {
        let none = read(&serde_json::json!({})).unwrap();
        assert_eq!(none.spans, Spans::default());
        assert!(none.rules.is_empty());
        assert!(read(&serde_json::json!([])).is_err());
        assert!(read(&serde_json::json!({"rule": 3})).is_err());
    }
}
