//! Why a shard is not relieved, and why a slice that must leave stays, so that operators
//! need not guess.

use std::collections::BTreeMap;

use ballast_domain::clock::Timestamp;
use ballast_domain::shard::ShardState;
use ballast_domain::tenant::SliceId;

use super::amount::{Amount, COUNT, LANES};
use super::draft::{MoveBlocker, PlanDraft};
use super::input::Dial;
use super::leave::RequiredMove;
use super::report::{BlockedSlices, Measure, NoReliefReason, ShardFill, UnrelievedShard};
use crate::resources::Dimension;

/// Example slices listed per reason.
const EXAMPLES: usize = 5;

/// The measure of a load that is highest relative to its limit: the measure, its share of
/// the capacity, and the limit.
pub(super) fn worst(draft: &PlanDraft<'_>, at: u32, load: &Amount) -> (Measure, f64, f64) {
    let place = &draft.places[at as usize];
    let shard = &draft.fleet.shards[place.input];
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
                found = (Measure::from_lane(lane), used / capacity, limit);
            }
        }
    }
    found
}

pub(super) fn filling(draft: &PlanDraft<'_>, at: u32, load: &Amount) -> ShardFill {
    let (measure, share, _) = worst(draft, at, load);
    ShardFill {
        load: load.resources(),
        slices: load.0[COUNT].unsigned_abs(),
        measure,
        share,
    }
}

/// The shards that stay over their limit, with the reasons.
pub(super) fn unhelped(draft: &mut PlanDraft<'_>, put_off: usize) -> Vec<UnrelievedShard> {
    let over: Vec<u32> = (0u32..)
        .zip(&draft.places)
        .filter(|(_, place)| !place.load.within(&place.limit))
        .map(|(at, _)| at)
        .collect();
    over.into_iter()
        .map(|at| {
            let load = draft.places[at as usize].load;
            let (measure, share, limit) = worst(draft, at, &load);
            let mut why = reasons(draft, at);
            if put_off > 0 {
                why.insert(0, NoReliefReason::PutOff);
            }
            UnrelievedShard {
                shard_id: draft.places[at as usize].view.id.clone(),
                measure,
                share,
                limit,
                why,
            }
        })
        .collect()
}

#[derive(Default)]
struct ReasonTally {
    /// Whether it would be under its limit without all movable slices.
    helps: bool,
    no_room: usize,
    pinned: usize,
    out_of_scope: usize,
    dialled: usize,
    moving: usize,
    arriving: usize,
    closed: usize,
    settling: Option<(usize, Timestamp)>,
    frozen: Option<(usize, Timestamp)>,
    too_big: Option<(SliceId, f64)>,
}

fn reasons(draft: &mut PlanDraft<'_>, at: u32) -> Vec<NoReliefReason> {
    match draft.places[at as usize].view.state {
        ShardState::Down => return vec![NoReliefReason::Down],
        ShardState::Draining => return vec![NoReliefReason::Drains],
        ShardState::Active => {}
    }
    let mut tally = ReasonTally::default();
    let place = &draft.places[at as usize];
    let (limit, over) = (place.limit, place.load.above(&place.limit));
    let residents: Vec<u32> = draft.residents(at).collect();
    for slice in residents {
        let amount = draft.demand[slice as usize];
        // Only slices that would relieve the shard are a reason.
        if !(0..LANES).any(|lane| over.0[lane] > 0 && amount.0[lane] > 0) {
            continue;
        }
        let too_big = !amount.within(&limit) && draft.is_too_big(slice);
        tally.add(draft, slice, amount.share_of(&limit), too_big);
    }
    let own = Amount::from_resources(&draft.fleet.shards[draft.places[at as usize].input].overhead);
    let own_share = (!own.within(&limit)).then(|| worst(draft, at, &own).1);
    tally.arriving = draft.places[at as usize].arriving;
    tally.helps = super::relief::would_help(draft, at);
    tally.reasons(own_share)
}

