//! A finding: what is hot, by which rule, on what evidence, since when.

use std::sync::Arc;

use ballast_domain::Timestamp;
use serde::Serialize;

use super::subject::Subject;
use crate::rules::Severity;
use crate::rules::vars::Var;

/// A hotspot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hotspot {
    /// The rule that found it.
    #[serde(serialize_with = "name")]
    pub rule: Arc<str>,
    /// What is hot.
    pub subject: Subject,
    /// How bad it is.
    pub severity: Severity,
    /// Since when the condition has held.
    pub since: Timestamp,
    /// When it became a hotspot.
    pub fired: Timestamp,
    /// Whether it looks over.
    pub is_easing: bool,
    /// The numbers when it became one.
    pub evidence: Vec<Reading>,
    /// The numbers now.
    pub now: Vec<Reading>,
}

fn name<S: serde::Serializer>(rule: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(rule)
}

/// A number that a condition looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    /// Its name in the condition.
    pub name: String,
    /// Its value; durations in milliseconds; nothing where it was not measured.
    pub value: Option<f64>,
    /// The value for people.
    pub shown: String,
    /// The window it is over, in milliseconds.
    pub window_ms: u64,
}

impl Reading {
    pub(super) fn new(var: Var, value: Option<f64>, window_ms: u64) -> Self {
        Self {
            name: var.name(),
            value,
            shown: match value {
                Some(value) => var.unit().shown(value),
                None => "not measured".to_owned(),
            },
            window_ms,
        }
    }
}
