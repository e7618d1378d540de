//! Where a tenant's data may be, and what happens when its home is away.

use serde::{Deserialize, Serialize};

use crate::id::RegionId;

/// A tenant's residency policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "policy", rename_all = "camelCase", deny_unknown_fields)]
pub enum Residency {
    /// Data stays in the home region; when it is down, so is the tenant.
    #[default]
    Strict,
    /// Data may also be in the approved secondary regions.
    #[serde(rename_all = "camelCase")]
    Permitted {
        /// The approved regions, home not among them.
        secondary_regions: Vec<RegionId>,
    },
    /// Data stays in the home region; operations wait there while it is down.
    Deferred,
}

/// How a region stands to a tenant. Lower is better, so that ranking by it
/// puts the home region first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The tenant's home region.
    Home,
    /// An approved secondary region: used only while no home shard can be.
    Secondary,
    /// Data must not be there.
    Forbidden,
}

impl Residency {
    /// How `region` stands to a tenant with this policy and this home.
    pub fn standing(&self, home: &RegionId, region: &RegionId) -> Standing {
        match self {
            _ if region == home => Standing::Home,
            Self::Permitted { secondary_regions } if secondary_regions.contains(region) => {
                Standing::Secondary
            }
            _ => Standing::Forbidden,
        }
    }

    /// The policy's name, as in its JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Permitted { .. } => "permitted",
            Self::Deferred => "deferred",
        }
    }

    /// The approved secondary regions.
    pub fn secondary_regions(&self) -> &[RegionId] {
        match self {
            Self::Permitted { secondary_regions } => secondary_regions,
            Self::Strict | Self::Deferred => &[],
        }
    }
}
