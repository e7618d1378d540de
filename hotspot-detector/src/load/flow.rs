//! What passed through in some time: calls and bytes, to be added up.

use serde::{Deserialize, Serialize};

use super::ring::Merge;

/// Counts of an interval. Added up they are the counts of a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Flow {
    /// Votes that were counted.
    pub votes: f64,
    /// Queries that were answered.
    pub queries: f64,
    /// Bytes in and out.
    pub bytes: f64,
    /// Calls that failed or were refused, throttled ones left out.
    pub errors: f64,
    /// Calls turned away because they were too many.
    pub throttles: f64,
}

impl Flow {
    /// Calls of every kind, whatever became of them.
    #[must_use]
    pub fn calls(&self) -> f64 {
        self.votes + self.queries + self.errors + self.throttles
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.calls() + self.bytes <= 0.0
    }

    /// This many times as much.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            votes: self.votes * factor,
            queries: self.queries * factor,
            bytes: self.bytes * factor,
            errors: self.errors * factor,
            throttles: self.throttles * factor,
        }
    }
}

impl Merge for Flow {
    fn merge(&mut self, other: &Self) {
        self.votes += other.votes;
        self.queries += other.queries;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.throttles += other.throttles;
    }
}
