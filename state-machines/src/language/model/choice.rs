//! A Choice and its rules.

use crate::data::{ChoiceCondition, Expression, Template};

/// Takes the transition of the first rule that matches.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceState {
    /// The rules, in order.
    pub rules: Vec<ChoiceRule>,
    /// The target when no rule matches. Without one the state fails with
    /// `States.NoChoiceMatched`.
    pub default: Option<String>,
}

/// A rule of a Choice.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceRule {
    /// The condition.
    pub test: RuleTest,
    /// The target state.
    pub next: String,
    /// `Output` (JSONata).
    pub output: Option<Template>,
    /// `Assign`.
    pub assign: Option<Template>,
    /// The author's comment.
    pub comment: Option<String>,
    /// A short text of the condition, for drawings.
    pub summary: String,
}

/// The condition of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum RuleTest {
    /// Comparisons (JSONPath).
    Condition(ChoiceCondition),
    /// A boolean expression (JSONata).
    Expression(Expression),
    /// `Condition` as a literal boolean (JSONata).
    Fixed(bool),
}
