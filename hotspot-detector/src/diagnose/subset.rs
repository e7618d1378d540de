//! Which slices to move to relieve a shard with the fewest bytes.

use ballast_domain::ShardId;
use ballast_domain::tenant::SliceId;

use super::cure::SlicePlacement;
use super::facts::{MeasuredFleet, ShardFacts, fits, over};
use super::settings::DiagnosisSettings;
use crate::resources::{Dimension, Resources};

/// Up to this many slices, every subset is tried.
const EXACT_MAX: usize = 12;
/// The fixed cost of a migration, in bytes.
const MOVE_BYTES: f64 = 64e6;

/// A sufficient set of slices, each with a target.
pub(super) struct MoveSet {
    pub(super) placed: Vec<SlicePlacement>,
    pub(super) used: Resources,
}

/// The cheapest set of slices whose removal relieves a shard. `None` if no set relieves it or
/// the other shards have no room.
pub(super) fn best(
    fleet: &MeasuredFleet<'_>,
    from: (&ShardId, &ShardFacts<'_>),
    load: &Resources,
    candidates: &[(SliceId, Resources)],
    settings: &DiagnosisSettings,
) -> Option<MoveSet> {
    let capacity = from.1.history.capacity();
    let hot = over(load, capacity, settings.aim);
    let useful = |used: &Resources| hot.iter().any(|d| used[*d] > 0.0);
    let mut by_size: Vec<_> = candidates.iter().filter(|(_, used)| useful(used)).collect();
    let size = |used: &Resources| used.fill(capacity).1;
    by_size.sort_by(|a, b| size(&b.1).total_cmp(&size(&a.1)));
    let mut by_relief = by_size.clone();
    let relief = |used: &Resources| relief(used, load, capacity, &hot, settings);
    by_relief.sort_by(|a, b| relief(&b.1).total_cmp(&relief(&a.1)));
    let enough = |chosen: &[&(SliceId, Resources)]| {
        let used = sum(chosen);
        fits(&(*load - used), capacity, settings.aim).then_some(used)
    };
    let place = |chosen: &[&(SliceId, Resources)]| place(fleet, from, chosen, settings.level);
    let few = few(&by_relief, &by_size);
    exact(&few, settings, &enough, &place)
        .or_else(|| greedy(&by_relief, settings, &enough, &place))
        .or_else(|| greedy(&by_size, settings, &enough, &place))
}

/// The slices worth trying in every combination: those with the most relief per byte, and
/// the largest.
fn few<'a>(
    by_relief: &[&'a (SliceId, Resources)],
    by_size: &[&'a (SliceId, Resources)],
) -> Vec<&'a (SliceId, Resources)> {
    let mut few: Vec<_> = by_relief.iter().copied().take(EXACT_MAX / 2).collect();
    for slice in by_size {
        if few.len() < EXACT_MAX && !few.iter().any(|have| have.0 == slice.0) {
            few.push(slice);
        }
    }
    few
}

fn sum(chosen: &[&(SliceId, Resources)]) -> Resources {
    chosen
        .iter()
        .fold(Resources::default(), |sum, (_, used)| sum + *used)
}

fn cost(chosen: &[&(SliceId, Resources)]) -> f64 {
    sum(chosen).storage + MOVE_BYTES * chosen.len() as f64
}

/// The share of the excess that a slice removes, per byte.
fn relief(
    used: &Resources,
    load: &Resources,
    capacity: &Resources,
    hot: &[Dimension],
    settings: &DiagnosisSettings,
) -> f64 {
    let shares = hot.iter().map(|d| {
        let excess = load[*d] - capacity[*d] * settings.aim;
        (used[*d] / excess.max(f64::MIN_POSITIVE)).min(1.0)
    });
    shares.sum::<f64>() / (used.storage + MOVE_BYTES)
}

type CoversFn<'a> = dyn Fn(&[&(SliceId, Resources)]) -> Option<Resources> + 'a;
type PlaceFn<'a> = dyn Fn(&[&(SliceId, Resources)]) -> Option<Vec<SlicePlacement>> + 'a;

/// Tries every subset of a few slices and returns the cheapest that fits.
fn exact(
    few: &[&(SliceId, Resources)],
    settings: &DiagnosisSettings,
    enough: &CoversFn<'_>,
    place: &PlaceFn<'_>,
) -> Option<MoveSet> {
    let mut choices: Vec<(f64, u32)> = (1_u32..1 << few.len())
        .filter(|choice| choice.count_ones() as usize <= settings.moves_max)
        .filter_map(|choice| {
            let chosen = pick(few, choice);
            enough(&chosen).map(|_| (cost(&chosen), choice))
        })
        .collect();
    choices.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    // If the cheapest subsets fit nowhere, most others do not either.
    choices.iter().take(64).find_map(|(_, choice)| {
        let chosen = pick(few, *choice);
        let placed = place(&chosen)?;
        Some(MoveSet {
            placed,
            used: sum(&chosen),
        })
    })
}

fn pick<'a>(few: &[&'a (SliceId, Resources)], choice: u32) -> Vec<&'a (SliceId, Resources)> {
    let chosen = few
        .iter()
        .enumerate()
        .filter(|(at, _)| choice >> at & 1 == 1);
    chosen.map(|(_, slice)| *slice).collect()
}

/// Adds slices in order until the set is sufficient.
fn greedy(
    useful: &[&(SliceId, Resources)],
    settings: &DiagnosisSettings,
    enough: &CoversFn<'_>,
    place: &PlaceFn<'_>,
) -> Option<MoveSet> {
    let mut chosen = Vec::new();
    for slice in useful.iter().take(settings.moves_max) {
        chosen.push(*slice);
        if enough(&chosen).is_some() {
            let placed = place(&chosen)?;
            return Some(MoveSet {
                placed,
                used: sum(&chosen),
            });
        }
    }
    None
}

/// Assigns each slice, largest first, to the emptiest shard of the region that has room.
pub(super) fn place(
    fleet: &MeasuredFleet<'_>,
    from: (&ShardId, &ShardFacts<'_>),
    chosen: &[&(SliceId, Resources)],
    level: f64,
) -> Option<Vec<SlicePlacement>> {
    let mut room: Vec<_> = fleet
        .takers(from.1.history.region())
        .filter(|(name, _)| *name != from.0)
        .map(|(name, facts)| (name, facts.load, facts.history.capacity()))
        .collect();
    let mut largest_first = chosen.to_vec();
    let size = |used: &Resources| used.fill(from.1.history.capacity()).1;
    largest_first.sort_by(|a, b| size(&b.1).total_cmp(&size(&a.1)));
    let mut placed = Vec::new();
    for (slice, used) in largest_first {
        let after = |load: &Resources, capacity: &Resources| (*load + *used).fill(capacity).1;
        let (name, load, _) = room
            .iter_mut()
            .filter(|(_, load, capacity)| fits(&(*load + *used), capacity, level))
            .min_by(|a, b| after(&a.1, a.2).total_cmp(&after(&b.1, b.2)))?;
        *load += *used;
        placed.push(SlicePlacement {
            slice: slice.clone(),
            to: (*name).clone(),
        });
    }
    Some(placed)
}

#[cfg(test)]
#[path = "subset_tests.rs"]
mod tests;
