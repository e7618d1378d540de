//! What an operator may set about moves.

use ballast_domain::maintenance::MaintenanceWindow;
use ballast_migration_engine::budget::Budget;

/// What an operator may set about moves.
#[derive(Debug, Clone, PartialEq)]
pub struct MoveSettings {
    /// How long both sides are kept after a cutover, unless said.
    pub window_ms: u64,
    /// How long nobody may be able to vote at a cutover, unless said.
    pub max_pause_ms: Option<u64>,
    /// How long a slice may be sealed before it takes votes again, whatever
    /// becomes of the move.
    pub seal_max_ms: u64,
    /// Moves that may copy from or to a shard at the same time.
    pub per_shard_max: u64,
    /// Moves that may copy from or to a region at the same time.
    pub per_region_max: u64,
    /// Bytes per second that one move may carry.
    pub bytes_per_second: Option<u64>,
    /// Closed polls with fewer rows are not archived, but copied row by row.
    pub archive_rows_min: u64,
    /// A slice with more rows than this is moved only once somebody approved.
    pub approval_above_rows: Option<u64>,
    /// When moves may begin to copy; at any time when there is none.
    pub maintenance: Vec<MaintenanceWindow>,
    /// What a tenant's calls may suffer in the window before the slice is
    /// brought back.
    pub budget: Budget,
}

impl Default for MoveSettings {
    fn default() -> Self {
        Self {
            window_ms: 2 * 60 * 60 * 1_000,
            max_pause_ms: None,
            seal_max_ms: 2_000,
            per_shard_max: 4,
            per_region_max: 16,
            bytes_per_second: None,
            archive_rows_min: 1,
            approval_above_rows: None,
            maintenance: Vec::new(),
            budget: Budget {
                failed_share: Some(0.05),
                p99_ms: Some(1_000),
                away_ms: Some(30_000),
            },
        }
    }
}
