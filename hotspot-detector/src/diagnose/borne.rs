//! What a rule calls hot and the diagnosis does not: it is borne, and the letter
//! says how much more would be too much.

use super::facts::{Fleet, ShardFacts};
use super::settings::Settings;
use crate::load::{ItemName, Window};
use crate::resources::Dimension;
use crate::words::{list, percent, rounded};
use ballast_domain::ShardId;
use ballast_domain::tenant::SliceId;

/// Tenants that are named.
const NAMED: usize = 3;

/// A load that is borne.
pub(super) struct Borne {
    /// How much of what can be borne it is.
    pub(super) fill: f64,
    pub(super) evidence: Vec<String>,
    pub(super) because: String,
    pub(super) otherwise: String,
}

/// A shard with load, and yet not too full. Nothing where its load is so little
/// that it explains nothing.
pub(super) fn shard(
    fleet: &Fleet<'_>,
    name: &ShardId,
    facts: &ShardFacts<'_>,
    settings: &Settings,
) -> Option<Borne> {
    let (dimension, fill) = facts.short.fill()?;
    if fill < settings.sick_fill {
        return None;
    }
    let capacity = facts.book.capacity()[dimension];
    let slices = fleet.slices(facts, dimension);
    let named: Vec<_> = slices
        .iter()
        .take(NAMED)
        .map(|(slice, used)| format!("{slice} ({})", percent(used[dimension] / capacity)))
        .collect();
    let level = percent(settings.level);
    Some(Borne {
        fill,
        evidence: vec![
            format!("{name} is {} full ({})", percent(fill), dimension.name()),
            match named.is_empty() {
                true => "none of it is a tenant's".to_owned(),
                false => format!("most of it are {}", list(&named)),
            },
        ],
        because: format!(
            "data is moved from a shard that is more than {level} full, and it is not"
        ),
        otherwise: format!(
            "When it is more than {level} full, the finding says what to move. To act before, \
             lower hotspots.level, or move a tenant (ballast migration start)."
        ),
    })
}

/// A counter with votes, and yet not too many for its lanes.
pub(super) fn counter(
    fleet: &Fleet<'_>,
    facts: &ShardFacts<'_>,
    name: &ItemName,
    settings: &Settings,
) -> Option<Borne> {
    let items = fleet.book.items(facts.book, Window::Short, &facts.short);
    let item = items.into_iter().find(|item| item.name == *name)?;
    let fill = item.lane_votes() / settings.lane_votes_max.max(f64::MIN_POSITIVE);
    let hot = percent(settings.lane_hot);
    Some(Borne {
        fill,
        evidence: vec![
            format!("{} gets {} votes/s", item.name.item, rounded(item.votes)),
            format!(
                "on {} lanes that is {} of the {} votes/s that one lane takes",
                item.lanes.len(),
                percent(fill),
                rounded(settings.lane_votes_max)
            ),
        ],
        because: format!("a lane is hot from {hot} of what it takes on, and this is less"),
        otherwise:
            "If the lanes are slower than that on this machine, set hotspots.lane_votes_max \
                    to what one takes."
                .to_owned(),
    })
}

/// A tenant with a part of a shard, and yet no unfair one.
pub(super) fn tenant(
    fleet: &Fleet<'_>,
    name: &ShardId,
    facts: &ShardFacts<'_>,
    slice: &SliceId,
    settings: &Settings,
) -> Option<Borne> {
    let slices = fleet.slices(facts, Dimension::Votes);
    let (_, used) = slices.iter().find(|(other, _)| other == slice)?;
    let (dimension, fill) = used.fill(facts.book.capacity());
    let fair = percent(settings.fair_share);
    Some(Borne {
        fill,
        evidence: vec![format!(
            "{slice} uses {} of what {name} can do ({})",
            percent(fill),
            dimension.name()
        )],
        because: format!("up to {fair} of a shard are a tenant's fair part (hotspots.fair_share)"),
        otherwise: "Nobody suffers. Should the shard get too full, its tenants are moved."
            .to_owned(),
    })
}
