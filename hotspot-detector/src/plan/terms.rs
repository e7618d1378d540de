//! The terms of a plan: how much may be moved, how fast, when, at what price,
//! and what somebody has to approve first.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::TenantId;
use ballast_domain::maintenance::MaintenanceWindow;

/// The terms of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// A slice that was placed or moved less than this ago is left alone,
    /// unless it must leave.
    pub settle_seconds: i64,
    /// Also move what another shard outscores the holder for: after a shard was
    /// added or a weight changed. Otherwise a slice moves only for a limit.
    pub follow_weights: bool,
    /// The most moves of one plan; the rest waits for the next.
    pub moves_max: usize,
    /// The most bytes of one plan.
    pub bytes_max: u64,
    /// How fast.
    pub pace: Pace,
    /// What it costs.
    pub prices: Prices,
    /// When moves may begin; at any time when there is none.
    pub windows: Vec<MaintenanceWindow>,
    /// What needs somebody's word.
    pub approval: Approval,
    /// When a tenant must be left alone: around the opening and closing of its
    /// polls.
    pub freezes: BTreeMap<TenantId, Vec<Span>>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            settle_seconds: 6 * 3_600,
            follow_weights: false,
            moves_max: 100_000,
            bytes_max: u64::MAX,
            pace: Pace::default(),
            prices: Prices::default(),
            windows: Vec::new(),
            approval: Approval::default(),
            freezes: BTreeMap::new(),
        }
    }
}

/// How fast moves go, and how many at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Pace {
    /// Moves that copy at a time, in all.
    pub at_a_time: u32,
    /// Of these, out of one shard.
    pub out_at_a_time: u32,
    /// Of these, into one shard.
    pub in_at_a_time: u32,
    /// Bytes that one move copies in a second.
    pub bytes_per_second: u64,
    /// Seconds that a move takes however small it is.
    pub seconds_per_move: u64,
    /// Seconds that both sides are kept after the cutover. The source's room
    /// is free only then.
    pub window_seconds: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            at_a_time: 8,
            out_at_a_time: 2,
            in_at_a_time: 2,
            bytes_per_second: 50_000_000,
            seconds_per_move: 5,
            window_seconds: 2 * 3_600,
        }
    }
}

/// What a move costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Prices {
    /// Money per GiB copied.
    pub per_gib: f64,
    /// Money per GiB copied into another region, on top.
    pub per_gib_across_regions: f64,
    /// Money per move.
    pub per_move: f64,
    /// What a move weighs beside its bytes when the cheapest is looked for:
    /// without it a thousand tiny tenants would be preferred to one.
    pub bytes_per_move: u64,
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            per_gib: 0.0,
            per_gib_across_regions: 0.0,
            per_move: 0.0,
            bytes_per_move: 1 << 20,
        }
    }
}

/// What needs somebody's word before it begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Approval {
    /// Every move.
    pub every_move: bool,
    /// A move of more bytes than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_over: Option<u64>,
    /// A move into another region.
    pub across_regions: bool,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Span {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end, which is not part of it.
    pub until: Timestamp,
}

impl Span {
    /// Whether a moment is in it.
    #[must_use]
    pub fn has(&self, moment: Timestamp) -> bool {
        self.from <= moment && moment < self.until
    }

    /// Whether it shares a moment with another.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.from < other.until && other.from < self.until
    }
}

impl Terms {
    /// Until when a tenant must be left alone, if it must be now.
    pub(super) fn frozen(&self, tenant: &TenantId, at: Timestamp) -> Option<Timestamp> {
        let spans = self.freezes.get(tenant)?;
        spans
            .iter()
            .filter(|span| span.has(at))
            .map(|span| span.until)
            .max()
    }
}
