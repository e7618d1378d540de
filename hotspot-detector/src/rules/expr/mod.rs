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
//! Every condition that is accepted here is CEL and means the same there. Three
//! things are why it is not read by a CEL library: variables and units are
//! checked when the rules are read and not when they first matter, what was not
//! measured is *unknown* and not an error, and a million subjects are judged in
//! one pass.

mod lex;
mod parse;

use super::SubjectKind;
use super::problem::Problem;
use super::vars::Var;

/// What a condition says. Unknown is what cannot be told for want of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl Truth {
    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::True, Self::True) => Self::True,
            _ => Self::Unknown,
        }
    }

    /// One of them or both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    /// The opposite; of the unknown it is unknown.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "it stands beside and() and or()"
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

/// A condition that has been checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    root: Yes,
    vars: Vec<Var>,
}

impl Condition {
    /// Reads a condition for subjects of a kind.
    pub fn new(text: &str, subject: SubjectKind) -> Result<Self, Problem> {
        let root = parse::parse(text, subject)?;
        let mut vars = Vec::new();
        root.vars(&mut vars);
        Ok(Self {
            text: text.to_owned(),
            root,
            vars,
        })
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The variables in it, each once, in the order of the text.
    #[must_use]
    pub fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// What it says, given the variables that are known.
    #[must_use]
    pub fn judge(&self, known: &impl Fn(Var) -> Option<f64>) -> Truth {
        self.root.judge(known)
    }
}

/// Something that is true or not.
#[derive(Debug, Clone, PartialEq)]
enum Yes {
    Lit(bool),
    Not(Box<Yes>),
    And(Box<Yes>, Box<Yes>),
    Or(Box<Yes>, Box<Yes>),
    Compare(Compare, Much, Much),
    Has(Var),
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

/// A number. Durations are milliseconds.
#[derive(Debug, Clone, PartialEq)]
enum Much {
    Lit(f64),
    Var(Var),
    Minus(Box<Much>),
    Sum(char, Box<Much>, Box<Much>),
}

impl Yes {
    fn judge(&self, known: &impl Fn(Var) -> Option<f64>) -> Truth {
        match self {
            Self::Lit(yes) => (*yes).into(),
            Self::Not(inner) => inner.judge(known).not(),
            Self::And(a, b) => match a.judge(known) {
                Truth::False => Truth::False,
                a => a.and(b.judge(known)),
            },
            Self::Or(a, b) => match a.judge(known) {
                Truth::True => Truth::True,
                a => a.or(b.judge(known)),
            },
            Self::Has(var) => known(*var).is_some().into(),
            Self::Compare(how, a, b) => match (a.much(known), b.much(known)) {
                (Some(a), Some(b)) => compare(*how, a, b).into(),
                _ => Truth::Unknown,
            },
        }
    }

    fn vars(&self, found: &mut Vec<Var>) {
        match self {
            Self::Lit(_) => {}
            Self::Not(inner) => inner.vars(found),
            Self::And(a, b) | Self::Or(a, b) => {
                a.vars(found);
                b.vars(found);
            }
            Self::Has(var) => note(*var, found),
            Self::Compare(_, a, b) => {
                a.vars(found);
                b.vars(found);
            }
        }
    }
}

#[expect(clippy::float_cmp, reason = "a rule that asks for equality gets it")]
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

impl Much {
    fn much(&self, known: &impl Fn(Var) -> Option<f64>) -> Option<f64> {
        let much = match self {
            Self::Lit(number) => *number,
            Self::Var(var) => known(*var)?,
            Self::Minus(inner) => -inner.much(known)?,
            Self::Sum(sign, a, b) => {
                let (a, b) = (a.much(known)?, b.much(known)?);
                match sign {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                }
            }
        };
        // Nought by nought is not known.
        (!much.is_nan()).then_some(much)
    }

    fn vars(&self, found: &mut Vec<Var>) {
        match self {
            Self::Lit(_) => {}
            Self::Var(var) => note(*var, found),
            Self::Minus(inner) => inner.vars(found),
            Self::Sum(_, a, b) => {
                a.vars(found);
                b.vars(found);
            }
        }
    }
}

fn note(var: Var, found: &mut Vec<Var>) {
    if !found.contains(&var) {
        found.push(var);
    }
}

#[cfg(test)]
mod tests;
