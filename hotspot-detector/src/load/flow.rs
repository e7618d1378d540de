//! Counts of calls and bytes in an interval.

use serde::{Deserialize, Serialize};

use super::ring::Merge;

/// Counts of an interval. Their sum is the counts of a longer interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Flow {
    /// Votes that were counted.
    pub votes: f64,
    /// Queries that were answered.
    pub queries: f64,
    /// Bytes in and out.
    pub bytes: f64,
    /// Calls that failed or were rejected, without throttled ones.
    pub errors: f64,
    /// Throttled calls.
    pub throttles: f64,
}

impl Flow {
    /// All calls, successful or not.
    #[must_use]
    pub fn calls(&self) -> f64 {
        self.votes + self.queries + self.errors + self.throttles
    }

    /// Whether there was no call and no traffic.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.calls() + self.bytes <= 0.0
    }

    /// These counts multiplied by a factor.
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
