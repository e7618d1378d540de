//! Which slices to move so that a shard is level again, for the fewest bytes.

use ballast_domain::ShardId;
use ballast_domain::tenant::SliceId;

use super::cure::Placed;
use super::facts::{Fleet, ShardFacts, fits, over};
use super::settings::Settings;
use crate::resources::{Dimension, Resources};

/// Up to so many slices every choice is tried.
const EXACT_MAX: usize = 12;
/// A move costs something however small: so many bytes.
const MOVE_BYTES: f64 = 64e6;

/// Slices that are enough, each with a shard that could take it.
pub(super) struct Subset {
    pub(super) placed: Vec<Placed>,
    pub(super) used: Resources,
}

/// The cheapest slices without which a shard is level. Nothing, if no choice
/// makes it level or the others have no room.
pub(super) fn best(
    fleet: &Fleet<'_>,
    from: (&ShardId, &ShardFacts<'_>),
    load: &Resources,
    candidates: &[(SliceId, Resources)],
    settings: &Settings,
) -> Option<Subset> {
    let capacity = from.1.book.capacity();
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

/// The few that are worth trying in every combination: those with the most
/// relief for their bytes, and the largest.
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

/// How much of what is too much a slice takes away, by its price.
fn relief(
    used: &Resources,
    load: &Resources,
    capacity: &Resources,
    hot: &[Dimension],
    settings: &Settings,
) -> f64 {
    let shares = hot.iter().map(|d| {
        let excess = load[*d] - capacity[*d] * settings.aim;
        (used[*d] / excess.max(f64::MIN_POSITIVE)).min(1.0)
    });
    shares.sum::<f64>() / (used.storage + MOVE_BYTES)
}

type Enough<'a> = dyn Fn(&[&(SliceId, Resources)]) -> Option<Resources> + 'a;
type Place<'a> = dyn Fn(&[&(SliceId, Resources)]) -> Option<Vec<Placed>> + 'a;

/// Tries every choice of the most useful few and takes the cheapest.
fn exact(
    few: &[&(SliceId, Resources)],
    settings: &Settings,
    enough: &Enough<'_>,
    place: &Place<'_>,
) -> Option<Subset> {
    let mut choices: Vec<(f64, u32)> = (1_u32..1 << few.len())
        .filter(|choice| choice.count_ones() as usize <= settings.moves_max)
        .filter_map(|choice| {
            let chosen = pick(few, choice);
            enough(&chosen).map(|_| (cost(&chosen), choice))
        })
        .collect();
    choices.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    // The cheapest may not fit anywhere; most of the others would not either.
    choices.iter().take(64).find_map(|(_, choice)| {
        let chosen = pick(few, *choice);
        let placed = place(&chosen)?;
        Some(Subset {
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

/// The most useful first until it is enough.
fn greedy(
    useful: &[&(SliceId, Resources)],
    settings: &Settings,
    enough: &Enough<'_>,
    place: &Place<'_>,
) -> Option<Subset> {
    let mut chosen = Vec::new();
    for slice in useful.iter().take(settings.moves_max) {
        chosen.push(*slice);
        if enough(&chosen).is_some() {
            let placed = place(&chosen)?;
            return Some(Subset {
                placed,
                used: sum(&chosen),
            });
        }
    }
    None
}

/// A shard of the same region for each slice, the emptiest first, so that none
/// of them gets too full.
pub(super) fn place(
    fleet: &Fleet<'_>,
    from: (&ShardId, &ShardFacts<'_>),
    chosen: &[&(SliceId, Resources)],
    level: f64,
) -> Option<Vec<Placed>> {
    let mut room: Vec<_> = fleet
        .takers(from.1.book.region())
        .filter(|(name, _)| *name != from.0)
        .map(|(name, facts)| (name, facts.load, facts.book.capacity()))
        .collect();
    let mut largest_first = chosen.to_vec();
    let size = |used: &Resources| used.fill(from.1.book.capacity()).1;
    largest_first.sort_by(|a, b| size(&b.1).total_cmp(&size(&a.1)));
    let mut placed = Vec::new();
    for (slice, used) in largest_first {
        let after = |load: &Resources, capacity: &Resources| (*load + *used).fill(capacity).1;
        let (name, load, _) = room
            .iter_mut()
            .filter(|(_, load, capacity)| fits(&(*load + *used), capacity, level))
            .min_by(|a, b| after(&a.1, a.2).total_cmp(&after(&b.1, b.2)))?;
        *load += *used;
        placed.push(Placed {
            slice: slice.clone(),
            to: (*name).clone(),
        });
    }
    Some(placed)
}

#[cfg(test)]
#[path = "subset_tests.rs"]
mod tests;
