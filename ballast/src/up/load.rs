//! Measures the load of this process: the router's counts and the usage of its shards.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use ballast_control_plane::ControlPlane;
use ballast_control_plane::load::recorder::LoadSource;
use ballast_control_plane::load::slice_locations::SliceLocations;
use ballast_domain::shard::{Shard, ShardState};
use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, ShardId, Timestamp};
use ballast_hotspot_detector::load::{
    Flow, Interval, IoWait, ItemName, ItemSample, KeySample, LoadSample, MetricSource, ShardSample,
    SliceSample,
};
use ballast_router as router;
use ballast_router::load::{LoadCounts, RoutedLoad};
use ballast_vote_shard::shard::Stalls;
use ballast_vote_shard::{ShardDirectory, ShardUsage, VoteShard};

use super::shards::LocalShards;
use super::wide::{Lanes, WidePolls, fetch_lanes};

/// Number of top keys and items in a sample.
const TOP: usize = 32;
/// Maximum number of slices per shard whose size is read in one step: the active ones, and some of
/// the others in turn.
const SIZED_MAX: usize = 500;
/// Approximate size of a row on disk.
const BYTES_PER_ROW: f64 = 120.0;

/// Measures this process.
pub(crate) struct ProcessLoad {
    plane: ControlPlane,
    router: router::RouterState,
    shards: Arc<LocalShards>,
    /// When the last sample ended.
    since: Timestamp,
    /// The write stalls of each shard at that time.
    stalls: HashMap<ShardId, Stalls>,
    /// The slices whose size to read, by shard, and their locations.
    sizes: HashMap<ShardId, SliceSizes>,
    whereabouts: SliceLocations,
    latencies: HashMap<SliceId, Sketch>,
    wide: WidePolls,
}

/// The slices of a shard whose size is sampled.
#[derive(Default)]
struct SliceSizes {
    /// All slices, in the order in which their size is read.
    turn: VecDeque<SliceId>,
    /// Slices that were reported with a size above 0.
    reported: BTreeSet<SliceId>,
}

