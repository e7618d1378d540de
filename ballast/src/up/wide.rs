//! Polls that have many lanes, or may get them. They are told also when nobody
//! votes on them any more, so that their lanes can become fewer.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ballast_control_plane::ControlPlane;
use ballast_control_plane::hotspots::plans;
use ballast_control_plane::load::whereabouts::Whereabouts;
use ballast_domain::bounds::LANES_DEFAULT;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, PollId};
use ballast_hotspot_detector::diagnose::Cure;
use ballast_hotspot_detector::load::{ItemName, ItemSample};
use ballast_vote_shard::VoteShard;

/// Polls that are looked after, for each shard of the fleet.
const PER_SHARD: usize = 64;
/// How often a poll is looked at that has few lanes and that nobody votes on.
const IN_VAIN_MAX: u32 = 60;
/// Plans of before in which polls with many lanes are looked for.
const PLANS: u32 = 200;

/// The polls that are looked after. They are known by slice, wherever it is, so
/// that one that moved is still looked after.
#[derive(Default)]
pub(super) struct WidePolls {
    known: BTreeMap<(SliceId, PollId), Looked>,
    /// Whether plans of before were read.
    remembers: bool,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
struct Looked {
    /// One of its items: all have as many lanes.
    item: ItemId,
    /// How often it was looked at since it was voted on, without finding many.
    in_vain: u32,
}

impl WidePolls {
    /// Takes in, once, the polls that were given lanes before this process was
    /// started.
    pub(super) async fn remember(&mut self, plane: &ControlPlane) {
        if self.remembers {
            return;
        }
        let plans = match plans::list(plane, None, None, PLANS).await {
            Ok(plans) => plans,
            Err(error) => {
                tracing::debug!(%error, "plans cannot be read now");
                return;
            }
        };
        for plan in plans {
            if let Some(Cure::Lanes { item, .. }) = plan.value.cure {
                self.look_after(item);
            }
        }
        self.remembers = true;
    }

    /// Looks after a poll that was voted on. Also one that has few lanes: more
    /// may be given to it just when nobody votes any more.
    pub(super) fn voted(&mut self, name: &ItemName, shards: usize) {
        let key = (name.slice.clone(), name.poll);
        let is_known = self.known.contains_key(&key);
        if is_known || self.known.len() < PER_SHARD * shards {
            self.look_after(name.clone());
        }
    }

    fn look_after(&mut self, name: ItemName) {
        let item = name.item;
        let looked = Looked { item, in_vain: 0 };
        self.known.insert((name.slice, name.poll), looked);
    }

    /// An item of each poll on this shard that has many lanes and is not among
    /// those told already.
    pub(super) async fn quiet(
        &mut self,
        shard: &dyn VoteShard,
        here: &BTreeSet<SliceId>,
        told: &[ItemSample],
    ) -> Vec<ItemSample> {
        let told: BTreeSet<_> = told.iter().map(|told| told.name.poll).collect();
        let mut found = Vec::new();
        let known = self.known.iter_mut();
        let silent =
            known.filter(|((slice, poll), _)| here.contains(slice) && !told.contains(poll));
        for ((slice, poll), looked) in silent {
            let Some(lanes) = wide_lanes(shard, slice, *poll, looked.item).await else {
                looked.in_vain += 1;
                continue;
            };
            looked.in_vain = 0;
            let name = ItemName {
                slice: slice.clone(),
                poll: *poll,
                item: looked.item,
            };
            let votes = 0.0;
            found.push(ItemSample { name, votes, lanes });
        }
        self.known.retain(|_, looked| looked.in_vain < IN_VAIN_MAX);
        found
    }

    /// Forgets polls whose slice is nowhere any more.
    pub(super) fn forget_gone(&mut self, whereabouts: &Whereabouts) {
        self.known.retain(|(slice, _), _| whereabouts.knows(slice));
    }
}

/// The lanes of an item of an open poll, while they are many.
async fn wide_lanes(
    shard: &dyn VoteShard,
    slice: &SliceId,
    poll: PollId,
    item: ItemId,
) -> Option<Vec<u64>> {
    let known = shard.poll(slice, poll).await.ok()?;
    if known.closed_at.is_some() || known.spec.options.lanes <= LANES_DEFAULT {
        return None;
    }
    lanes_of(shard, slice, poll).await?.remove(&item)
}

/// The votes in each lane, by item.
pub(super) type Lanes = HashMap<ItemId, Vec<u64>>;

/// The lanes of a poll's items.
pub(super) async fn lanes_of(
    shard: &dyn VoteShard,
    slice: &SliceId,
    poll: PollId,
) -> Option<Lanes> {
    let lanes = shard.lanes(slice, poll).await.ok()?;
    let items = (0_u16..).zip(lanes);
    let items = items.map(|(place, lanes)| (ItemId::of(poll, place), lanes));
    Some(items.filter(|(_, lanes)| !lanes.is_empty()).collect())
}
