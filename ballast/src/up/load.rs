//! Load as this process measures it: what the router counted, what its shards
//! say of themselves, and which of them may be filled.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use ballast_control_plane::ControlPlane;
use ballast_control_plane::load::keep::LoadSource;
use ballast_control_plane::load::whereabouts::Whereabouts;
use ballast_domain::bounds::LANES_DEFAULT;
use ballast_domain::shard::{Shard, ShardState};
use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, PollId, ShardId, Timestamp};
use ballast_hotspot_detector::load::{
    Flow, Interval, IoWait, ItemName, ItemSample, KeySample, MetricSource, Sample, ShardSample,
    SliceSample,
};
use ballast_router as router;
use ballast_router::load::{Counts, ShardLoad};
use ballast_vote_shard::shard::Stalls;
use ballast_vote_shard::{Shards, Usage, VoteShard};

use super::shards::LocalShards;

/// Keys and items that are told of a shard.
const TOP: usize = 32;
/// Polls of a shard that are looked after because they have many lanes, or may
/// get them.
const WIDE_MAX: usize = 64;
/// How often a poll is looked at that has few lanes and that nobody votes on.
const IN_VAIN_MAX: u32 = 60;
/// Slices of a shard whose size is asked in one step: those that changed, and a
/// few of the others.
const SIZED_MAX: usize = 500;
/// What a row takes on disk, about.
const BYTES_PER_ROW: f64 = 120.0;

/// Measures this process.
pub(crate) struct InProcess {
    plane: ControlPlane,
    router: router::State,
    shards: Arc<LocalShards>,
    /// When the last sample ended.
    since: Timestamp,
    /// How long writes of each shard had waited by then.
    stalls: HashMap<ShardId, Stalls>,
    /// Slices whose size is to be asked, shard by shard, and where each slice
    /// was told to be.
    sizes: HashMap<ShardId, Sizes>,
    whereabouts: Whereabouts,
    latencies: HashMap<SliceId, Sketch>,
    /// Of each poll with many lanes one item, shard by shard: it is told also
    /// when nobody votes any more, so that its lanes can become fewer.
    wide: HashMap<ShardId, BTreeMap<(SliceId, PollId), Wide>>,
}

/// A poll that has many lanes, or that was voted on lately and may get them.
#[derive(Debug, Clone, Copy)]
struct Wide {
    item: ItemId,
    /// How often it was looked at since without finding many.
    in_vain: u32,
}

/// What is known of the slices of a shard.
#[derive(Default)]
struct Sizes {
    /// All of them, in the order in which they are asked.
    turn: VecDeque<SliceId>,
    /// Those that were told with a size that is not nought.
    told: BTreeSet<SliceId>,
}

impl InProcess {
    /// Measures from now on.
    pub(crate) fn new(
        plane: ControlPlane,
        router: router::State,
        shards: Arc<LocalShards>,
    ) -> Self {
        let since = plane.now();
        Self {
            plane,
            router,
            shards,
            since,
            stalls: HashMap::new(),
            sizes: HashMap::new(),
            whereabouts: Whereabouts::default(),
            latencies: HashMap::new(),
            wide: HashMap::new(),
        }
    }

    async fn shard(
        &mut self,
        record: &Shard,
        usage: &Usage,
        load: ShardLoad,
        ms: u64,
    ) -> ShardSample {
        let id = &record.shard_id;
        let capacity = self.plane.settings().load.capacity.times(record.weight);
        let mut sample = ShardSample::new(id.clone(), record.region.clone(), capacity);
        sample.takes_slices = record.state == ShardState::Active;
        sample.flow = flow(&load.counts);
        sample.storage = Some((usage.disk_bytes + usage.archive_bytes) as f64);
        sample.concurrency = Some(at_a_time(load.counts.busy_micros, ms));
        sample.io_wait = self.io_wait(id, usage.stalls, ms);
        sample.slices = self.slices(id, &load, ms).await;
        sample.keys = keys(&load);
        sample.items = self.items(id, &load).await;
        sample.vote_latency = load.vote_latency;
        sample.query_latency = load.query_latency;
        sample
    }

