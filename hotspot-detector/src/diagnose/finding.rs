//! A finding: the diagnosis of hotspots with a cure and its expected effect.

use ballast_domain::{ShardId, Timestamp};
use serde::{Deserialize, Serialize};

use super::cure::{Cure, HotspotCause};
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
    /// The cause.
    pub cause: HotspotCause,
    /// The evidence, one sentence each.
    pub evidence: Vec<String>,
    /// The cure.
    pub cure: Cure,
    /// The expected effects of the cure.
    pub expected: Vec<ExpectedEffect>,
    /// What to do if it does not help.
    pub otherwise: String,
    /// Rejected cures, and why.
    pub rejected: Vec<Rejected>,
    /// Why the cure is deferred; `None` if it is due.
    pub why_not: Option<CureDeferral>,
}

impl Finding {
    /// Whether the cure is due now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.cure.acts() && self.why_not.is_none()
    }
}

/// The fill before and after a cure: of the shard, of the busiest lane for lane changes, or
/// (first effect) of the whole region for new shards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedEffect {
    /// The shard.
    pub shard: ShardId,
    /// The dimension; `None` for I/O wait.
    pub dimension: Option<Dimension>,
    /// The share of the capacity now.
    pub before: f64,
    /// The expected share afterwards.
    pub after: f64,
}

/// A rejected cure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejected {
    /// Which.
    pub cure: &'static str,
    /// Why.
    pub because: String,
}

/// Why a cure is deferred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CureDeferral {
    /// The reason as text.
    pub because: String,
    /// When to check again, if known.
    pub until: Option<Timestamp>,
}
