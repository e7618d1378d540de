//! Problems in rules.

use std::fmt;

/// A problem in the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// Where: `rule "slo", when, column 17`.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// A suggestion, if there is one.
    pub help: Option<String>,
}

impl RuleProblem {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
            help: None,
        }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Prefixes the problem's place.
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.place = match self.place.as_str() {
            "" => place.to_owned(),
            inner => format!("{place}, {inner}"),
        };
        self
    }
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

/// All problems.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct RuleProblems(pub Vec<RuleProblem>);

fn lines(problems: &[RuleProblem]) -> String {
    let lines: Vec<_> = problems.iter().map(RuleProblem::to_string).collect();
    lines.join("\n")
}

/// `did you mean …?`, if one of the names is similar.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let near = names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("did you mean {}?", near.1))
}