    /// How much of the time writes waited; unknown the first time.
    fn io_wait(&mut self, id: &ShardId, now: Stalls, ms: u64) -> Option<IoWait> {
        let before = self.stalls.insert(id.clone(), now)?;
        let share = |now: u64, before: u64| {
            // A shard that was opened anew begins from nought.
            (now.saturating_sub(before) as f64 / ms.max(1) as f64).min(1.0)
        };
        Some(IoWait {
            queue: share(now.queue_ms, before.queue_ms),
            fsync: share(now.disk_ms, before.disk_ms),
        })
    }

    /// The slices that did something, and a few more whose size is asked.
    async fn slices(&mut self, id: &ShardId, load: &ShardLoad, ms: u64) -> Vec<SliceSample> {
        let mut samples: BTreeMap<SliceId, SliceSample> = BTreeMap::new();
        for (slice, used) in load.slices() {
            samples.insert(
                slice.clone(),
                SliceSample {
                    slice: slice.clone(),
                    flow: flow(&used.counts),
                    storage: None,
                    concurrency: at_a_time(used.counts.busy_micros, ms),
                },
            );
            if used.latency.count() > 0 {
                let sum = self.latencies.entry(slice.clone()).or_default();
                sum.merge(&used.latency);
            }
        }
        let Ok(shard) = self.shards.shard(id) else {
            return samples.into_values().collect();
        };
        let sizes = self.sizes.entry(id.clone()).or_default();
        let active: Vec<_> = samples.keys().take(SIZED_MAX).cloned().collect();
        let others = SIZED_MAX.saturating_sub(active.len()).min(sizes.turn.len());
        let others: Vec<_> = sizes.turn.drain(..others).collect();
        sizes.turn.extend(others.iter().cloned());
        for slice in active.iter().chain(&others) {
            let Some(bytes) = size_of(&*shard, slice).await else {
                continue;
            };
            let known = samples.entry(slice.clone()).or_insert_with(|| SliceSample {
                slice: slice.clone(),
                flow: Flow::default(),
                storage: None,
                concurrency: 0.0,
            });
            known.storage = Some(bytes);
        }
        samples.into_values().collect()
    }

    /// Which slices are where, for those that do nothing; and those that have
    /// left a shard, which are told once more, with nothing.
    fn follow(&mut self, any_moved: bool, sample: &mut Sample) {
        let empty = BTreeSet::new();
        for shard in &mut sample.shards {
            let sizes = self.sizes.entry(shard.shard.clone()).or_default();
            let here = self.whereabouts.on(&shard.shard).unwrap_or(&empty);
            for slice in &mut shard.slices {
                if here.contains(&slice.slice) {
                    sizes.told.insert(slice.slice.clone());
                } else {
                    slice.storage = Some(0.0);
                    sizes.told.remove(&slice.slice);
                }
            }
            if !any_moved {
                continue;
            }
            let gone: Vec<_> = sizes.told.difference(here).cloned().collect();
            for slice in gone {
                sizes.told.remove(&slice);
                shard.slices.push(SliceSample {
                    slice,
                    flow: Flow::default(),
                    storage: Some(0.0),
                    concurrency: 0.0,
                });
            }
            sizes.turn.retain(|slice| here.contains(slice));
            let known: BTreeSet<_> = sizes.turn.iter().cloned().collect();
            sizes.turn.extend(here.difference(&known).cloned());
        }
        let shards: BTreeSet<_> = sample.shards.iter().map(|it| it.shard.clone()).collect();
        self.sizes.retain(|shard, _| shards.contains(shard));
        self.stalls.retain(|shard, _| shards.contains(shard));
        self.wide.retain(|shard, _| shards.contains(shard));
    }

