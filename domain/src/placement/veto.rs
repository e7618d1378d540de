//! The hard rules: why a shard may not hold a slice, however high its score.

use serde::{Deserialize, Serialize};

use super::fleet::{PlacementShard, PlacementSubject};
use crate::residency::RegionFit;
use crate::shard::ShardState;

/// Why a shard may not hold a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Veto {
    /// Which rule.
    pub code: VetoCode,
    /// The rule applied to this case, in words.
    pub message: String,
}

/// Which rule forbids it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum VetoCode {
    /// The residency policy does not allow the region.
    Region,
    /// The shard carries none of the required zones.
    Zone,
    /// The shard is draining or down.
    State,
    /// The shard is at its density limit.
    Density,
}

/// Whether any rule forbids it: the same rules as [`vetoes`], without words.
pub(super) fn is_vetoed(
    shard: &PlacementShard,
    subject: &PlacementSubject,
    standing: RegionFit,
) -> bool {
    is_vetoed_even_if_empty(shard, subject, standing) || is_full(shard, subject)
}

/// Whether a rule other than the density limit forbids it.
pub(super) fn is_vetoed_even_if_empty(
    shard: &PlacementShard,
    subject: &PlacementSubject,
    standing: RegionFit,
) -> bool {
    standing == RegionFit::Forbidden
        || shard.state != ShardState::Active
        || lacks_zone(shard, subject)
}

/// How a shard's region stands to a slice, if the shard may hold it once it has
/// room; `None` when a rule other than the density limit forbids it. Whoever
/// plans for many slices at once asks this, and keeps count of the room itself.
pub fn region_fit_unless_vetoed(
    shard: &PlacementShard,
    subject: &PlacementSubject,
) -> Option<RegionFit> {
    let standing = region_fit(shard, subject);
    (!is_vetoed_even_if_empty(shard, subject, standing)).then_some(standing)
}

/// Every rule that forbids it, in words.
pub fn vetoes(shard: &PlacementShard, subject: &PlacementSubject) -> Vec<Veto> {
    let mut found = Vec::new();
    let mut add = |code, message| found.push(Veto { code, message });
    if region_fit(shard, subject) == RegionFit::Forbidden {
        let policy = subject.residency.name();
        let home = &subject.home_region;
        add(
            VetoCode::Region,
            format!(
                "stands in {}; {policy} residency with home {home} forbids it",
                shard.region
            ),
        );
    }
    if lacks_zone(shard, subject) {
        add(
            VetoCode::Zone,
            format!(
                "carries none of the required zones {}",
                listed(&subject.zones)
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

/// A full shard takes no further slice; it does not push out those it has.
fn is_full(shard: &PlacementShard, subject: &PlacementSubject) -> bool {
    shard.slices >= shard.max_slices && subject.current.as_ref() != Some(&shard.id)
}

fn listed(zones: &[crate::ZoneId]) -> String {
    let names: Vec<&str> = zones.iter().map(|zone| zone.as_str()).collect();
    names.join(", ")
}
