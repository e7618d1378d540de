//! Residency: in which regions a tenant's data may be, and what happens while its home
//! region is unavailable.

use serde::{Deserialize, Serialize};

use crate::id::RegionId;

/// A tenant's residency policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ResidencyJson", into = "ResidencyJson")]
pub enum Residency {
    /// Data stays in the home region. While that is down, the tenant is down.
    #[default]
    Strict,
    /// Data may also be in approved secondary regions.
    Permitted {
        /// The approved regions, without the home region; never empty.
        secondary_regions: Vec<RegionId>,
    },
    /// Data stays in the home region. While that is down, operations wait.
    Deferred,
}

/// In which regions a tenant's data may be, and what happens while its home is down.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Wire)]
struct ResidencyJson {
    /// `strict`: home only, and down when it is. `permitted`: also the
    /// secondary regions. `deferred`: home only, operations wait.
    policy: ResidencyPolicy,
    /// The approved regions besides home; with `permitted` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    secondary_regions: Vec<RegionId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Policy)]
enum ResidencyPolicy {
    Strict,
    Permitted,
    Deferred,
}

impl TryFrom<ResidencyJson> for Residency {
    type Error = &'static str;
    fn try_from(wire: ResidencyJson) -> Result<Self, &'static str> {
        let secondary_regions = wire.secondary_regions;
        match (wire.policy, secondary_regions.is_empty()) {
            (ResidencyPolicy::Strict, true) => Ok(Self::Strict),
            (ResidencyPolicy::Deferred, true) => Ok(Self::Deferred),
            (ResidencyPolicy::Permitted, false) => Ok(Self::Permitted { secondary_regions }),
            (ResidencyPolicy::Permitted, true) => {
                Err("permitted needs at least one of secondaryRegions")
            }
            (_, false) => Err("secondaryRegions goes with policy permitted only"),
        }
    }
}

impl From<Residency> for ResidencyJson {
    fn from(residency: Residency) -> Self {
        let (policy, secondary_regions) = match residency {
            Residency::Strict => (ResidencyPolicy::Strict, Vec::new()),
            Residency::Deferred => (ResidencyPolicy::Deferred, Vec::new()),
            Residency::Permitted { secondary_regions } => {
                (ResidencyPolicy::Permitted, secondary_regions)
            }
        };
        Self {
            policy,
            secondary_regions,
        }
    }
}

impl utoipa::PartialSchema for Residency {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        ResidencyJson::schema()
    }
}

impl utoipa::ToSchema for Residency {
    fn name() -> std::borrow::Cow<'static, str> {
        "Residency".into()
    }
    fn schemas(
        schemas: &mut Vec<(
            String,
            utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>,
        )>,
    ) {
        ResidencyJson::schemas(schemas);
    }
}

/// How well a region fits a tenant. Lower is better: the home region comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionFit {
    /// The tenant's home region.
    Home,
    /// An approved secondary region: used only while no shard of the home region can be.
    Secondary,
    /// Data must not be there.
    Forbidden,
}

impl Residency {
    /// How well `region` fits a tenant with this policy and home region.
    pub fn region_fit(&self, home: &RegionId, region: &RegionId) -> RegionFit {
        match self {
            _ if region == home => RegionFit::Home,
            Self::Permitted { secondary_regions } if secondary_regions.contains(region) => {
                RegionFit::Secondary
            }
            _ => RegionFit::Forbidden,
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