    /// The items with the most votes, with their lanes; and one item of each
    /// poll that has many lanes and that was voted on before.
    async fn items(&mut self, id: &ShardId, load: &ShardLoad) -> Vec<ItemSample> {
        let Ok(shard) = self.shards.shard(id) else {
            return Vec::new();
        };
        let mut polls: HashMap<PollId, Option<Lanes>> = HashMap::new();
        let mut items = Vec::new();
        let mut wide = self.wide.remove(id).unwrap_or_default();
        for ((slice, poll, item), votes) in load.items.top(TOP) {
            let known = match polls.entry(poll) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => free.insert(lanes_of(&*shard, &slice, poll).await),
            };
            let lanes = known.as_ref().and_then(|lanes| lanes.get(&item));
            let Some(lanes) = lanes.cloned() else {
                continue;
            };
            // Also one that has few: more may be given to it just when nobody
            // votes any more.
            let is_known = wide.contains_key(&(slice.clone(), poll));
            if is_known || wide.len() < WIDE_MAX {
                wide.insert((slice.clone(), poll), Wide { item, in_vain: 0 });
            }
            let name = ItemName { slice, poll, item };
            let votes = votes as f64;
            items.push(ItemSample { name, votes, lanes });
        }
        let mut still = BTreeMap::new();
        for ((slice, poll), mut known) in wide {
            let item = known.item;
            let here = self.whereabouts.on(id);
            if !here.is_some_and(|here| here.contains(&slice)) {
                continue;
            }
            let told = items.iter().any(|known| known.name.item == item);
            let lanes = match told {
                true => None,
                false => wide_lanes(&*shard, &slice, poll, item).await,
            };
            if let Some(lanes) = lanes {
                known.in_vain = 0;
                let name = ItemName {
                    slice: slice.clone(),
                    poll,
                    item,
                };
                let votes = 0.0;
                items.push(ItemSample { name, votes, lanes });
            } else if !told {
                known.in_vain += 1;
            }
            if known.in_vain < IN_VAIN_MAX {
                still.insert((slice, poll), known);
            }
        }
        self.wide.insert(id.clone(), still);
        items
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
type Lanes = HashMap<ItemId, Vec<u64>>;

async fn lanes_of(shard: &dyn VoteShard, slice: &SliceId, poll: PollId) -> Option<Lanes> {
    let lanes = shard.lanes(slice, poll).await.ok()?;
    let items = (0_u16..).zip(lanes);
    let items = items.map(|(place, lanes)| (ItemId::of(poll, place), lanes));
    Some(items.filter(|(_, lanes)| !lanes.is_empty()).collect())
}

/// What a slice takes, about; unknown while the shard cannot tell.
async fn size_of(shard: &dyn VoteShard, slice: &SliceId) -> Option<f64> {
    let digest = shard.digest(slice).await.ok()?;
    Some(digest.rows.rows as f64 * BYTES_PER_ROW)
}

fn flow(counts: &Counts) -> Flow {
    Flow {
        votes: counts.votes as f64,
        queries: counts.queries as f64,
        bytes: counts.bytes as f64,
        errors: counts.errors as f64,
        throttles: counts.throttles as f64,
    }
}

/// Calls at a time: how long all took together, over how long it was.
fn at_a_time(busy_micros: u64, ms: u64) -> f64 {
    busy_micros as f64 / 1_000.0 / ms.max(1) as f64
}

fn keys(load: &ShardLoad) -> Vec<KeySample> {
    let top = load.keys.top(TOP).into_iter();
    top.map(|((key, tenant), calls)| KeySample {
        key,
        tenant,
        calls: calls.calls as f64,
        refused: calls.refused.min(calls.calls) as f64,
    })
    .collect()
}

#[async_trait]
impl MetricSource for InProcess {
    async fn sample(&mut self, now: Timestamp) -> Option<Sample> {
        let ms = u64::try_from(now.unix_ms() - self.since.unix_ms()).ok();
        let ms = ms.filter(|ms| *ms > 0)?;
        let interval = Interval {
            start: self.since,
            ms,
        };
        self.since = now;
        self.latencies.clear();
        let mut loads = self.router.drain_load();
        let usages: HashMap<_, _> = self.shards.usages().await.into_iter().collect();
        let snapshot = self.plane.fleet().snapshot();
        let mut sample = Sample {
            interval,
            shards: Vec::new(),
        };
        for record in snapshot.shards().iter().map(|shard| &shard.value) {
            let load = loads.remove(&record.shard_id).unwrap_or_default();
            // One that does not work was not measured.
            let usage = usages.get(&record.shard_id);
            if let Some(usage) = usage.filter(|usage| usage.trouble.is_none()) {
                let shard = self.shard(record, usage, load, ms).await;
                sample.shards.push(shard);
            }
        }
        match self.whereabouts.follow(self.plane.registry()).await {
            Ok(any_moved) => self.follow(any_moved, &mut sample),
            Err(error) => tracing::debug!(%error, "which slices are where cannot be read now"),
        }
        Some(sample)
    }
}

impl LoadSource for InProcess {
    fn latencies(&mut self) -> HashMap<SliceId, Sketch> {
        std::mem::take(&mut self.latencies)
    }
}
