//! The terms of a plan: size limits, pace, maintenance windows, prices, and what needs
//! approval.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::TenantId;
use ballast_domain::maintenance::MaintenanceWindow;

/// The terms of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTerms {
    /// A slice that was placed or moved less than this ago is not moved, unless it must
    /// leave.
    pub settle_seconds: i64,
    /// Also move slices for which another shard outscores the current one, after a shard was
    /// added or a weight changed. Otherwise slices move only because of limits.
    pub follow_weights: bool,
    /// The most migrations in one plan; the next plan has the rest.
    pub moves_max: usize,
    /// The most bytes of one plan.
    pub bytes_max: u64,
    /// Concurrency and speed.
    pub pace: MigrationPace,
    /// Costs.
    pub prices: Prices,
    /// When migrations may begin; at any time if empty.
    pub windows: Vec<MaintenanceWindow>,
    /// What needs approval.
    pub approval: Approval,
    /// When a tenant must not be moved: around the opening and closing of its polls.
    pub freezes: BTreeMap<TenantId, Vec<TimeSpan>>,
}

impl Default for PlanTerms {
    fn default() -> Self {
        Self {
            settle_seconds: 6 * 3_600,
            follow_weights: false,
            moves_max: 100_000,
            bytes_max: u64::MAX,
            pace: MigrationPace::default(),
            prices: Prices::default(),
            windows: Vec::new(),
            approval: Approval::default(),
            freezes: BTreeMap::new(),
        }
    }
}

/// Concurrency and speed of migrations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MigrationPace {
    /// Concurrent copies in total.
    pub at_a_time: u32,
    /// Of these, out of one shard.
    pub out_at_a_time: u32,
    /// Of these, into one shard.
    pub in_at_a_time: u32,
    /// Bytes that one migration copies per second.
    pub bytes_per_second: u64,
    /// Seconds that the smallest migration takes.
    pub seconds_per_move: u64,
    /// Length of the migration window in seconds. The source's room is freed only when it
    /// ends.
    pub window_seconds: u64,
}

impl Default for MigrationPace {
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

/// What a migration costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Prices {
    /// Money per GiB copied.
    pub per_gib: f64,
    /// Money per GiB copied into another region, on top.
    pub per_gib_across_regions: f64,
    /// Money per migration.
    pub per_move: f64,
    /// A fixed cost per migration in addition to its bytes, for choosing the cheapest set:
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

/// Which migrations need approval before they begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Approval {
    /// Every migration.
    pub every_move: bool,
    /// Migrations of more bytes than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_over: Option<u64>,
    /// Migrations into another region.
    pub across_regions: bool,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeSpan {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end, which is not part of it.
    pub until: Timestamp,
}

impl TimeSpan {
    /// Whether a moment is in it.
    #[must_use]
    pub fn contains(&self, moment: Timestamp) -> bool {
        self.from <= moment && moment < self.until
    }

    /// Whether it shares a moment with another.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.from < other.until && other.from < self.until
    }
}

impl PlanTerms {
    /// Until when a tenant is frozen, if it is now.
    pub(super) fn frozen(&self, tenant: &TenantId, at: Timestamp) -> Option<Timestamp> {
        let spans = self.freezes.get(tenant)?;
        spans
            .iter()
            .filter(|span| span.contains(at))
            .map(|span| span.until)
            .max()
    }
}
