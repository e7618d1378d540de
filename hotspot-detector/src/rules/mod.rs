//! Rules as configuration: when something is a hotspot.
//!
//! A rule has a subject (a shard, a tenant's slice on a shard, an item's
//! counter), a condition in a subset of CEL, how long it must hold, and when it
//! has passed. [`read()`] reads them and names every problem at once;
//! [`mod@test`] says what they would have found in recorded load.

pub(crate) use duration::shown;

mod defaults;
mod duration;
pub mod expr;
mod problem;
pub mod read;
pub mod test;
pub mod vars;
mod write;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use defaults::{DEFAULTS, defaults};
pub use expr::{Condition, Truth};
pub(crate) use problem::did_you_mean;
pub use problem::{Problem, Problems};
pub use read::read;

use crate::load::{Spans, Window};

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectKind {
    /// Each shard.
    Shard,
    /// Each slice of a tenant on its shard.
    Tenant,
    /// Each of the items that are voted on most.
    Item,
}

/// How bad it is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Worth a cure.
    #[default]
    Warning,
    /// Users notice.
    Critical,
}

impl Severity {
    /// Its name, as in its JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// When something is a hotspot.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name.
    pub name: Arc<str>,
    /// What it means, for people.
    pub summary: String,
    /// What it is about.
    pub subject: SubjectKind,
    /// Holds where it is hot.
    pub when: Condition,
    /// How long it must hold, in milliseconds.
    pub for_ms: u64,
    /// Holds where it is hot no more; without one, when `when` does not hold.
    pub clear: Option<Condition>,
    /// How long it must be over, in milliseconds.
    pub clear_for_ms: u64,
    /// How long after that it is not raised again, in milliseconds.
    pub cooldown_ms: u64,
    /// How bad it is.
    pub severity: Severity,
}

impl Rule {
    /// Whether it is over, given what both conditions say.
    #[must_use]
    pub fn is_over(&self, when: Truth, clear: Option<Truth>) -> Truth {
        match clear {
            None => when.not(),
            // It cannot be hot and over at once.
            Some(clear) => clear.and(when.not()),
        }
    }
}

/// All rules, and the windows that they look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruleset {
    /// The windows.
    pub spans: Spans,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
}

impl Ruleset {
    /// A rule by its name.
    #[must_use]
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| &*rule.name == name)
    }
}

/// A window in words.
#[must_use]
pub fn window_name(window: Window) -> &'static str {
    match window {
        Window::Short => "short",
        Window::Long => "long",
    }
}
