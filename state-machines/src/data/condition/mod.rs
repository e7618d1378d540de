//! Conditions of a Choice in JSONPath: comparisons, combined by And, Or and Not.

mod compare;
mod matches;
mod parse;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::compare::ValueTest;
use super::{EvaluationFault, EvaluationScope, Path, SyntaxError, errors};

/// A comparison, or several combined by `And`, `Or` and `Not`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceCondition(ConditionNode);

#[derive(Debug, Clone, PartialEq)]
enum ConditionNode {
    And(Vec<ConditionNode>),
    Or(Vec<ConditionNode>),
    Not(Box<ConditionNode>),
    Test(Path, ValueTest),
}

impl ChoiceCondition {
    /// Parses a choice rule; ignores `Next`, `Comment`, `Assign` and `Output` at the top
    /// level.
    pub fn parse(rule: &Value) -> Result<Self, Vec<SyntaxError>> {
        parse::parse_rule(rule).map(Self)
    }

    /// Whether a rule can have a field of this name, including comparisons.
    #[must_use]
    pub fn has_field(name: &str) -> bool {
        parse::is_rule_field(name)
    }

    /// Evaluates the condition.
    ///
    /// A value of the wrong type for the comparison is neither equal, less nor greater. A
    /// missing value is a `States.Runtime`, except for `IsPresent`. `And` and `Or`
    /// short-circuit, so that `IsPresent` can guard later rules.
    pub fn holds(&self, scope: &EvaluationScope<'_>) -> Result<bool, EvaluationFault> {
        self.0.holds(scope)
    }

    /// The names of the variables it reads, without `$`.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.0.variables(&mut names);
        names
    }
}

impl ConditionNode {
    fn holds(&self, scope: &EvaluationScope<'_>) -> Result<bool, EvaluationFault> {
        match self {
            Self::And(rules) => {
                for rule in rules {
                    if !rule.holds(scope)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(rules) => {
                for rule in rules {
                    if rule.holds(scope)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(rule) => Ok(!rule.holds(scope)?),
            Self::Test(variable, test) => {
                let value = variable.find_if_present(scope)?;
                if let ValueTest::IsPresent(expected) = test {
                    return Ok(value.is_some() == *expected);
                }
                match value {
                    Some(value) => test.passes(&value, scope),
                    None => Err(missing_value_fault(variable)),
                }
            }
        }
    }

    fn variables<'r>(&'r self, into: &mut Vec<&'r str>) {
        match self {
            Self::And(rules) | Self::Or(rules) => {
                rules.iter().for_each(|rule| rule.variables(into));
            }
            Self::Not(rule) => rule.variables(into),
            Self::Test(path, test) => {
                into.extend(path.variables());
                if let Some(path) = test.path() {
                    into.extend(path.variables());
                }
            }
        }
    }
}

fn missing_value_fault(path: &Path) -> EvaluationFault {
    EvaluationFault::new(
        errors::RUNTIME,
        format!(
            "a choice compares '{}', which is missing; use IsPresent to check for it",
            path.as_str()
        ),
    )
}
