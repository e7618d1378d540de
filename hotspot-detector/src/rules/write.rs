//! Rules as the settings that they were read from: for who runs them elsewhere.

use serde_json::{Map, Value, json};

use super::{Rule, Ruleset};
use crate::load::Window;

impl Ruleset {
    /// As settings: reading them gives the same rules.
    #[must_use]
    pub fn settings(&self) -> Value {
        let length = |window| ms(self.spans.length_ms(window));
        json!({
            "windows": {
                "step": ms(self.spans.step_ms),
                "short": length(Window::Short),
                "long": length(Window::Long),
            },
            "rule": self.rules.iter().map(rule).collect::<Vec<_>>(),
        })
    }
}

fn ms(many: u64) -> String {
    format!("{many}ms")
}

fn rule(rule: &Rule) -> Value {
    let mut said = Map::new();
    let mut say = |key: &str, value: Value| drop(said.insert(key.to_owned(), value));
    say("name", json!(*rule.name));
    say("summary", json!(rule.summary));
    say("subject", json!(rule.subject));
    say("when", json!(rule.when.text()));
    say("for", json!(ms(rule.for_ms)));
    if let Some(clear) = &rule.clear {
        say("clear", json!(clear.text()));
    }
    say("clear_for", json!(ms(rule.clear_for_ms)));
    say("cooldown", json!(ms(rule.cooldown_ms)));
    say("severity", json!(rule.severity));
    Value::Object(said)
}

#[cfg(test)]
mod tests {
    use crate::rules::{defaults, read};

    #[test]
    fn what_is_written_reads_the_same() {
        let rules = defaults().unwrap();
        assert_eq!(read(&rules.settings()).unwrap(), rules);
    }
}
