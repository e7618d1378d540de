//! How many shards are missing, where, and of which size: what finds no room is
//! packed into new shards like those there are, the largest first.

use std::collections::BTreeMap;

use ballast_domain::id::{RegionId, ShardId, ZoneId};

use super::amount::Amount;
use super::cover::cover_roughly;
use super::leave::Must;
use super::relief::could_go;
use super::report::Missing;
use super::world::{Level, World};

/// The shards that would have to be added.
pub(super) fn missing(world: &mut World<'_>, musts: &[Must]) -> Vec<Missing> {
    let homeless = homeless(world, musts);
    let mut kinds: BTreeMap<Kind, Vec<u32>> = BTreeMap::new();
    for slice in homeless {
        let kind = kind(world, slice);
        kinds.entry(kind).or_default().push(slice);
    }
    kinds
        .into_iter()
        .map(|(kind, slices)| pack(world, kind, slices))
        .collect()
}

/// What would have to go and has nowhere to go to.
fn homeless(world: &mut World<'_>, musts: &[Must]) -> Vec<u32> {
    let mut found: Vec<u32> = musts
        .iter()
        .filter(|must| {
            let from = &world.places[world.at[must.slice as usize] as usize];
            must.to.is_none()
                && !world.moved[must.slice as usize]
                && world.is_kept(must.slice).is_none()
                && from.view.state != ballast_domain::shard::ShardState::Down
        })
        .map(|must| must.slice)
        .collect();
    // A tenant that no shard could hold is not helped by more of them.
    found.retain(|slice| {
        let list = world.allowed(*slice);
        let none = list.home.is_empty() && list.secondary.is_empty();
        none || !world.is_too_big(*slice)
    });
    for at in (0u32..).take(world.places.len()) {
        if !world.places[at as usize].is_in_trouble() {
            continue;
        }
        let items = could_go(world, at);
        let place = &world.places[at as usize];
        let over = |level| place.load.above(place.ceiling(level));
        let set = [Level::Goal, Level::Limit]
            .into_iter()
            .find_map(|level| cover_roughly(&items, &over(level)));
        found.extend(set.into_iter().flatten().map(|item| item.slice));
    }
    found.sort_by_key(|slice| (world.hash[*slice as usize], *slice));
    found.dedup();
    found
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Kind {
    region: RegionId,
    zones: Vec<ZoneId>,
    like: Option<ShardId>,
}

/// A shard like the weightiest of those at its home that may hold it.
fn kind(world: &mut World<'_>, slice: u32) -> Kind {
    let home = world.allowed(slice).home.clone();
    let views = home.iter().map(|at| &world.places[*at as usize].view);
    let like = views.reduce(|best, next| {
        if next.weight > best.weight {
            next
        } else {
            best
        }
    });
    let slice = &world.fleet.slices[slice as usize];
    match like {
        Some(view) => Kind {
            region: view.region.clone(),
            zones: view.zones.clone(),
            like: Some(view.id.clone()),
        },
        None => Kind {
            region: slice.home_region.clone(),
            zones: slice.zones.clone(),
            like: None,
        },
    }
}

fn pack(world: &World<'_>, kind: Kind, mut slices: Vec<u32>) -> Missing {
    let sum = slices.iter().fold(Amount::default(), |sum, slice| {
        sum.plus(&world.demand[*slice as usize])
    });
    let place = kind.like.as_ref().and_then(|like| world.place_of(like));
    let shards = place.map_or(1, |at| {
        let place = &world.places[at as usize];
        let overhead = Amount::of(&world.fleet.shards[place.input].overhead);
        slices.sort_by(|one, two| {
            let share = |slice: &u32| world.demand[*slice as usize].share_of(&place.goal);
            share(two).total_cmp(&share(one)).then(one.cmp(two))
        });
        let mut bins: Vec<Amount> = Vec::new();
        for slice in &slices {
            let amount = &world.demand[*slice as usize];
            match bins.iter_mut().find(|bin| bin.fits(amount, &place.goal)) {
                Some(bin) => *bin = bin.plus(amount),
                // What is more than the goal has a shard of its own.
                None => bins.push(overhead.plus(amount)),
            }
        }
        bins.len()
    });
    Missing {
        shards,
        region: kind.region,
        zones: kind.zones,
        like: kind.like,
        slices: slices.len(),
        demand: sum.resources(),
    }
}
