//! Substitutions: `${Name}` is a placeholder that SAM, CDK, Terraform and others fill
//! in before the definition is deployed.
//!
//! The final value is unknown until then, so an error about a value with a
//! substitution becomes a warning. A definition with such values can be checked and
//! drawn, but not run.

use serde_json::Value;

use crate::data::ChoiceCondition;
use crate::language::pointer::Pointer;
use crate::language::problem::{DefinitionProblem, ProblemCode};

/// The error for a path with a substitution, before it becomes a warning.
pub(super) const UNFILLED: &str = "it contains an unfilled substitution";

/// Finds the first substitution in a string.
pub(super) fn find_token(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(open) = rest.find("${") {
        rest = rest.get(open..)?;
        let close = rest.find('}')?;
        let name = rest.get(2..close)?;
        // JSONata groups with `${name: value}`, which is not a substitution.
        let is_name = |c: char| !c.is_whitespace() && !"{\"'".contains(c);
        if !name.is_empty() && name.chars().all(is_name) {
            return rest.get(..=close);
        }
        rest = rest.get(2..)?;
    }
    None
}

/// Whether a value is a string with a substitution.
pub(super) fn is_unfilled(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).and_then(find_token).is_some()
}

/// Finds paths with substitutions in a value, as JSON pointers. Such a path is often
/// valid, but not as intended.
pub(super) fn find_in_paths(value: &Value, is_path: fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    collect_in_paths(value, &Pointer::root(), is_path, &mut found);
    found
}

fn collect_in_paths(
    value: &Value,
    at: &Pointer,
    is_path: fn(&str) -> bool,
    found: &mut Vec<String>,
) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_in_paths(item, &at.item(index), is_path, found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = at.field(name);
                if is_path(name) && is_unfilled(Some(value)) {
                    found.push(at.as_str().to_owned());
                } else {
                    collect_in_paths(value, &at, is_path, found);
                }
            }
        }
        _ => {}
    }
}

/// Turns errors that substitutions cause into warnings, and returns those.
pub(super) fn downgrade_unfilled(
    source: &Value,
    problems: &mut Vec<DefinitionProblem>,
) -> Vec<DefinitionProblem> {
    let mut unfilled: Vec<DefinitionProblem> = Vec::new();
    problems.retain(|problem| {
        let Some(warning) = to_unfilled_warning(source, problem) else {
            return true;
        };
        if unfilled.iter().all(|known| known.path != warning.path) {
            unfilled.push(warning);
        }
        false
    });
    // Where the query language itself is unknown, other errors below it cannot
    // be judged.
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

/// The warning that replaces an error, if a substitution causes it.
fn to_unfilled_warning(source: &Value, problem: &DefinitionProblem) -> Option<DefinitionProblem> {
    if !is_about_the_value(problem) {
        return None;
    }
    let text = source.pointer(&problem.path)?.as_str()?;
    let token = find_token(text)?;
    let message = format!("{token} is not filled in, so this is not checked");
    Some(DefinitionProblem {
        path: problem.path.clone(),
        ..DefinitionProblem::new(&Pointer::root(), ProblemCode::Unfilled, message)
    })
}

/// Whether another value at the same location could fix the problem.
fn is_about_the_value(problem: &DefinitionProblem) -> bool {
    match problem.code {
        ProblemCode::WrongType
        | ProblemCode::NotOneOf
        | ProblemCode::UnknownTarget
        | ProblemCode::Path
        | ProblemCode::Expression
        | ProblemCode::Template
        | ProblemCode::Timestamp
        | ProblemCode::Label => true,
        ProblemCode::Condition => {
            let field = problem.path.rsplit('/').next();
            field.is_some_and(ChoiceCondition::has_field)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_name_in_braces() {
        assert_eq!(find_token("arn:${AWS::Region}:x"), Some("${AWS::Region}"));
        assert_eq!(find_token("${Copy.Arn}"), Some("${Copy.Arn}"));
        assert_eq!(find_token("${Token[TOKEN.12]}"), Some("${Token[TOKEN.12]}"));
        assert_eq!(find_token("$$ ${ a } ${b}"), Some("${b}"));
        for text in ["", "$", "${", "${}", "${a", "{% a${b: c} %}", "${\"a\":1}"] {
            assert_eq!(find_token(text), None, "{text}");
        }
    }
}
