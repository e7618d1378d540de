//! A Choice and its rules.

use crate::data::{Condition, Expression, Template};

/// Goes where the first rule that holds leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// Where it goes when none holds; it fails with `States.NoChoiceMatched`
    /// without one.
    pub default: Option<String>,
}

/// A way that a Choice may go.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// When it is gone.
    pub test: Test,
    /// The state it leads to.
    pub next: String,
    /// `Output` (JSONata).
    pub output: Option<Template>,
    /// `Assign`.
    pub assign: Option<Template>,
    /// What its author says of it.
    pub comment: Option<String>,
    /// The test in a few words, for drawings.
    pub summary: String,
}

/// When a rule holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Comparisons (JSONPath).
    Condition(Condition),
    /// An expression that is true or false (JSONata).
    Expression(Expression),
    /// `Condition` written as true or false (JSONata).
    Fixed(bool),
}
