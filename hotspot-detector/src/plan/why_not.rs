//! Why a shard is not helped, and why a slice that must leave stays: nobody
//! should have to guess why nothing happens.

use std::collections::BTreeMap;

use ballast_domain::clock::Timestamp;
use ballast_domain::shard::ShardState;
use ballast_domain::tenant::SliceId;

use super::amount::{Amount, COUNT, LANES};
use super::input::Dial;
use super::leave::Must;
use super::report::{Filling, Measure, Unhelped, Waiting, WhyNot};
use super::world::{Hold, World};
use crate::resources::Dimension;

/// How many slices are named for one reason.
const EXAMPLES: usize = 5;

/// What there is most of in a load beside what may be: the measure, its share
/// of the capacity, and the share that may be.
pub(super) fn worst(world: &World<'_>, at: u32, load: &Amount) -> (Measure, f64, f64) {
    let place = &world.places[at as usize];
    let shard = &world.fleet.shards[place.input];
    let mut found = (Measure::Storage, 0.0, shard.limit);
    let mut most = f64::NEG_INFINITY;
    let resources = load.resources();
    for lane in 0..LANES {
        let (used, capacity, limit) = match Dimension::ALL.get(lane) {
            Some(dimension) => (
                resources[*dimension],
                shard.capacity[*dimension],
                shard.limit,
            ),
            None => (load.0[COUNT] as f64, shard.record.max_slices as f64, 1.0),
        };
        if capacity > 0.0 {
            let over = used / capacity / limit.max(f64::MIN_POSITIVE);
            if over > most {
                most = over;
                found = (Measure::of_lane(lane), used / capacity, limit);
            }
        }
    }
    found
}

pub(super) fn filling(world: &World<'_>, at: u32, load: &Amount) -> Filling {
    let (measure, share, _) = worst(world, at, load);
    Filling {
        load: load.resources(),
        slices: load.0[COUNT].unsigned_abs(),
        measure,
        share,
    }
}

/// The shards that stay over their limit, with the reasons.
pub(super) fn unhelped(world: &mut World<'_>, put_off: usize) -> Vec<Unhelped> {
    let over: Vec<u32> = (0u32..)
        .zip(&world.places)
        .filter(|(_, place)| !place.load.within(&place.limit))
        .map(|(at, _)| at)
        .collect();
    over.into_iter()
        .map(|at| {
            let load = world.places[at as usize].load;
            let (measure, share, limit) = worst(world, at, &load);
            let mut why = reasons(world, at);
            if put_off > 0 {
                why.insert(0, WhyNot::PutOff);
            }
            Unhelped {
                shard_id: world.places[at as usize].view.id.clone(),
                measure,
                share,
                limit,
                why,
            }
        })
        .collect()
}

#[derive(Default)]
struct Tally {
    /// Whether it would be under its limit without all that may go.
    helps: bool,
    no_room: usize,
    pinned: usize,
    dialled: usize,
    moving: usize,
    arriving: usize,
    closed: usize,
    settling: Option<(usize, Timestamp)>,
    frozen: Option<(usize, Timestamp)>,
    too_big: Option<(SliceId, f64)>,
}

fn reasons(world: &mut World<'_>, at: u32) -> Vec<WhyNot> {
    match world.places[at as usize].view.state {
        ShardState::Down => return vec![WhyNot::Down],
        ShardState::Draining => return vec![WhyNot::Drains],
        ShardState::Active => {}
    }
    let mut tally = Tally::default();
    let place = &world.places[at as usize];
    let (limit, over) = (place.limit, place.load.above(&place.limit));
    let residents: Vec<u32> = world.residents(at).collect();
    for slice in residents {
        let amount = world.demand[slice as usize];
        // Only what would relieve it is a reason.
        if !(0..LANES).any(|lane| over.0[lane] > 0 && amount.0[lane] > 0) {
            continue;
        }
        let too_big = !amount.within(&limit) && world.is_too_big(slice);
        tally.add(world, slice, amount.share_of(&limit), too_big);
    }
    let own = Amount::of(&world.fleet.shards[world.places[at as usize].input].overhead);
    let own_share = (!own.within(&limit)).then(|| worst(world, at, &own).1);
    tally.arriving = world.places[at as usize].arriving;
    tally.helps = super::relief::would_help(world, at);
    tally.reasons(own_share)
}

