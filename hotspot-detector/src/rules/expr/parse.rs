//! The parser and type checker of conditions.

use super::lex::{Token, column_at, tokens};
use super::{BoolExpr, Compare, NumberExpr};
use crate::rules::SubjectKind;
use crate::rules::duration::cel_ms;
use crate::rules::problem::{RuleProblem, did_you_mean};
use crate::rules::vars::{Unit, Variable};

/// The deepest nesting of parentheses and signs.
const DEPTH_MAX: usize = 32;
/// The longest condition.
const CHARS_MAX: usize = 2_000;

/// A share compared with a larger number was probably meant as a percentage.
const SHARE_MAX: f64 = 10.0;

/// A share that is compared with a percentage.
fn percent_for_share(a: &NumberExpr, b: &NumberExpr) -> Option<(Variable, f64)> {
    match (a, b) {
        (NumberExpr::Variable(var), NumberExpr::Lit(number))
        | (NumberExpr::Lit(number), NumberExpr::Variable(var)) => {
            let is_wrong = var.unit() == Unit::Share && *number > SHARE_MAX;
            is_wrong.then_some((*var, *number))
        }
        _ => None,
    }
}

/// An expression with its type.
enum TypedExpr {
    Bool(BoolExpr),
    /// A number literal without a decimal point.
    Int(f64),
    Double(NumberExpr),
    Duration(NumberExpr),
}

impl TypedExpr {
    fn noun(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a condition",
            Self::Int(_) | Self::Double(_) => "a number",
            Self::Duration(_) => "a duration",
        }
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    subject: SubjectKind,
}

pub(super) fn parse(text: &str, subject: SubjectKind) -> Result<BoolExpr, RuleProblem> {
    if text.chars().count() > CHARS_MAX {
        let message = format!("the condition is longer than {CHARS_MAX} characters");
        return Err(RuleProblem::new("", message));
    }
    if text.trim().is_empty() {
        return Err(RuleProblem::new("", "the condition is empty"));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        subject,
    };
    let column = parser.column();
    let any = parser.or()?;
    if *parser.token() != Token::End {
        let shown = parser.token().display();
        return Err(parser.problem(format!("unexpected {shown}")));
    }
    expect_bool(any, column)
}

