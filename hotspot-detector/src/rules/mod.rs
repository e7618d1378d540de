//! Hotspot rules: configured conditions.
//!
//! A rule has a subject (a shard, a tenant's slice on a shard, or an item's counter), a
//! condition in a subset of CEL, how long it must hold, and when it ends. [`read()`] parses
//! rules and reports all problems at once; [`mod@test`] runs them on recorded load.

pub(crate) use duration::format_duration;

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
pub use expr::{RuleCondition, Truth};
pub(crate) use problem::did_you_mean;
pub use problem::{RuleProblem, RuleProblems};
pub use read::read;

use crate::load::{Spans, Window};

/// The kind of subject of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectKind {
    /// Each shard.
    Shard,
    /// Each slice of a tenant on its shard.
    Tenant,
    /// Each of the items with the most votes.
    Item,
}

/// The severity of a hotspot.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum HotspotSeverity {
    /// Worth knowing.
    Info,
    /// Needs a cure.
    #[default]
    Warning,
    /// Users are affected.
    Critical,
}

impl HotspotSeverity {
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

/// A hotspot rule.
#[derive(Debug, Clone, PartialEq)]
pub struct HotspotRule {
    /// Its name.
    pub name: Arc<str>,
    /// A summary for people.
    pub summary: String,
    /// The kind of subject.
    pub subject: SubjectKind,
    /// Holds where the subject is hot.
    pub when: RuleCondition,
    /// How long it must hold, in milliseconds.
    pub for_ms: u64,
    /// Holds where the hotspot has eased; if unset, where `when` does not hold.
    pub clear: Option<RuleCondition>,
    /// How long it must have eased, in milliseconds.
    pub clear_for_ms: u64,
    /// The cooldown after that, in milliseconds.
    pub cooldown_ms: u64,
    /// The severity of a hotspot.
    pub severity: HotspotSeverity,
}

impl HotspotRule {
    /// Whether it has eased, given both conditions.
    #[must_use]
    pub fn is_over(&self, when: Truth, clear: Option<Truth>) -> Truth {
        match clear {
            None => when.not(),
            // It cannot be hot and eased at the same time.
            Some(clear) => clear.and(when.not()),
        }
    }
}

/// All rules and their windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruleset {
    /// The windows.
    pub spans: Spans,
    /// The rules, in the order of the file.
    pub rules: Vec<HotspotRule>,
}

impl Ruleset {
    /// A rule by its name.
    #[must_use]
    pub fn rule(&self, name: &str) -> Option<&HotspotRule> {
        self.rules.iter().find(|rule| &*rule.name == name)
    }
}

/// A window's name.
#[must_use]
pub fn window_name(window: Window) -> &'static str {
    match window {
        Window::Short => "short",
        Window::Long => "long",
    }
}