impl Tally {
    fn add(&mut self, world: &World<'_>, slice: u32, share: f64, too_big: bool) {
        let sooner = |have: Option<(usize, Timestamp)>, until: Timestamp| match have {
            Some((slices, at)) => Some((slices + 1, until.min(at))),
            None => Some((1, until)),
        };
        match world.is_held(slice) {
            _ if too_big => {
                if self.too_big.as_ref().is_none_or(|(_, most)| share > *most) {
                    let id = world.fleet.slices[slice as usize].id.clone();
                    self.too_big = Some((id, share));
                }
            }
            None => self.no_room += 1,
            Some(Hold::Closed) => self.closed += 1,
            Some(Hold::Moving) => self.moving += 1,
            Some(Hold::Pinned) => self.pinned += 1,
            Some(Hold::Dial(_)) => self.dialled += 1,
            Some(Hold::Settling(until)) => self.settling = sooner(self.settling, until),
            Some(Hold::Frozen(until)) => self.frozen = sooner(self.frozen, until),
        }
    }

    fn reasons(self, own_share: Option<f64>) -> Vec<WhyNot> {
        let mut why = Vec::new();
        why.extend(
            self.too_big
                .map(|(slice, share)| WhyNot::TooBig { slice, share }),
        );
        why.extend(own_share.map(|share| WhyNot::OwnLoad { share }));
        let mut many = |slices: usize, reason: WhyNot| {
            if slices > 0 {
                why.push(reason);
            }
        };
        let Self {
            helps,
            no_room,
            pinned,
            dialled,
            moving,
            arriving,
            closed,
            ..
        } = self;
        let slices = no_room;
        many(
            slices,
            if helps {
                WhyNot::NoRoom { slices }
            } else {
                WhyNot::NotEnough { slices }
            },
        );
        many(moving, WhyNot::Moving { slices: moving });
        many(arriving, WhyNot::Arriving { slices: arriving });
        many(pinned, WhyNot::Pinned { slices: pinned });
        many(dialled, WhyNot::Dialled { slices: dialled });
        many(closed, WhyNot::Closed { slices: closed });
        why.extend(
            self.settling
                .map(|(slices, until)| WhyNot::Settling { slices, until }),
        );
        why.extend(
            self.frozen
                .map(|(slices, until)| WhyNot::Frozen { slices, until }),
        );
        why
    }
}

/// Those that must leave and stay, by shard and reason.
pub(super) fn waiting(world: &mut World<'_>, musts: &[Must], put_off: usize) -> Vec<Waiting> {
    let mut found: BTreeMap<(u32, String), (usize, Vec<SliceId>)> = BTreeMap::new();
    for must in musts {
        if world.moved[must.slice as usize] {
            continue;
        }
        let at = world.at[must.slice as usize];
        let why = why_it_waits(world, must, put_off);
        let (slices, examples) = found.entry((at, why)).or_default();
        *slices += 1;
        if examples.len() < EXAMPLES {
            examples.push(world.fleet.slices[must.slice as usize].id.clone());
        }
    }
    found
        .into_iter()
        .map(|((at, why), (slices, examples))| Waiting {
            shard_id: world.places[at as usize].view.id.clone(),
            why,
            slices,
            examples,
        })
        .collect()
}

fn why_it_waits(world: &mut World<'_>, must: &Must, put_off: usize) -> String {
    let from = &world.places[world.at[must.slice as usize] as usize];
    if from.view.state == ShardState::Down {
        return "its shard is down: nothing can be copied from it".to_owned();
    }
    match world.is_kept(must.slice) {
        Some(Hold::Dial(dial @ (Dial::Pause | Dial::Stop))) => {
            return format!("its tenant's dial is on {}", dial.name());
        }
        Some(Hold::Moving) => return "it is on its way already".to_owned(),
        _ => {}
    }
    if put_off > 0 {
        return "this plan may have no more moves: the next one goes on".to_owned();
    }
    if let Some(to) = must.to {
        let id = &world.places[to as usize].view.id;
        return format!("it is pinned to {id}, which has no room for it and nothing to give way");
    }
    let list = world.allowed(must.slice);
    if list.home.is_empty() && list.secondary.is_empty() {
        return "no shard in service may hold it".to_owned();
    }
    if world.is_too_big(must.slice) {
        return "it is too big for every shard that may hold it: split it".to_owned();
    }
    "no shard that may hold it has room for it".to_owned()
}