fn expect_bool(any: TypedExpr, column: usize) -> Result<BoolExpr, RuleProblem> {
    match any {
        TypedExpr::Bool(yes) => Ok(yes),
        other => {
            let message = format!("expected a condition, found {}", other.noun());
            Err(RuleProblem::new(column_at(column), message).help("compare it, as in x > 0.8"))
        }
    }
}

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].1
    }

    fn column(&self) -> usize {
        self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    fn problem(&self, message: impl Into<String>) -> RuleProblem {
        RuleProblem::new(column_at(self.column()), message)
    }

    fn take(&mut self) -> Token {
        let token = self.token().clone();
        self.at += 1;
        token
    }

    /// Consumes one of these signs, if it is next.
    fn sign(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let Token::Sign(sign) = self.token() else {
            return None;
        };
        let sign = *sign;
        signs.contains(&sign).then(|| {
            self.at += 1;
            sign
        })
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), RuleProblem> {
        if self.sign(&[sign]).is_some() {
            return Ok(());
        }
        let shown = self.token().display();
        Err(self.problem(format!("expected {sign} before {shown}")))
    }

    fn or(&mut self) -> Result<TypedExpr, RuleProblem> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.problem("nested too deeply"));
        }
        let column = self.column();
        let mut left = self.and()?;
        while self.sign(&["||"]).is_some() {
            let right_column = self.column();
            let right = self.and()?;
            let (a, b) = (
                expect_bool(left, column)?,
                expect_bool(right, right_column)?,
            );
            left = TypedExpr::Bool(BoolExpr::Or(Box::new(a), Box::new(b)));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Result<TypedExpr, RuleProblem> {
        let column = self.column();
        let mut left = self.compare()?;
        while self.sign(&["&&"]).is_some() {
            let right_column = self.column();
            let right = self.compare()?;
            let (a, b) = (
                expect_bool(left, column)?,
                expect_bool(right, right_column)?,
            );
            left = TypedExpr::Bool(BoolExpr::And(Box::new(a), Box::new(b)));
        }
        Ok(left)
    }

    fn compare(&mut self) -> Result<TypedExpr, RuleProblem> {
        let left = self.sum()?;
        let column = self.column();
        let Some(sign) = self.sign(&["<", "<=", ">", ">=", "==", "!="]) else {
            return Ok(left);
        };
        let right = self.sum()?;
        let how = match sign {
            "<" => Compare::Less,
            "<=" => Compare::LessOrEqual,
            ">" => Compare::More,
            ">=" => Compare::MoreOrEqual,
            "==" => Compare::Equal,
            _ => Compare::Unequal,
        };
        let (a, b) = match (left, right) {
            (TypedExpr::Duration(a), TypedExpr::Duration(b)) => (a, b),
            (a, b) if is_number(&a) && is_number(&b) => (into_number(a), into_number(b)),
            (a, b) => {
                let message = format!("{sign} cannot compare {} with {}", a.noun(), b.noun());
                let problem = RuleProblem::new(column_at(column), message);
                let is_time =
                    matches!(a, TypedExpr::Duration(_)) || matches!(b, TypedExpr::Duration(_));
                return Err(match is_time {
                    true => problem.help("write durations as duration(\"2s\")"),
                    false => problem,
                });
            }
        };
        if let Some((share, number)) = percent_for_share(&a, &b) {
            let message = format!("{} is a share from 0 to 1 and never {number}", share.name());
            let help = format!("for {number} % write {}", number / 100.0);
            return Err(RuleProblem::new(column_at(column), message).help(help));
        }
        Ok(TypedExpr::Bool(BoolExpr::Compare(how, a, b)))
    }

    fn sum(&mut self) -> Result<TypedExpr, RuleProblem> {
        let mut left = self.product()?;
        loop {
            let column = self.column();
            let Some(sign) = self.sign(&["+", "-"]) else {
                return Ok(left);
            };
            let right = self.product()?;
            left = arithmetic(sign, left, right, column)?;
        }
    }

    fn product(&mut self) -> Result<TypedExpr, RuleProblem> {
        let mut left = self.unary()?;
        loop {
            let column = self.column();
            let Some(sign) = self.sign(&["*", "/"]) else {
                return Ok(left);
            };
            let right = self.unary()?;
            left = arithmetic(sign, left, right, column)?;
        }
    }

    fn unary(&mut self) -> Result<TypedExpr, RuleProblem> {
        let column = self.column();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.problem("nested too deeply"));
        }
        let any = match self.sign(&["!", "-"]) {
            Some("!") => {
                let inner = self.unary()?;
                TypedExpr::Bool(BoolExpr::Not(Box::new(expect_bool(inner, column)?)))
            }
            Some(_) => match self.unary()? {
                TypedExpr::Int(number) => TypedExpr::Int(-number),
                TypedExpr::Double(inner) => TypedExpr::Double(NumberExpr::Minus(Box::new(inner))),
                other => {
                    let message = format!("- cannot be applied to {}", other.noun());
                    return Err(RuleProblem::new(column_at(column), message));
                }
            },
            None => self.atom()?,
        };
        self.depth -= 1;
        Ok(any)
    }

    fn atom(&mut self) -> Result<TypedExpr, RuleProblem> {
        let problem = self.problem("");
        match self.take() {
            Token::Int(number) => Ok(TypedExpr::Int(number)),
            Token::Double(number) => Ok(TypedExpr::Double(NumberExpr::Lit(number))),
            Token::Sign("(") => {
                let inner = self.or()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Name(name) if name == "true" || name == "false" => {
                Ok(TypedExpr::Bool(BoolExpr::Lit(name == "true")))
            }
            Token::Name(name) if *self.token() == Token::Sign("(") => self.call(&name, problem),
            Token::Name(name) => {
                let var = self.var(&name, problem)?;
                Ok(match var.unit() {
                    Unit::Duration => TypedExpr::Duration(NumberExpr::Variable(var)),
                    _ => TypedExpr::Double(NumberExpr::Variable(var)),
                })
            }
            other => Err(RuleProblem {
                message: match other {
                    Token::End => "unexpected end of the condition".to_owned(),
                    other => format!("unexpected {}", other.display()),
                },
                ..problem
            }),
        }
    }

    fn call(&mut self, name: &str, problem: RuleProblem) -> Result<TypedExpr, RuleProblem> {
        self.expect("(")?;
        let inner = self.problem("");
        let argument = self.take();
        let any = match (name, argument) {
            ("duration", Token::Text(text)) => match cel_ms(&text) {
                Some(ms) => TypedExpr::Duration(NumberExpr::Lit(ms)),
                None => {
                    let message = format!("{text:?} is not a duration");
                    let help = "write for example \"2s\", \"1.5s\", \"250ms\" or \"1h30m\"";
                    return Err(RuleProblem { message, ..inner }.help(help));
                }
            },
            ("duration", _) => {
                let message = "duration() needs a text".to_owned();
                return Err(RuleProblem { message, ..inner }.help("write duration(\"2s\")"));
            }
            ("has", Token::Name(name)) => TypedExpr::Bool(BoolExpr::Has(self.var(&name, inner)?)),
            ("has", _) => {
                let message = "has() needs a variable".to_owned();
                return Err(RuleProblem { message, ..inner });
            }
            _ => {
                let message = format!("unknown function {name}");
                let help = did_you_mean(name, ["duration", "has"]);
                let help =
                    help.unwrap_or_else(|| "the functions are duration() and has()".to_owned());
                return Err(RuleProblem { message, ..problem }.help(help));
            }
        };
        self.expect(")")?;
        Ok(any)
    }

    fn var(&self, name: &str, problem: RuleProblem) -> Result<Variable, RuleProblem> {
        if let Some(var) = Variable::from_name(name, self.subject) {
            return Ok(var);
        }
        if Variable::from_name(name, SubjectKind::Tenant)
            .or(Variable::from_name(name, SubjectKind::Item))
            .is_some()
        {
            let message = format!("{name} is not available for this rule's subject");
            let help = "set the rule's subject to the first word of the variable";
            return Err(RuleProblem { message, ..problem }.help(help));
        }
        let names = Variable::names(self.subject);
        let message = format!("unknown variable {name}");
        let near = did_you_mean(name, names.iter().map(String::as_str));
        let problem = RuleProblem { message, ..problem };
        Err(match near {
            Some(help) => problem.help(help),
            None => problem.help("see the rule reference for all variables"),
        })
    }
}

