//! Substitutions: `${Name}` stands for a value that is filled in before the
//! definition is deployed, by SAM, CDK, Terraform and others.
//!
//! Until then nobody knows what will stand there, so it is nothing that a
//! definition is refused for: what a value with a token in it is wrong about
//! becomes a warning. A definition with such values can be checked and drawn;
//! it cannot be run.

use serde_json::Value;

use crate::data::Condition;
use crate::language::pointer::Pointer;
use crate::language::problem::{Code, Problem};

/// What is noted of a path with a token, before it is forgiven.
pub(super) const UNFILLED: &str = "a substitution in it is not filled in";

/// The first token in a text.
pub(super) fn token(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(open) = rest.find("${") {
        rest = rest.get(open..)?;
        let close = rest.find('}')?;
        let name = rest.get(2..close)?;
        // JSONata groups with `${name: value}`, which is no token.
        let is_name = |c: char| !c.is_whitespace() && !"{\"'".contains(c);
        if !name.is_empty() && name.chars().all(is_name) {
            return rest.get(..=close);
        }
        rest = rest.get(2..)?;
    }
    None
}

/// Whether a value is a text with a token in it.
pub(super) fn is_unfilled(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).and_then(token).is_some()
}

/// Where in a value paths have tokens in them, as JSON pointers. Such a path
/// can often be read, and never means what it says.
pub(super) fn in_paths(value: &Value, is_path: fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    seek(value, &Pointer::root(), is_path, &mut found);
    found
}

fn seek(value: &Value, at: &Pointer, is_path: fn(&str) -> bool, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                seek(item, &at.item(index), is_path, found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = at.field(name);
                if is_path(name) && is_unfilled(Some(value)) {
                    found.push(at.as_str().to_owned());
                } else {
                    seek(value, &at, is_path, found);
                }
            }
        }
        _ => {}
    }
}

/// Turns what tokens are wrong about into warnings; those are returned, too.
pub(super) fn forgive(source: &Value, problems: &mut Vec<Problem>) -> Vec<Problem> {
    let mut unfilled: Vec<Problem> = Vec::new();
    problems.retain(|problem| {
        let Some(warning) = forgiven(source, problem) else {
            return true;
        };
        if unfilled.iter().all(|known| known.path != warning.path) {
            unfilled.push(warning);
        }
        false
    });
    // What is in a language that nobody knows yet cannot be judged by it.
    let unknown = unfilled.iter().filter_map(|warning| {
        let around = warning.path.strip_suffix("/QueryLanguage")?;
        Some(format!("{around}/"))
    });
    let unknown: Vec<String> = unknown.collect();
    problems.retain(|problem| {
        !problem.is_error() || !unknown.iter().any(|place| problem.path.starts_with(place))
    });
    problems.extend(unfilled.iter().cloned());
    unfilled
}

/// The warning that takes the place of an error, if a token is to blame.
fn forgiven(source: &Value, problem: &Problem) -> Option<Problem> {
    if !is_about_the_value(problem) {
        return None;
    }
    let text = source.pointer(&problem.path)?.as_str()?;
    let token = token(text)?;
    let message = format!("{token} is not filled in, so this is not checked");
    Some(Problem {
        path: problem.path.clone(),
        ..Problem::new(&Pointer::root(), Code::Unfilled, message)
    })
}

/// Whether another value would be right in the same place.
fn is_about_the_value(problem: &Problem) -> bool {
    match problem.code {
        Code::WrongType
        | Code::NotOneOf
        | Code::UnknownTarget
        | Code::Path
        | Code::Expression
        | Code::Template
        | Code::Timestamp
        | Code::Label => true,
        Code::Condition => {
            let field = problem.path.rsplit('/').next();
            field.is_some_and(Condition::has_field)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_name_in_braces() {
        assert_eq!(token("arn:${AWS::Region}:x"), Some("${AWS::Region}"));
        assert_eq!(token("${Copy.Arn}"), Some("${Copy.Arn}"));
        assert_eq!(token("${Token[TOKEN.12]}"), Some("${Token[TOKEN.12]}"));
        assert_eq!(token("$$ ${ a } ${b}"), Some("${b}"));
        for text in ["", "$", "${", "${}", "${a", "{% a${b: c} %}", "${\"a\":1}"] {
            assert_eq!(token(text), None, "{text}");
        }
    }
}
