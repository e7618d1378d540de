//! The hard rules: vetoes against a shard, whatever its score.

use serde::{Deserialize, Serialize};

use super::fleet::{PlacementShard, PlacementSubject};
use crate::residency::RegionFit;
use crate::shard::ShardState;

/// Why a shard may not hold a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Veto {
    /// The rule.
    pub code: VetoCode,
    /// Why the rule applies, in words.
    pub message: String,
}

/// A rule that forbids a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum VetoCode {
    /// The residency policy does not allow the region.
    Region,
    /// The shard has none of the required zones.
    Zone,
    /// The shard is draining or down.
    State,
    /// The shard is at its density limit.
    Density,
}

/// Whether any rule forbids the shard: the same rules as [`vetoes`], without the texts.
pub(super) fn is_vetoed(
    shard: &PlacementShard,
    subject: &PlacementSubject,
    region_fit: RegionFit,
) -> bool {
    is_vetoed_even_if_empty(shard, subject, region_fit) || is_full(shard, subject)
}

/// Whether a rule other than the density limit forbids the shard.
pub(super) fn is_vetoed_even_if_empty(
    shard: &PlacementShard,
    subject: &PlacementSubject,
    region_fit: RegionFit,
) -> bool {
    region_fit == RegionFit::Forbidden
        || shard.state != ShardState::Active
        || lacks_zone(shard, subject)
}

/// How well a shard's region fits a slice; `None` if a rule other than the density limit
/// forbids the shard. For planners of many slices, which count the free room themselves.
pub fn region_fit_unless_vetoed(
    shard: &PlacementShard,
    subject: &PlacementSubject,
) -> Option<RegionFit> {
    let fit = region_fit(shard, subject);
    (!is_vetoed_even_if_empty(shard, subject, fit)).then_some(fit)
}

/// Every rule that forbids the shard, with a text.
pub fn vetoes(shard: &PlacementShard, subject: &PlacementSubject) -> Vec<Veto> {
    let mut found = Vec::new();
    let mut add = |code, message| found.push(Veto { code, message });
    if region_fit(shard, subject) == RegionFit::Forbidden {
        let policy = subject.residency.name();
        let home = &subject.home_region;
        add(
            VetoCode::Region,
            format!(
                "is in {}; {policy} residency with home {home} forbids it",
                shard.region
            ),
        );
    }
    if lacks_zone(shard, subject) {
        add(
            VetoCode::Zone,
            format!(
                "has none of the required zones {}",
                list_zones(&subject.zones)
            ),
        );
    }
    if shard.state != ShardState::Active {
        add(VetoCode::State, format!("is {}", shard.state.name()));
    }
    if is_full(shard, subject) {
        add(
            VetoCode::Density,
            format!("is full: {} of {} slices", shard.slices, shard.max_slices),
        );
    }
    found
}

pub(super) fn region_fit(shard: &PlacementShard, subject: &PlacementSubject) -> RegionFit {
    subject
        .residency
        .region_fit(&subject.home_region, &shard.region)
}

fn lacks_zone(shard: &PlacementShard, subject: &PlacementSubject) -> bool {
    !subject.zones.is_empty() && !subject.zones.iter().any(|zone| shard.zones.contains(zone))
}

/// A full shard takes no more slices, but keeps those that it has.
fn is_full(shard: &PlacementShard, subject: &PlacementSubject) -> bool {
    shard.slices >= shard.max_slices && subject.current.as_ref() != Some(&shard.id)
}

fn list_zones(zones: &[crate::ZoneId]) -> String {
    let names: Vec<&str> = zones.iter().map(|zone| zone.as_str()).collect();
    names.join(", ")
}
