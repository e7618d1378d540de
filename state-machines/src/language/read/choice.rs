//! A Choice and its rules.

use serde_json::{Map, Value};

use super::Reader;
use super::fields::RULE;
use super::machine::Flow;
use super::object::Object;
use super::reserved::Has;
use super::state::Site;
use super::tokens::{self, UNFILLED, token};
use super::values::is_expression;
use crate::data::Condition;
use crate::language::model::{Choice, QueryLanguage, Rule, Test};
use crate::language::problem::Code;

/// How long the summary of a rule may be, in characters.
const SUMMARY_CHARS_MAX: usize = 60;

impl Reader {
    pub(super) fn choice(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Option<Choice> {
        let object = site.object;
        self.required(object, "Choices");
        let default = self.text(object, "Default");
        match default {
            Some(default) => flow.step(site.name, object.at("Default"), default),
            None if object.has("Default") => flow.broken(),
            None => self.report(
                &object.at,
                Code::NoDefault,
                "when no rule holds this fails with States.NoChoiceMatched; add a \"Default\"",
            ),
        }
        let Some(list) = self.filled_list(object, "Choices") else {
            flow.broken();
            return None;
        };
        let at = object.at("Choices");
        let rules: Vec<Option<Rule>> = list
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let Some(rule) = self.as_object(at.item(index), value) else {
                    flow.broken();
                    return None;
                };
                self.rule(site, &rule, value, flow)
            })
            .collect();
        Some(Choice {
            rules: rules.into_iter().collect::<Option<Vec<Rule>>>()?,
            default: default.map(str::to_owned),
        })
    }

    fn rule(
        &mut self,
        site: &Site<'_, '_>,
        object: &Object<'_>,
        value: &Value,
        flow: &mut Flow,
    ) -> Option<Rule> {
        let language = site.language;
        let comment = self.text(object, "Comment").map(str::to_owned);
        let output = self.output(object, language, Has::Neither);
        let assign = self.assign(object, language, Has::Neither);
        self.required(object, "Next");
        let next = self.text(object, "Next");
        match next {
            Some(next) => flow.step(site.name, object.at("Next"), next),
            None => flow.broken(),
        }
        let test = match language {
            QueryLanguage::JsonPath => self.condition(object, value),
            QueryLanguage::Jsonata => {
                self.allow(object, &RULE, language);
                self.required(object, "Condition");
                self.condition_expression(object)
            }
        };
        // A token in its place is no reason not to draw it.
        let unfilled = || token(&value.to_string()).map(|_| Test::Fixed(false));
        Some(Rule {
            test: test.or_else(unfilled)?,
            next: next?.to_owned(),
            output,
            assign,
            comment,
            summary: shorten(&summary(object.fields)),
        })
    }

    fn condition(&mut self, object: &Object<'_>, value: &Value) -> Option<Test> {
        for name in ["Condition", "Output"] {
            if object.has(name) {
                self.report(
                    &object.at(name),
                    Code::OtherLanguage,
                    format!("{name:?} is a field of JSONata, and this is JSONPath; use \"Variable\" and a comparison, or set \"QueryLanguage\""),
                );
            }
        }
        let is_path = |name: &str| name == "Variable" || name.ends_with("Path");
        for inner in tokens::in_paths(value, is_path) {
            let at = object.at.join(&inner);
            self.report(&at, Code::Condition, UNFILLED);
        }
        let read = Condition::parse(value);
        self.all_readable(&object.at, Code::Condition, read)
            .map(Test::Condition)
    }

    fn condition_expression(&mut self, object: &Object<'_>) -> Option<Test> {
        let name = "Condition";
        let at = object.at(name);
        match object.get(name)? {
            Value::Bool(fixed) => Some(Test::Fixed(*fixed)),
            Value::String(text) if is_expression(text) => {
                self.expression(&at, text).map(Test::Expression)
            }
            other => {
                self.wrong_type(&at, "an expression between {% and %}", other);
                None
            }
        }
    }
}

/// A rule in a few words: `$.status StringEquals "done"`.
fn summary(rule: &Map<String, Value>) -> String {
    if let Some(Value::String(text)) = rule.get("Condition") {
        let inner = text.strip_prefix("{%").unwrap_or(text);
        return inner.strip_suffix("%}").unwrap_or(inner).trim().to_owned();
    }
    for (name, joint) in [("And", " and "), ("Or", " or ")] {
        if let Some(Value::Array(rules)) = rule.get(name) {
            let parts: Vec<String> = rules
                .iter()
                .filter_map(Value::as_object)
                .map(summary)
                .collect();
            return parts.join(joint);
        }
    }
    if let Some(Value::Object(rule)) = rule.get("Not") {
        return format!("not {}", summary(rule));
    }
    let variable = rule
        .get("Variable")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let beside = ["Variable", "Next", "Comment", "Assign", "Output"];
    let comparison = rule
        .iter()
        .find(|(name, _)| !beside.contains(&name.as_str()));
    comparison.map_or_else(
        || variable.to_owned(),
        |(name, value)| format!("{variable} {name} {value}"),
    )
}

fn shorten(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= SUMMARY_CHARS_MAX {
        return text;
    }
    let kept: String = text.chars().take(SUMMARY_CHARS_MAX - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(rule: &Value) -> String {
        rule.as_object().map(summary).unwrap_or_default()
    }

    #[test]
    fn a_rule_is_summed_up_in_a_few_words() {
        let equal = json!({"Variable": "$.a", "StringEquals": "x", "Next": "N"});
        assert_eq!(of(&equal), "$.a StringEquals \"x\"");
        assert_eq!(
            of(&json!({"Not": equal, "Next": "N"})),
            "not $.a StringEquals \"x\""
        );
        let both = json!({"And": [{"Variable": "$.a", "IsNull": true}, {"Variable": "$.b", "IsNull": false}]});
        assert_eq!(of(&both), "$.a IsNull true and $.b IsNull false");
        assert_eq!(of(&json!({"Condition": "{% $a > 1 %}"})), "$a > 1");
        assert_eq!(shorten(&"ab ".repeat(40)).chars().count(), 60);
    }
}