impl ReasonTally {
    fn add(&mut self, draft: &PlanDraft<'_>, slice: u32, share: f64, too_big: bool) {
        let sooner = |have: Option<(usize, Timestamp)>, until: Timestamp| match have {
            Some((slices, at)) => Some((slices + 1, until.min(at))),
            None => Some((1, until)),
        };
        match draft.help_blocker(slice) {
            _ if too_big => {
                if self.too_big.as_ref().is_none_or(|(_, most)| share > *most) {
                    let id = draft.fleet.slices[slice as usize].id.clone();
                    self.too_big = Some((id, share));
                }
            }
            None => self.no_room += 1,
            Some(MoveBlocker::Closed) => self.closed += 1,
            Some(MoveBlocker::Moving) => self.moving += 1,
            Some(MoveBlocker::Pinned) => self.pinned += 1,
            Some(MoveBlocker::OutOfScope) => self.out_of_scope += 1,
            Some(MoveBlocker::Dial(_)) => self.dialled += 1,
            Some(MoveBlocker::Settling(until)) => self.settling = sooner(self.settling, until),
            Some(MoveBlocker::Frozen(until)) => self.frozen = sooner(self.frozen, until),
        }
    }

    fn reasons(self, own_share: Option<f64>) -> Vec<NoReliefReason> {
        let mut why = Vec::new();
        why.extend(
            self.too_big
                .map(|(slice, share)| NoReliefReason::TooBig { slice, share }),
        );
        why.extend(own_share.map(|share| NoReliefReason::OwnLoad { share }));
        let mut many = |slices: usize, reason: NoReliefReason| {
            if slices > 0 {
                why.push(reason);
            }
        };
        let Self {
            helps,
            no_room,
            pinned,
            out_of_scope,
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
                NoReliefReason::NoRoom { slices }
            } else {
                NoReliefReason::NotEnough { slices }
            },
        );
        many(moving, NoReliefReason::Moving { slices: moving });
        many(arriving, NoReliefReason::Arriving { slices: arriving });
        many(pinned, NoReliefReason::Pinned { slices: pinned });
        many(
            out_of_scope,
            NoReliefReason::OutOfScope {
                slices: out_of_scope,
            },
        );
        many(dialled, NoReliefReason::Dialled { slices: dialled });
        many(closed, NoReliefReason::Closed { slices: closed });
        why.extend(
            self.settling
                .map(|(slices, until)| NoReliefReason::Settling { slices, until }),
        );
        why.extend(
            self.frozen
                .map(|(slices, until)| NoReliefReason::Frozen { slices, until }),
        );
        why
    }
}

/// The slices that must leave but cannot, by shard and reason.
pub(super) fn waiting(
    draft: &mut PlanDraft<'_>,
    required: &[RequiredMove],
    put_off: usize,
) -> Vec<BlockedSlices> {
    let mut blocked: BTreeMap<(u32, String), (usize, Vec<SliceId>)> = BTreeMap::new();
    for required_move in required {
        if draft.moved[required_move.slice as usize] {
            continue;
        }
        let at = draft.at[required_move.slice as usize];
        let why = describe_blocker(draft, required_move, put_off);
        let (slices, examples) = blocked.entry((at, why)).or_default();
        *slices += 1;
        if examples.len() < EXAMPLES {
            examples.push(draft.fleet.slices[required_move.slice as usize].id.clone());
        }
    }
    blocked
        .into_iter()
        .map(|((at, why), (slices, examples))| BlockedSlices {
            shard_id: draft.places[at as usize].view.id.clone(),
            why,
            slices,
            examples,
        })
        .collect()
}

fn describe_blocker(
    draft: &mut PlanDraft<'_>,
    required_move: &RequiredMove,
    put_off: usize,
) -> String {
    let from = &draft.places[draft.at[required_move.slice as usize] as usize];
    if from.view.state == ShardState::Down {
        return "its shard is down: nothing can be copied from it".to_owned();
    }
    match draft.leave_blocker(required_move.slice) {
        Some(MoveBlocker::Dial(dial @ (Dial::Pause | Dial::Stop))) => {
            return format!("its tenant's dial is set to {}", dial.name());
        }
        Some(MoveBlocker::Moving) => return "it is moving already".to_owned(),
        _ => {}
    }
    if put_off > 0 {
        return "this plan is at its maximum size: the next plan continues".to_owned();
    }
    if let Some(to) = required_move.to {
        let id = &draft.places[to as usize].view.id;
        return format!(
            "it is pinned to {id}, which has no room for it and no slices that could make room"
        );
    }
    let list = draft.allowed(required_move.slice);
    if list.home.is_empty() && list.secondary.is_empty() {
        return "no active shard is allowed to hold it".to_owned();
    }
    if draft.is_too_big(required_move.slice) {
        return "it is too large for every eligible shard: split it".to_owned();
    }
    "no eligible shard has room for it".to_owned()
}