fn is_number(any: &TypedExpr) -> bool {
    matches!(any, TypedExpr::Int(_) | TypedExpr::Double(_))
}

fn into_number(any: TypedExpr) -> NumberExpr {
    match any {
        TypedExpr::Int(number) => NumberExpr::Lit(number),
        TypedExpr::Double(much) | TypedExpr::Duration(much) => much,
        TypedExpr::Bool(_) => NumberExpr::Lit(f64::NAN),
    }
}

/// Arithmetic. As in CEL, both operands must have the same type.
fn arithmetic(
    sign: &'static str,
    left: TypedExpr,
    right: TypedExpr,
    column: usize,
) -> Result<TypedExpr, RuleProblem> {
    let first = sign.chars().next().unwrap_or('+');
    let sum = |a, b| NumberExpr::Sum(first, Box::new(a), Box::new(b));
    match (left, right) {
        (TypedExpr::Double(a), TypedExpr::Double(b)) => Ok(TypedExpr::Double(sum(a, b))),
        (TypedExpr::Duration(a), TypedExpr::Duration(b)) if sign == "+" || sign == "-" => {
            Ok(TypedExpr::Duration(sum(a, b)))
        }
        (a, b) if is_number(&a) && is_number(&b) => {
            let message = format!("{sign} needs numbers with a decimal point on both sides");
            Err(RuleProblem::new(column_at(column), message).help("write 2.0 instead of 2"))
        }
        (a, b) => {
            let message = format!("{sign} cannot combine {} and {}", a.noun(), b.noun());
            Err(RuleProblem::new(column_at(column), message))
        }
    }
}
