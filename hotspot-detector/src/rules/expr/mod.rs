//! Conditions: a typed subset of the Common Expression Language (CEL).
//!
//! ```text
//!   or      = and  { "||" and }
//!   and     = not  { "&&" not }
//!   compare = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
//!   sum     = product { ("+" | "-") product }
//!   product = unary   { ("*" | "/") unary }
//!   unary   = [ "!" | "-" ] ( "(" or ")" | number | "true" | "false"
//!                           | variable | duration("2s") | has(variable) )
//! ```
//! Every accepted condition is valid CEL with the same meaning. It is not evaluated by a CEL
//! library for three reasons: variables and units are checked when rules are read instead of
//! when they are evaluated, missing measurements are *unknown* instead of an error, and a
//! pass evaluates a million subjects.

mod lex;
mod parse;

use super::SubjectKind;
use super::problem::RuleProblem;
use super::vars::Variable;

/// A three-valued truth value. Unknown stands for missing data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Unknown, because data is missing.
    Unknown,
}

impl Truth {
    /// Logical and.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::True, Self::True) => Self::True,
            _ => Self::Unknown,
        }
    }

    /// Logical or.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    /// Logical not; unknown stays unknown.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "consistent with and() and or()"
    )]
    pub fn not(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
        }
    }
}

impl From<bool> for Truth {
    fn from(yes: bool) -> Self {
        if yes { Self::True } else { Self::False }
    }
}

/// A parsed and type-checked condition.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleCondition {
    text: String,
    root: BoolExpr,
    vars: Vec<Variable>,
}

impl RuleCondition {
    /// Parses a condition for a kind of subject.
    pub fn new(text: &str, subject: SubjectKind) -> Result<Self, RuleProblem> {
        let root = parse::parse(text, subject)?;
        let mut vars = Vec::new();
        root.vars(&mut vars);
        Ok(Self {
            text: text.to_owned(),
            root,
            vars,
        })
    }

    /// The condition's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its variables without duplicates, in order of the text.
    #[must_use]
    pub fn vars(&self) -> &[Variable] {
        &self.vars
    }

    /// Evaluates it with the known variables.
    #[must_use]
    pub fn evaluate(&self, known: &impl Fn(Variable) -> Option<f64>) -> Truth {
        self.root.evaluate(known)
    }
}

/// A boolean expression.
#[derive(Debug, Clone, PartialEq)]
enum BoolExpr {
    Lit(bool),
    Not(Box<BoolExpr>),
    And(Box<BoolExpr>, Box<BoolExpr>),
    Or(Box<BoolExpr>, Box<BoolExpr>),
    Compare(Compare, NumberExpr, NumberExpr),
    Has(Variable),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compare {
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    Equal,
    Unequal,
}

/// A numeric expression. Durations are milliseconds.
#[derive(Debug, Clone, PartialEq)]
enum NumberExpr {
    Lit(f64),
    Variable(Variable),
    Minus(Box<NumberExpr>),
    Sum(char, Box<NumberExpr>, Box<NumberExpr>),
}

impl BoolExpr {
    fn evaluate(&self, known: &impl Fn(Variable) -> Option<f64>) -> Truth {
        match self {
            Self::Lit(yes) => (*yes).into(),
            Self::Not(inner) => inner.evaluate(known).not(),
            Self::And(a, b) => match a.evaluate(known) {
                Truth::False => Truth::False,
                a => a.and(b.evaluate(known)),
            },
            Self::Or(a, b) => match a.evaluate(known) {
                Truth::True => Truth::True,
                a => a.or(b.evaluate(known)),
            },
            Self::Has(var) => known(*var).is_some().into(),
            Self::Compare(how, a, b) => match (a.value(known), b.value(known)) {
                (Some(a), Some(b)) => compare(*how, a, b).into(),
                _ => Truth::Unknown,
            },
        }
    }

    fn vars(&self, found: &mut Vec<Variable>) {
        match self {
            Self::Lit(_) => {}
            Self::Not(inner) => inner.vars(found),
            Self::And(a, b) | Self::Or(a, b) => {
                a.vars(found);
                b.vars(found);
            }
            Self::Has(var) => add_once(*var, found),
            Self::Compare(_, a, b) => {
                a.vars(found);
                b.vars(found);
            }
        }
    }
}

#[expect(clippy::float_cmp, reason = "rules may test for equality")]
fn compare(how: Compare, a: f64, b: f64) -> bool {
    match how {
        Compare::Less => a < b,
        Compare::LessOrEqual => a <= b,
        Compare::More => a > b,
        Compare::MoreOrEqual => a >= b,
        Compare::Equal => a == b,
        Compare::Unequal => a != b,
    }
}

impl NumberExpr {
    fn value(&self, known: &impl Fn(Variable) -> Option<f64>) -> Option<f64> {
        let value = match self {
            Self::Lit(number) => *number,
            Self::Variable(var) => known(*var)?,
            Self::Minus(inner) => -inner.value(known)?,
            Self::Sum(sign, a, b) => {
                let (a, b) = (a.value(known)?, b.value(known)?);
                match sign {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                }
            }
        };
        // 0 / 0 is unknown.
        (!value.is_nan()).then_some(value)
    }

    fn vars(&self, found: &mut Vec<Variable>) {
        match self {
            Self::Lit(_) => {}
            Self::Variable(var) => add_once(*var, found),
            Self::Minus(inner) => inner.vars(found),
            Self::Sum(_, a, b) => {
                a.vars(found);
                b.vars(found);
            }
        }
    }
}

fn add_once(var: Variable, found: &mut Vec<Variable>) {
    if !found.contains(&var) {
        found.push(var);
    }
}

#[cfg(test)]
mod tests;
