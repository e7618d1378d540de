//! Writes rules as settings, so that another process can run them.

use serde_json::{Map, Value, json};

use super::{HotspotRule, Ruleset};
use crate::load::Window;

impl Ruleset {
    /// The rules as settings. Reading them gives the same rules.
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

fn rule(rule: &HotspotRule) -> Value {
    let mut settings = Map::new();
    let mut set = |key: &str, value: Value| drop(settings.insert(key.to_owned(), value));
    set("name", json!(*rule.name));
    set("summary", json!(rule.summary));
    set("subject", json!(rule.subject));
    set("when", json!(rule.when.text()));
    set("for", json!(ms(rule.for_ms)));
    if let Some(clear) = &rule.clear {
        set("clear", json!(clear.text()));
    }
    set("clear_for", json!(ms(rule.clear_for_ms)));
    set("cooldown", json!(ms(rule.cooldown_ms)));
    set("severity", json!(rule.severity));
    Value::Object(settings)
}

#[cfg(test)]
mod tests {
    use crate::rules::{defaults, read};

    #[test]
    fn written_rules_read_back_the_same() {
        let rules = defaults().unwrap();
        assert_eq!(read(&rules.settings()).unwrap(), rules);
    }
}
