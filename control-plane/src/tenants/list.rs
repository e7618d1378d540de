//! Listing tenants: filters, pages.

use ballast_domain::registry::{Kind, RecordQuery, slices_on};
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::{RegionId, Result, ShardId};

use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// Which tenants.
#[derive(Debug, Clone, Default)]
pub struct TenantFilter {
    /// Only those whose ID begins so.
    pub prefix: String,
    /// Only those of this status.
    pub status: Option<TenantStatus>,
    /// Only those whose home is this region.
    pub region: Option<RegionId>,
    /// Only those with a slice on this shard.
    pub shard: Option<ShardId>,
}

/// A page of tenants, in the order of their IDs.
pub async fn list(
    plane: &ControlPlane,
    filter: &TenantFilter,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<Versioned<Tenant>>> {
    let terms = [
        filter.shard.as_ref().map(|shard| slices_on(shard.as_str())),
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
        ..RecordQuery::all(Kind::Tenant, limit)
    };
    Ok(typed::list(plane.registry(), &query).await?)
}
