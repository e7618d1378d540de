//! A diagnosis: what is hot, why, what to do, and what to expect of it.

use ballast_domain::{ShardId, Timestamp};
use serde::{Deserialize, Serialize};

use super::cure::{Cause, Cure};
use crate::detect::Hotspot;
use crate::resources::Dimension;

/// A diagnosis with its cure.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// When it was made.
    pub at: Timestamp,
    /// The shards that are hot.
    pub shards: Vec<ShardId>,
    /// The hotspots that it explains.
    pub hotspots: Vec<Hotspot>,
    /// What is really hot.
    pub cause: Cause,
    /// What shows it, a sentence each.
    pub evidence: Vec<String>,
    /// What to do.
    pub cure: Cure,
    /// What the cure should change.
    pub expected: Vec<Effect>,
    /// What to do if it does not help.
    pub otherwise: String,
    /// Cures that were thought of and left, and why.
    pub rejected: Vec<Rejected>,
    /// Why the cure is not to be begun now; without one it may be.
    pub why_not: Option<WhyNot>,
}

impl Finding {
    /// Whether something is to be done now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.cure.acts() && self.why_not.is_none()
    }
}

/// How full something is before and after: the shard. Of a cure by lanes it is
/// the busiest lane, as a share of what one takes; of new shards the first is
/// all shards of the region together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// Which, or on which.
    pub shard: ShardId,
    /// In which dimension; without one it is the time that writes wait.
    pub dimension: Option<Dimension>,
    /// As a share of its capacity, now.
    pub before: f64,
    /// And then.
    pub after: f64,
}

/// A cure that was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejected {
    /// Which.
    pub cure: &'static str,
    /// Why.
    pub because: String,
}

/// Why nothing is begun now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyNot {
    /// In words.
    pub because: String,
    /// When to look again, where that is known.
    pub until: Option<Timestamp>,
}
