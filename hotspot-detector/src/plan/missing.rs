//! How many shards are missing, where, and of which size: slices without a target are packed
//! into new shards like the existing ones, largest first.

use std::collections::BTreeMap;

use ballast_domain::id::{RegionId, ShardId, ZoneId};

use super::amount::Amount;
use super::cover::cover_roughly;
use super::draft::{Level, PlanDraft};
use super::leave::RequiredMove;
use super::relief::movable_elsewhere;
use super::report::MissingShards;

/// The shards to add.
pub(super) fn missing(draft: &mut PlanDraft<'_>, required: &[RequiredMove]) -> Vec<MissingShards> {
    let without_target = without_target(draft, required);
    let mut kinds: BTreeMap<ShardKind, Vec<u32>> = BTreeMap::new();
    for slice in without_target {
        let kind = kind(draft, slice);
        kinds.entry(kind).or_default().push(slice);
    }
    kinds
        .into_iter()
        .map(|(kind, slices)| pack(draft, kind, slices))
        .collect()
}

/// The slices that should move but have no target.
fn without_target(draft: &mut PlanDraft<'_>, required: &[RequiredMove]) -> Vec<u32> {
    let mut found: Vec<u32> = required
        .iter()
        .filter(|required_move| {
            let from = &draft.places[draft.at[required_move.slice as usize] as usize];
            required_move.to.is_none()
                && !draft.moved[required_move.slice as usize]
                && draft.leave_blocker(required_move.slice).is_none()
                && from.view.state != ballast_domain::shard::ShardState::Down
        })
        .map(|required_move| required_move.slice)
        .collect();
    // More shards do not help a slice that is too large for any shard.
    found.retain(|slice| {
        let list = draft.allowed(*slice);
        let none = list.home.is_empty() && list.secondary.is_empty();
        none || !draft.is_too_big(*slice)
    });
    for at in (0u32..).take(draft.places.len()) {
        if !draft.places[at as usize].is_overloaded() {
            continue;
        }
        let items = movable_elsewhere(draft, at);
        let place = &draft.places[at as usize];
        let over = |level| place.load.above(place.ceiling(level));
        let set = [Level::Goal, Level::Limit]
            .into_iter()
            .find_map(|level| cover_roughly(&items, &over(level)));
        found.extend(set.into_iter().flatten().map(|item| item.slice));
    }
    found.sort_by_key(|slice| (draft.hash[*slice as usize], *slice));
    found.dedup();
    found
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct ShardKind {
    region: RegionId,
    zones: Vec<ZoneId>,
    like: Option<ShardId>,
}

/// The kind of shard for a slice: like the heaviest allowed one in its home region.
fn kind(draft: &mut PlanDraft<'_>, slice: u32) -> ShardKind {
    let home = draft.allowed(slice).home.clone();
    let views = home.iter().map(|at| &draft.places[*at as usize].view);
    let like = views.reduce(|best, next| {
        if next.weight > best.weight {
            next
        } else {
            best
        }
    });
    let slice = &draft.fleet.slices[slice as usize];
    match like {
        Some(view) => ShardKind {
            region: view.region.clone(),
            zones: view.zones.clone(),
            like: Some(view.id.clone()),
        },
        None => ShardKind {
            region: slice.home_region.clone(),
            zones: slice.zones.clone(),
            like: None,
        },
    }
}

fn pack(draft: &PlanDraft<'_>, kind: ShardKind, mut slices: Vec<u32>) -> MissingShards {
    let sum = slices.iter().fold(Amount::default(), |sum, slice| {
        sum.plus(&draft.demand[*slice as usize])
    });
    let place = kind.like.as_ref().and_then(|like| draft.shard_index(like));
    let shards = place.map_or(1, |at| {
        let place = &draft.places[at as usize];
        let overhead = Amount::from_resources(&draft.fleet.shards[place.input].overhead);
        slices.sort_by(|one, two| {
            let share = |slice: &u32| draft.demand[*slice as usize].share_of(&place.goal);
            share(two).total_cmp(&share(one)).then(one.cmp(two))
        });
        let mut bins: Vec<Amount> = Vec::new();
        for slice in &slices {
            let amount = &draft.demand[*slice as usize];
            match bins.iter_mut().find(|bin| bin.fits(amount, &place.goal)) {
                Some(bin) => *bin = bin.plus(amount),
                // A slice above the goal gets a shard of its own.
                None => bins.push(overhead.plus(amount)),
            }
        }
        bins.len()
    });
    MissingShards {
        shards,
        region: kind.region,
        zones: kind.zones,
        like: kind.like,
        slices: slices.len(),
        demand: sum.resources(),
    }
}
