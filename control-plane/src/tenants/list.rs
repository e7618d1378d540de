//! Listing tenants: filters and pages.

use ballast_domain::registry::{RecordKind, RecordQuery, slices_tally};
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::{RegionId, Result, ShardId};

use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// Which tenants to list.
#[derive(Debug, Clone, Default)]
pub struct TenantFilter {
    /// Only those whose ID has this prefix.
    pub prefix: String,
    /// Only those with this status.
    pub status: Option<TenantStatus>,
    /// Only those with this home region.
    pub region: Option<RegionId>,
    /// Only those with a slice on this shard.
    pub shard: Option<ShardId>,
}

/// A page of tenants, ordered by ID.
pub async fn list(
    plane: &ControlPlane,
    filter: &TenantFilter,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<Versioned<Tenant>>> {
    let terms = [
        filter
            .shard
            .as_ref()
            .map(|shard| slices_tally(shard.as_str())),
        filter
            .status
            .map(|status| format!("status:{}", status.name())),
        filter
            .region
            .as_ref()
            .map(|region| format!("region:{region}")),
    ];
    let query = RecordQuery {
        terms: terms.into_iter().flatten().collect(),
        id_prefix: filter.prefix.clone(),
        after,
        ..RecordQuery::all(RecordKind::Tenant, limit)
    };
    Ok(typed::list(plane.registry(), &query).await?)
}
