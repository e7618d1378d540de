//! Reads a condition, checks its types, and says where it is wrong.

use super::lex::{Token, column_at, tokens};
use super::{Compare, Much, Yes};
use crate::rules::SubjectKind;
use crate::rules::duration::cel_ms;
use crate::rules::problem::{Problem, did_you_mean};
use crate::rules::vars::{Unit, Var};

/// How deep parentheses and signs may be nested.
const DEPTH_MAX: usize = 32;
/// How long a condition may be.
const CHARS_MAX: usize = 2_000;

/// A share that is compared with more than this was meant in percent.
const SHARE_MAX: f64 = 10.0;

/// A share that is compared with a number that no share comes to.
fn percent_for_share(a: &Much, b: &Much) -> Option<(Var, f64)> {
    match (a, b) {
        (Much::Var(var), Much::Lit(number)) | (Much::Lit(number), Much::Var(var)) => {
            let is_wrong = var.unit() == Unit::Share && *number > SHARE_MAX;
            is_wrong.then_some((*var, *number))
        }
        _ => None,
    }
}

/// Something of one of the types.
enum Any {
    Yes(Yes),
    /// A number written without a point.
    Int(f64),
    Double(Much),
    Duration(Much),
}

impl Any {
    fn noun(&self) -> &'static str {
        match self {
            Self::Yes(_) => "a condition",
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

pub(super) fn parse(text: &str, subject: SubjectKind) -> Result<Yes, Problem> {
    if text.chars().count() > CHARS_MAX {
        let message = format!("the condition is longer than {CHARS_MAX} characters");
        return Err(Problem::new("", message));
    }
    if text.trim().is_empty() {
        return Err(Problem::new("", "the condition is empty"));
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
        let shown = parser.token().shown();
        return Err(parser.problem(format!("{shown} does not belong here")));
    }
    yes(any, column)
}

fn yes(any: Any, column: usize) -> Result<Yes, Problem> {
    match any {
        Any::Yes(yes) => Ok(yes),
        other => {
            let message = format!("this is {}, and a condition is needed", other.noun());
            Err(Problem::new(column_at(column), message).help("compare it, as in x > 0.8"))
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

    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(column_at(self.column()), message)
    }

    fn take(&mut self) -> Token {
        let token = self.token().clone();
        self.at += 1;
        token
    }

    /// Takes one of these signs, if it is next.
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

    fn expect(&mut self, sign: &'static str) -> Result<(), Problem> {
        if self.sign(&[sign]).is_some() {
            return Ok(());
        }
        let shown = self.token().shown();
        Err(self.problem(format!("a {sign} is missing before {shown}")))
    }

    fn or(&mut self) -> Result<Any, Problem> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.problem("it is nested too deeply"));
        }
        let column = self.column();
        let mut left = self.and()?;
        while self.sign(&["||"]).is_some() {
            let right_column = self.column();
            let right = self.and()?;
            let (a, b) = (yes(left, column)?, yes(right, right_column)?);
            left = Any::Yes(Yes::Or(Box::new(a), Box::new(b)));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Result<Any, Problem> {
        let column = self.column();
        let mut left = self.compare()?;
        while self.sign(&["&&"]).is_some() {
            let right_column = self.column();
            let right = self.compare()?;
            let (a, b) = (yes(left, column)?, yes(right, right_column)?);
            left = Any::Yes(Yes::And(Box::new(a), Box::new(b)));
        }
        Ok(left)
    }

    fn compare(&mut self) -> Result<Any, Problem> {
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
            (Any::Duration(a), Any::Duration(b)) => (a, b),
            (a, b) if is_number(&a) && is_number(&b) => (much(a), much(b)),
            (a, b) => {
                let message = format!("{sign} cannot compare {} with {}", a.noun(), b.noun());
                let problem = Problem::new(column_at(column), message);
                let is_time = matches!(a, Any::Duration(_)) || matches!(b, Any::Duration(_));
                return Err(match is_time {
                    true => problem.help("write durations as duration(\"2s\")"),
                    false => problem,
                });
            }
        };
        if let Some((share, number)) = percent_for_share(&a, &b) {
            let message = format!(
                "{} is a share, from 0 to 1: it is never {number}",
                share.name()
            );
            let help = format!("for {number} % write {}", number / 100.0);
            return Err(Problem::new(column_at(column), message).help(help));
        }
        Ok(Any::Yes(Yes::Compare(how, a, b)))
    }

    fn sum(&mut self) -> Result<Any, Problem> {
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

    fn product(&mut self) -> Result<Any, Problem> {
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

    fn unary(&mut self) -> Result<Any, Problem> {
        let column = self.column();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.problem("it is nested too deeply"));
        }
        let any = match self.sign(&["!", "-"]) {
            Some("!") => {
                let inner = self.unary()?;
                Any::Yes(Yes::Not(Box::new(yes(inner, column)?)))
            }
            Some(_) => match self.unary()? {
                Any::Int(number) => Any::Int(-number),
                Any::Double(inner) => Any::Double(Much::Minus(Box::new(inner))),
                other => {
                    let message = format!("- cannot stand before {}", other.noun());
                    return Err(Problem::new(column_at(column), message));
                }
            },
            None => self.atom()?,
        };
        self.depth -= 1;
        Ok(any)
    }

    fn atom(&mut self) -> Result<Any, Problem> {
        let problem = self.problem("");
        match self.take() {
            Token::Int(number) => Ok(Any::Int(number)),
            Token::Double(number) => Ok(Any::Double(Much::Lit(number))),
            Token::Sign("(") => {
                let inner = self.or()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Name(name) if name == "true" || name == "false" => {
                Ok(Any::Yes(Yes::Lit(name == "true")))
            }
            Token::Name(name) if *self.token() == Token::Sign("(") => self.call(&name, problem),
            Token::Name(name) => {
                let var = self.var(&name, problem)?;
                Ok(match var.unit() {
                    Unit::Duration => Any::Duration(Much::Var(var)),
                    _ => Any::Double(Much::Var(var)),
                })
            }
            other => Err(Problem {
                message: match other {
                    Token::End => "something is missing at the end".to_owned(),
                    other => format!("{} does not belong here", other.shown()),
                },
                ..problem
            }),
        }
    }

    fn call(&mut self, name: &str, problem: Problem) -> Result<Any, Problem> {
        self.expect("(")?;
        let inner = self.problem("");
        let argument = self.take();
        let any = match (name, argument) {
            ("duration", Token::Text(text)) => match cel_ms(&text) {
                Some(ms) => Any::Duration(Much::Lit(ms)),
                None => {
                    let message = format!("{text:?} is no duration");
                    let help = "write for instance \"2s\", \"1.5s\", \"250ms\" or \"1h30m\"";
                    return Err(Problem { message, ..inner }.help(help));
                }
            },
            ("duration", _) => {
                let message = "duration() takes a text".to_owned();
                return Err(Problem { message, ..inner }.help("write duration(\"2s\")"));
            }
            ("has", Token::Name(name)) => Any::Yes(Yes::Has(self.var(&name, inner)?)),
            ("has", _) => {
                let message = "has() takes a variable".to_owned();
                return Err(Problem { message, ..inner });
            }
            _ => {
                let message = format!("there is no function {name}");
                let help = did_you_mean(name, ["duration", "has"]);
                let help = help.unwrap_or_else(|| "there are duration() and has()".to_owned());
                return Err(Problem { message, ..problem }.help(help));
            }
        };
        self.expect(")")?;
        Ok(any)
    }

    fn var(&self, name: &str, problem: Problem) -> Result<Var, Problem> {
        if let Some(var) = Var::named(name, self.subject) {
            return Ok(var);
        }
        if Var::named(name, SubjectKind::Tenant)
            .or(Var::named(name, SubjectKind::Item))
            .is_some()
        {
            let message = format!("{name} is not known to a rule about this subject");
            let help = "set the rule's subject to the first word of the variable";
            return Err(Problem { message, ..problem }.help(help));
        }
        let names = Var::names(self.subject);
        let message = format!("there is no variable {name}");
        let near = did_you_mean(name, names.iter().map(String::as_str));
        let problem = Problem { message, ..problem };
        Err(match near {
            Some(help) => problem.help(help),
            None => problem.help("the rule reference lists them"),
        })
    }
}

fn is_number(any: &Any) -> bool {
    matches!(any, Any::Int(_) | Any::Double(_))
}

fn much(any: Any) -> Much {
    match any {
        Any::Int(number) => Much::Lit(number),
        Any::Double(much) | Any::Duration(much) => much,
        Any::Yes(_) => Much::Lit(f64::NAN),
    }
}

/// CEL adds and multiplies only what is of one type, so do we.
fn arithmetic(sign: &'static str, left: Any, right: Any, column: usize) -> Result<Any, Problem> {
    let first = sign.chars().next().unwrap_or('+');
    let sum = |a, b| Much::Sum(first, Box::new(a), Box::new(b));
    match (left, right) {
        (Any::Double(a), Any::Double(b)) => Ok(Any::Double(sum(a, b))),
        (Any::Duration(a), Any::Duration(b)) if sign == "+" || sign == "-" => {
            Ok(Any::Duration(sum(a, b)))
        }
        (a, b) if is_number(&a) && is_number(&b) => {
            let message = format!("{sign} takes numbers with a point on both sides");
            Err(Problem::new(column_at(column), message).help("write 2.0 instead of 2"))
        }
        (a, b) => {
            let message = format!("{sign} cannot join {} and {}", a.noun(), b.noun());
            Err(Problem::new(column_at(column), message))
        }
    }
}