impl ProcessLoad {
    /// Measures from now on.
    pub(crate) fn new(
        plane: ControlPlane,
        router: router::RouterState,
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
            whereabouts: SliceLocations::default(),
            latencies: HashMap::new(),
            wide: WidePolls::default(),
        }
    }

    async fn shard(
        &mut self,
        record: &Shard,
        usage: &ShardUsage,
        load: RoutedLoad,
        ms: u64,
    ) -> ShardSample {
        let id = &record.shard_id;
        let capacity = self.plane.settings().load.capacity.times(record.weight);
        let mut sample = ShardSample::new(id.clone(), record.region.clone(), capacity);
        sample.takes_slices = record.state == ShardState::Active;
        sample.flow = flow(&load.counts);
        sample.storage = Some((usage.disk_bytes + usage.archive_bytes) as f64);
        sample.concurrency = Some(mean_concurrency(load.counts.busy_micros, ms));
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
            // A reopened shard starts from 0.
            (now.saturating_sub(before) as f64 / ms.max(1) as f64).min(1.0)
        };
        Some(IoWait {
            queue: share(now.queue_ms, before.queue_ms),
            fsync: share(now.disk_ms, before.disk_ms),
        })
    }

    /// The slices that did something, and a few more whose size is asked.
    async fn slices(&mut self, id: &ShardId, load: &RoutedLoad, ms: u64) -> Vec<SliceSample> {
        let mut samples: BTreeMap<SliceId, SliceSample> = BTreeMap::new();
        for (slice, used) in load.slices() {
            samples.insert(
                slice.clone(),
                SliceSample {
                    slice: slice.clone(),
                    flow: flow(&used.counts),
                    storage: None,
                    concurrency: mean_concurrency(used.counts.busy_micros, ms),
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
            let Some(bytes) = estimate_size(&*shard, slice).await else {
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

    /// Adds idle slices by their location; reports slices that left a shard once more, with size 0.
    fn follow(&mut self, any_moved: bool, sample: &mut LoadSample) {
        let empty = BTreeSet::new();
        for shard in &mut sample.shards {
            let sizes = self.sizes.entry(shard.shard.clone()).or_default();
            let here = self.whereabouts.slices_on(&shard.shard).unwrap_or(&empty);
            for slice in &mut shard.slices {
                if here.contains(&slice.slice) {
                    sizes.reported.insert(slice.slice.clone());
                } else {
                    slice.storage = Some(0.0);
                    sizes.reported.remove(&slice.slice);
                }
            }
            if !any_moved {
                continue;
            }
            let gone: Vec<_> = sizes.reported.difference(here).cloned().collect();
            for slice in gone {
                sizes.reported.remove(&slice);
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
    }

    /// The items with the most votes, with their lanes; and one item of each quiet poll with many
    /// lanes.
    async fn items(&mut self, id: &ShardId, load: &RoutedLoad) -> Vec<ItemSample> {
        let Ok(shard) = self.shards.shard(id) else {
            return Vec::new();
        };
        let shards = self.plane.fleet().snapshot().shards().len();
        let mut polls: HashMap<PollId, Option<Lanes>> = HashMap::new();
        let mut items = Vec::new();
        for (counted, votes) in load.items.top(TOP) {
            let (slice, (poll, item)) = (counted.slice, counted.item);
            let known = match polls.entry(poll) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => free.insert(fetch_lanes(&*shard, &slice, poll).await),
            };
            let lanes = known.as_ref().and_then(|lanes| lanes.get(&item));
            let Some(lanes) = lanes.cloned() else {
                continue;
            };
            let name = ItemName { slice, poll, item };
            self.wide.record_vote(&name, shards);
            let votes = votes as f64;
            items.push(ItemSample { name, votes, lanes });
        }
        if let Some(here) = self.whereabouts.slices_on(id) {
            let quiet = self.wide.sample_quiet(&*shard, here, &items).await;
            items.extend(quiet);
        }
        items
    }
}

/// The approximate size of a slice; unknown while the shard is unavailable.
async fn estimate_size(shard: &dyn VoteShard, slice: &SliceId) -> Option<f64> {
    let digest = shard.digest(slice).await.ok()?;
    Some(digest.rows.rows as f64 * BYTES_PER_ROW)
}

fn flow(counts: &LoadCounts) -> Flow {
    Flow {
        votes: counts.votes as f64,
        queries: counts.queries as f64,
        bytes: counts.bytes as f64,
        errors: counts.errors as f64,
        throttles: counts.throttles as f64,
    }
}

/// Mean concurrency: the total time of all calls over the interval.
fn mean_concurrency(busy_micros: u64, ms: u64) -> f64 {
    busy_micros as f64 / 1_000.0 / ms.max(1) as f64
}

fn keys(load: &RoutedLoad) -> Vec<KeySample> {
    let top = load.keys.top(TOP).into_iter();
    top.map(|(name, calls)| KeySample {
        key: name.key,
        tenant: name.tenant,
        calls: calls.calls as f64,
        refused: calls.refused.min(calls.calls) as f64,
    })
    .collect()
}

#[async_trait]
impl MetricSource for ProcessLoad {
    async fn sample(&mut self, now: Timestamp) -> Option<LoadSample> {
        let ms = u64::try_from(now.unix_ms() - self.since.unix_ms()).ok();
        let ms = ms.filter(|ms| *ms > 0)?;
        let interval = Interval {
            start: self.since,
            ms,
        };
        self.since = now;
        self.latencies.clear();
        self.wide.load_from_plans(&self.plane).await;
        let mut loads = self.router.drain_load();
        let usages: HashMap<_, _> = self.shards.usages().await.into_iter().collect();
        let snapshot = self.plane.fleet().snapshot();
        let mut sample = LoadSample {
            interval,
            shards: Vec::new(),
        };
        for record in snapshot.shards().iter().map(|shard| &shard.value) {
            let load = loads.remove(&record.shard_id).unwrap_or_default();
            // Skip shards that do not work.
            let usage = usages.get(&record.shard_id);
            if let Some(usage) = usage.filter(|usage| usage.trouble.is_none()) {
                let shard = self.shard(record, usage, load, ms).await;
                sample.shards.push(shard);
            }
        }
        match self.whereabouts.follow(self.plane.registry()).await {
            Ok(any_moved) => {
                self.follow(any_moved, &mut sample);
                if any_moved {
                    self.wide.forget_gone(&self.whereabouts);
                }
            }
            Err(error) => tracing::debug!(%error, "slice locations cannot be read"),
        }
        Some(sample)
    }
}

impl LoadSource for ProcessLoad {
    fn latencies(&mut self) -> HashMap<SliceId, Sketch> {
        std::mem::take(&mut self.latencies)
    }
}
