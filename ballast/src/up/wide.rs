//! Tracks polls that have many lanes or may get them. They are sampled even without votes, so that
//! their lanes can be reduced.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ballast_control_plane::ControlPlane;
use ballast_control_plane::hotspots::plans;
use ballast_control_plane::load::slice_locations::SliceLocations;
use ballast_domain::bounds::LANES_DEFAULT;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, PollId};
use ballast_hotspot_detector::diagnose::Cure;
use ballast_hotspot_detector::load::{ItemName, ItemSample};
use ballast_vote_shard::VoteShard;

/// Maximum number of tracked polls per shard.
const PER_SHARD: usize = 64;
/// How often a quiet poll with few lanes is checked before it is dropped.
const IN_VAIN_MAX: u32 = 60;
/// Number of past plans to search for polls with many lanes.
const PLANS: u32 = 200;

/// The tracked polls, by slice, so that they stay tracked after a migration.
#[derive(Default)]
pub(super) struct WidePolls {
    known: BTreeMap<(SliceId, PollId), WatchedPoll>,
    /// Whether past plans were read.
    remembers: bool,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
struct WatchedPoll {
    /// One of its items: all have as many lanes.
    item: ItemId,
    /// Checks since the last vote that found few lanes.
    in_vain: u32,
}

impl WidePolls {
    /// Loads, once, the polls that got lanes before this process started.
    pub(super) async fn load_from_plans(&mut self, plane: &ControlPlane) {
        if self.remembers {
            return;
        }
        let plans = match plans::list(plane, None, None, PLANS).await {
            Ok(plans) => plans,
            Err(error) => {
                tracing::debug!(%error, "plans cannot be read");
                return;
            }
        };
        for plan in plans {
            if let Some(Cure::Lanes { item, .. }) = plan.value.cure {
                self.watch(item);
            }
        }
        self.remembers = true;
    }

    /// Tracks a poll that received votes, even with few lanes: it may get more just as voting ends.
    pub(super) fn record_vote(&mut self, name: &ItemName, shards: usize) {
        let key = (name.slice.clone(), name.poll);
        let is_known = self.known.contains_key(&key);
        if is_known || self.known.len() < PER_SHARD * shards {
            self.watch(name.clone());
        }
    }

    fn watch(&mut self, name: ItemName) {
        let item = name.item;
        let looked = WatchedPoll { item, in_vain: 0 };
        self.known.insert((name.slice, name.poll), looked);
    }

    /// Samples an item of each poll on this shard that has many lanes and is not in `known`.
    pub(super) async fn sample_quiet(
        &mut self,
        shard: &dyn VoteShard,
        here: &BTreeSet<SliceId>,
        sampled: &[ItemSample],
    ) -> Vec<ItemSample> {
        let sampled: BTreeSet<_> = sampled.iter().map(|sampled| sampled.name.poll).collect();
        let mut found = Vec::new();
        let known = self.known.iter_mut();
        let silent =
            known.filter(|((slice, poll), _)| here.contains(slice) && !sampled.contains(poll));
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

    /// Forgets polls whose slice no longer exists.
    pub(super) fn forget_gone(&mut self, whereabouts: &SliceLocations) {
        self.known
            .retain(|(slice, _), _| whereabouts.has_owner(slice));
    }
}

/// The lanes of an item of an open poll, if it has more than the default.
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
    fetch_lanes(shard, slice, poll).await?.remove(&item)
}

/// The votes in each lane, by item.
pub(super) type Lanes = HashMap<ItemId, Vec<u64>>;

/// The lanes of a poll's items.
pub(super) async fn fetch_lanes(
    shard: &dyn VoteShard,
    slice: &SliceId,
    poll: PollId,
) -> Option<Lanes> {
    let lanes = shard.lanes(slice, poll).await.ok()?;
    let items = (0_u16..).zip(lanes);
    let items = items.map(|(place, lanes)| (ItemId::from_position(poll, place), lanes));
    Some(items.filter(|(_, lanes)| !lanes.is_empty()).collect())
}
