//! Settings of migrations.

use ballast_domain::maintenance::MaintenanceWindow;
use ballast_migration_engine::budget::ServiceBudget;

/// Settings of migrations.
#[derive(Debug, Clone, PartialEq)]
pub struct MigrationSettings {
    /// How long both copies are kept after a cutover, by default.
    pub window_ms: u64,
    /// Maximum write pause at a cutover, by default.
    pub max_pause_ms: Option<u64>,
    /// How long a slice may be sealed before it takes votes again, whatever happens
    /// to the migration.
    pub seal_max_ms: u64,
    /// Migrations that may copy from or to a shard concurrently.
    pub per_shard_max: u64,
    /// Migrations that may copy from or to a region concurrently.
    pub per_region_max: u64,
    /// Migrations of the whole fleet that may copy or be in their window concurrently.
    /// A window holds no place among those that copy.
    pub windows_max: u64,
    /// Bandwidth limit of one migration, in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// Closed polls with fewer rows are copied row by row instead of archived.
    pub archive_rows_min: u64,
    /// Slices with more rows than this need an approval before they move.
    pub approval_above_rows: Option<u64>,
    /// When migrations may start to copy; at any time when empty.
    pub maintenance: Vec<MaintenanceWindow>,
    /// Error budget of a tenant's calls in the window; exceeding it brings the slice
    /// back.
    pub budget: ServiceBudget,
}

impl Default for MigrationSettings {
    fn default() -> Self {
        Self {
            window_ms: 2 * 60 * 60 * 1_000,
            max_pause_ms: None,
            seal_max_ms: 2_000,
            per_shard_max: 4,
            per_region_max: 16,
            windows_max: 1_000,
            bytes_per_second: None,
            archive_rows_min: 1,
            approval_above_rows: None,
            maintenance: Vec::new(),
            budget: ServiceBudget {
                failed_share: Some(0.05),
                p99_ms: Some(1_000),
                away_ms: Some(30_000),
            },
        }
    }
}
