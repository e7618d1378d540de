//! A Choice and its rules.

use serde_json::{Map, Value};

use super::DefinitionReader;
use super::fields::RULE;
use super::machine::MachineFlow;
use super::object::JsonObject;
use super::reserved::StatesValue;
use super::state::StateSite;
use super::tokens::{self, UNFILLED, find_token};
use super::values::is_expression;
use crate::data::ChoiceCondition;
use crate::language::model::{ChoiceRule, ChoiceState, QueryLanguage, RuleTest};
use crate::language::problem::ProblemCode;

/// The maximum length of the short text of a rule, in characters.
const SUMMARY_CHARS_MAX: usize = 60;

impl DefinitionReader {
    pub(super) fn read_choice(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Option<ChoiceState> {
        let object = site.object;
        self.require_field(object, "Choices");
        let default = self.read_text(object, "Default");
        match default {
            Some(default) => flow.add_transition(site.name, object.pointer_to("Default"), default),
            None if object.has("Default") => flow.mark_unreadable(),
            None => self.report(
                &object.at,
                ProblemCode::NoDefault,
                "without a matching rule this fails with States.NoChoiceMatched; add a \"Default\"",
            ),
        }
        let Some(list) = self.read_non_empty_list(object, "Choices") else {
            flow.mark_unreadable();
            return None;
        };
        let at = object.pointer_to("Choices");
        let rules: Vec<Option<ChoiceRule>> = list
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let Some(rule) = self.as_object(at.item(index), value) else {
                    flow.mark_unreadable();
                    return None;
                };
                self.read_rule(site, &rule, value, flow)
            })
            .collect();
        Some(ChoiceState {
            rules: rules.into_iter().collect::<Option<Vec<ChoiceRule>>>()?,
            default: default.map(str::to_owned),
        })
    }

    fn read_rule(
        &mut self,
        site: &StateSite<'_, '_>,
        object: &JsonObject<'_>,
        value: &Value,
        flow: &mut MachineFlow,
    ) -> Option<ChoiceRule> {
        let language = site.language;
        let comment = self.read_text(object, "Comment").map(str::to_owned);
        let output = self.read_output(object, language, StatesValue::Neither);
        let assign = self.read_assign(object, language, StatesValue::Neither);
        self.require_field(object, "Next");
        let next = self.read_text(object, "Next");
        match next {
            Some(next) => flow.add_transition(site.name, object.pointer_to("Next"), next),
            None => flow.mark_unreadable(),
        }
        let test = match language {
            QueryLanguage::JsonPath => self.read_condition(object, value),
            QueryLanguage::Jsonata => {
                self.check_fields(object, &RULE, language);
                self.require_field(object, "Condition");
                self.read_condition_expression(object)
            }
        };
        // An unfilled substitution must not prevent drawing.
        let unfilled = || find_token(&value.to_string()).map(|_| RuleTest::Fixed(false));
        Some(ChoiceRule {
            test: test.or_else(unfilled)?,
            next: next?.to_owned(),
            output,
            assign,
            comment,
            summary: shorten(&summarize_rule(object.fields)),
        })
    }

    fn read_condition(&mut self, object: &JsonObject<'_>, value: &Value) -> Option<RuleTest> {
        for name in ["Condition", "Output"] {
            if object.has(name) {
                self.report(
                    &object.pointer_to(name),
                    ProblemCode::OtherLanguage,
                    format!("{name:?} is a field of JSONata, and this is JSONPath; use \"Variable\" and a comparison, or set \"QueryLanguage\""),
                );
            }
        }
        let is_path = |name: &str| name == "Variable" || name.ends_with("Path");
        for inner in tokens::find_in_paths(value, is_path) {
            let at = object.at.join(&inner);
            self.report(&at, ProblemCode::Condition, UNFILLED);
        }
        let read = ChoiceCondition::parse(value);
        self.accept_or_report_all(&object.at, ProblemCode::Condition, read)
            .map(RuleTest::Condition)
    }

    fn read_condition_expression(&mut self, object: &JsonObject<'_>) -> Option<RuleTest> {
        let name = "Condition";
        let at = object.pointer_to(name);
        match object.get(name)? {
            Value::Bool(fixed) => Some(RuleTest::Fixed(*fixed)),
            Value::String(text) if is_expression(text) => {
                self.read_expression(&at, text).map(RuleTest::Expression)
            }
            other => {
                self.report_wrong_type(&at, "an expression between {% and %}", other);
                None
            }
        }
    }
}

/// The short text of a rule: `$.status StringEquals "done"`.
fn summarize_rule(rule: &Map<String, Value>) -> String {
    if let Some(Value::String(text)) = rule.get("Condition") {
        let inner = text.strip_prefix("{%").unwrap_or(text);
        return inner.strip_suffix("%}").unwrap_or(inner).trim().to_owned();
    }
    for (name, joint) in [("And", " and "), ("Or", " or ")] {
        if let Some(Value::Array(rules)) = rule.get(name) {
            let parts: Vec<String> = rules
                .iter()
                .filter_map(Value::as_object)
                .map(summarize_rule)
                .collect();
            return parts.join(joint);
        }
    }
    if let Some(Value::Object(rule)) = rule.get("Not") {
        return format!("not {}", summarize_rule(rule));
    }
    let variable = rule
        .get("Variable")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let other_fields = ["Variable", "Next", "Comment", "Assign", "Output"];
    let comparison = rule
        .iter()
        .find(|(name, _)| !other_fields.contains(&name.as_str()));
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

    fn summarize(rule: &Value) -> String {
        rule.as_object().map(summarize_rule).unwrap_or_default()
    }

    #[test]
    fn a_rule_is_summed_up_in_a_few_words() {
        let equal = json!({"Variable": "$.a", "StringEquals": "x", "Next": "N"});
        assert_eq!(summarize(&equal), "$.a StringEquals \"x\"");
        assert_eq!(
            summarize(&json!({"Not": equal, "Next": "N"})),
            "not $.a StringEquals \"x\""
        );
        let both = json!({"And": [{"Variable": "$.a", "IsNull": true}, {"Variable": "$.b", "IsNull": false}]});
        assert_eq!(summarize(&both), "$.a IsNull true and $.b IsNull false");
        assert_eq!(summarize(&json!({"Condition": "{% $a > 1 %}"})), "$a > 1");
        assert_eq!(shorten(&"ab ".repeat(40)).chars().count(), 60);
    }
}
