//! A hotspot: the subject, the rule, the evidence and the time.

use std::sync::Arc;

use ballast_domain::Timestamp;
use serde::Serialize;

use super::subject::HotspotSubject;
use crate::rules::HotspotSeverity;
use crate::rules::vars::Variable;

/// A hotspot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hotspot {
    /// The rule that fired.
    #[serde(serialize_with = "name")]
    pub rule: Arc<str>,
    /// The hot subject.
    pub subject: HotspotSubject,
    /// Its severity.
    pub severity: HotspotSeverity,
    /// When the condition began to hold.
    pub since: Timestamp,
    /// When it became a hotspot.
    pub fired: Timestamp,
    /// Whether it is easing.
    pub is_easing: bool,
    /// The readings when it fired.
    pub evidence: Vec<Reading>,
    /// The current readings.
    pub now: Vec<Reading>,
}

fn name<S: serde::Serializer>(rule: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(rule)
}

/// The value of a condition's variable.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    /// Its name in the condition.
    pub name: String,
    /// Its value; durations in milliseconds; `None` if not measured.
    pub value: Option<f64>,
    /// The formatted value.
    pub shown: String,
    /// The length of its window, in milliseconds.
    pub window_ms: u64,
}

impl Reading {
    pub(super) fn new(var: Variable, value: Option<f64>, window_ms: u64) -> Self {
        Self {
            name: var.name(),
            value,
            shown: match value {
                Some(value) => var.unit().format(value),
                None => "not measured".to_owned(),
            },
            window_ms,
        }
    }
}
