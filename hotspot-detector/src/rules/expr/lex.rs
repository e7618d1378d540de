//! The tokenizer of conditions.

use crate::rules::problem::RuleProblem;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// `shard.query_p95`: names with dots between them.
    Name(String),
    /// `80`.
    Int(f64),
    /// `0.8`.
    Double(f64),
    /// `"2s"` or `'2s'`.
    Text(String),
    /// `&&`, `(` and the like.
    Sign(&'static str),
    End,
}

impl Token {
    pub(super) fn display(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Int(number) | Self::Double(number) => number.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::Sign(sign) => (*sign).to_owned(),
            Self::End => "the end".to_owned(),
        }
    }
}

const SIGNS: [&str; 16] = [
    "&&", "||", "<=", ">=", "==", "!=", "<", ">", "!", "+", "-", "*", "/", "(", ")", ",",
];

/// The tokens of a text with the column each begins at, counted from 1.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, RuleProblem> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let column = text[..at].chars().count() + 1;
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) = if first.is_ascii_alphabetic() || first == '_' {
            name(rest)
        } else if first.is_ascii_digit() {
            number(rest, column)?
        } else if first == '"' || first == '\'' {
            quoted(rest, first, column)?
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            return Err(unknown(rest, first, column));
        };
        found.push((column, token));
        at += length;
    }
    found.push((text.chars().count() + 1, Token::End));
    Ok(found)
}

fn name(rest: &str) -> (Token, usize) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    (Token::Name(rest[..length].to_owned()), length)
}

fn number(rest: &str, column: usize) -> Result<(Token, usize), RuleProblem> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let word = &rest[..length];
    let help = if rest[length..].starts_with('%') {
        "write a share as 0.8 instead of 80%".to_owned()
    } else if super::super::duration::cel_ms(word).is_some() {
        format!("write duration(\"{word}\")")
    } else {
        String::new()
    };
    let number: Result<f64, _> = word.parse();
    match number {
        Ok(number) if number.is_finite() && help.is_empty() => {
            Ok(if word.contains(['.', 'e', 'E']) {
                (Token::Double(number), length)
            } else {
                (Token::Int(number), length)
            })
        }
        _ => {
            let problem = RuleProblem::new(column_at(column), format!("{word} is not a number"));
            Err(if help.is_empty() {
                problem
            } else {
                problem.help(help)
            })
        }
    }
}

fn quoted(rest: &str, quote: char, column: usize) -> Result<(Token, usize), RuleProblem> {
    match rest[1..].find(quote) {
        Some(end) => Ok((Token::Text(rest[1..=end].to_owned()), end + 2)),
        None => {
            Err(RuleProblem::new(column_at(column), "unterminated text")
                .help(format!("add a {quote}")))
        }
    }
}

fn unknown(rest: &str, first: char, column: usize) -> RuleProblem {
    let help = match first {
        '&' => "write && for \"and\"",
        '|' => "write || for \"or\"",
        '=' => "write == for \"equals\"",
        '%' => "write a share as 0.8 instead of 80%",
        '?' | ':' | '[' | '{' => "conditions support a subset of CEL, see the rule reference",
        _ => "",
    };
    let shown: String = rest.chars().take(1).collect();
    let problem = RuleProblem::new(column_at(column), format!("unexpected {shown}"));
    if help.is_empty() {
        problem
    } else {
        problem.help(help)
    }
}

pub(super) fn column_at(column: usize) -> String {
    format!("column {column}")
}
