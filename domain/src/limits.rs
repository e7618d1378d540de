//! The limits of a tenant.

use serde::{Deserialize, Serialize};

/// A tenant's limits. An absent limit means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = Limits)]
pub struct TenantLimits {
    /// Votes accepted per second.
    #[schema(minimum = 1, maximum = 100_000_000)]
    pub votes_per_second: Option<u64>,
    /// Concurrent queries.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrent_queries: Option<u64>,
    /// Days for which closed polls are kept.
    #[schema(minimum = 1, maximum = 36_500)]
    pub retention_days: Option<u64>,
}
