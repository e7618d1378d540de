//! Load that a rule calls hot although it is within the diagnosis limits. The report says
//! how much more would be too much.

use super::facts::{MeasuredFleet, ShardFacts};
use super::settings::DiagnosisSettings;
use crate::format::{list, percent, rounded};
use crate::load::{ItemName, Window};
use crate::resources::Dimension;
use ballast_domain::ShardId;
use ballast_domain::tenant::SliceId;

/// Tenants listed.
const NAMED: usize = 3;

/// A load within the limits.
pub(super) struct BearableLoad {
    /// The load as a share of the limit.
    pub(super) fill: f64,
    pub(super) evidence: Vec<String>,
    pub(super) because: String,
    pub(super) otherwise: String,
}

/// A loaded shard that is not too full; `None` if its load is too low to explain anything.
pub(super) fn shard(
    fleet: &MeasuredFleet<'_>,
    name: &ShardId,
    facts: &ShardFacts<'_>,
    settings: &DiagnosisSettings,
) -> Option<BearableLoad> {
    let (dimension, fill) = facts.short.fill()?;
    if fill < settings.sick_fill {
        return None;
    }
    let capacity = facts.history.capacity()[dimension];
    let slices = fleet.slices(facts, dimension);
    let named: Vec<_> = slices
        .iter()
        .take(NAMED)
        .map(|(slice, used)| {
            format!(
                "{} ({})",
                slice.label(),
                percent(used[dimension] / capacity)
            )
        })
        .collect();
    let level = percent(settings.level);
    Some(BearableLoad {
        fill,
        evidence: vec![
            format!("{name} is {} full ({})", percent(fill), dimension.name()),
            match named.is_empty() {
                true => "no tenant causes this load".to_owned(),
                false => format!("the largest users are {}", list(&named)),
            },
        ],
        because: format!("data is moved only from shards that are more than {level} full"),
        otherwise: format!(
            "When the shard is more than {level} full, the finding names tenants to move. To act \
             earlier, lower hotspots.level or move a tenant (ballast migration start)."
        ),
    })
}

/// A counter whose votes are not too many for its lanes.
pub(super) fn counter(
    fleet: &MeasuredFleet<'_>,
    facts: &ShardFacts<'_>,
    name: &ItemName,
    settings: &DiagnosisSettings,
) -> Option<BearableLoad> {
    let items = fleet
        .history
        .items(facts.history, Window::Short, &facts.short);
    let item = items.into_iter().find(|item| item.name == *name)?;
    let fill = item.lane_votes() / settings.lane_votes_max.max(f64::MIN_POSITIVE);
    let hot = percent(settings.lane_hot);
    Some(BearableLoad {
        fill,
        evidence: vec![
            format!("{} gets {} votes/s", item.name.item, rounded(item.votes)),
            format!(
                "on {} lanes that is {} of the {} votes/s that one lane is rated at",
                item.lanes.len(),
                percent(fill),
                rounded(settings.lane_votes_max)
            ),
        ],
        because: format!("a lane is hot from {hot} of its capacity, and this one is below that"),
        otherwise: "If lanes are slower than that on this machine, lower hotspots.lane_votes_max."
            .to_owned(),
    })
}

/// A tenant whose share of a shard is fair.
pub(super) fn tenant(
    fleet: &MeasuredFleet<'_>,
    name: &ShardId,
    facts: &ShardFacts<'_>,
    slice: &SliceId,
    settings: &DiagnosisSettings,
) -> Option<BearableLoad> {
    let slices = fleet.slices(facts, Dimension::Votes);
    let (_, used) = slices.iter().find(|(other, _)| other == slice)?;
    let (dimension, fill) = used.fill(facts.history.capacity());
    let fair = percent(settings.fair_share);
    Some(BearableLoad {
        fill,
        evidence: vec![format!(
            "{} uses {} of the capacity of {name} ({})",
            slice.label(),
            percent(fill),
            dimension.name()
        )],
        because: format!("a tenant's fair share is up to {fair} of a shard (hotspots.fair_share)"),
        otherwise: "No tenant is affected. If the shard gets too full, its tenants are moved."
            .to_owned(),
    })
}
