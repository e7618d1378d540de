//! What every shard and tenant uses now, or used at a moment in the past.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, KeyId, PollId, RegionId, Result, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::load::{
    ItemWindow, LoadHistory, LoadSample, ShardHistory, ShardWindow, Spans, Window,
};
use serde::Serialize;

use super::{LatencyBody, LoadMonitor, Rates, load_monitor, window_start};
use crate::plane::ControlPlane;

/// Default number of tenants.
pub const TENANTS: usize = 100;
/// Number of keys, polls and items shown.
const BUSIEST: usize = 20;

/// Load at a moment, averaged over the short window before it.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBody {
    /// The moment; absent while nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Length of the window, in milliseconds.
    pub window_ms: u64,
    /// Measuring interval, in milliseconds.
    pub step_ms: u64,
    /// Each measured shard.
    pub shards: Vec<ShardLoadBody>,
    /// The hottest tenants, hottest first.
    pub tenants: Vec<TenantLoadBody>,
    /// Number of tenants with activity or stored data.
    pub tenants_total: u64,
    /// The API keys with the most calls.
    pub keys: Vec<KeyLoadBody>,
    /// The polls with the most votes.
    pub polls: Vec<PollLoadBody>,
    /// The items with the most votes.
    pub items: Vec<ItemLoadBody>,
}

/// Load of a shard.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardLoadBody {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its region.
    pub region: RegionId,
    /// Its load.
    #[serde(flatten)]
    pub rates: Rates,
    /// The fullest dimension: votes, queries, bytes, storage or concurrency; absent
    /// if it has no limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fullest: Option<String>,
    /// Share of the time that writes waited behind others, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_queue: Option<f64>,
    /// Share of the time that writes waited for the disk, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_fsync: Option<f64>,
    /// Vote latency, in milliseconds; absent without votes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vote_latency: Option<LatencyBody>,
    /// Query latency, in milliseconds; absent without queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_latency: Option<LatencyBody>,
    /// Its capacity; 0 is no limit.
    pub capacity: CapacityBody,
    /// Number of slices with activity or stored data.
    pub slices: u64,
}

/// Capacity of a shard; 0 is no limit.
#[derive(Debug, Clone, Copy, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBody {
    /// Votes per second.
    pub votes_per_second: f64,
    /// Queries per second.
    pub queries_per_second: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Bytes stored.
    pub storage_bytes: f64,
    /// Concurrent calls.
    pub concurrency: f64,
}

/// Load of a tenant.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantLoadBody {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Load of all its slices; the heat is that of the hottest.
    #[serde(flatten)]
    pub rates: Rates,
    /// Latency of its calls, in milliseconds; absent without calls, or if there are
    /// too many tenants to measure each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyBody>,
    /// Its slices.
    pub slices: Vec<SliceLoadBody>,
}

/// Load of a slice on a shard.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SliceLoadBody {
    /// Its number within the tenant.
    pub slice: u32,
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its load there.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Load of an API key.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyLoadBody {
    /// The key.
    #[serde(rename = "keyID")]
    pub key_id: KeyId,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The shard it calls.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its calls, including refused ones.
    pub calls_per_second: f64,
    /// Its refused calls.
    pub refused_per_second: f64,
}

/// Load of a poll.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollLoadBody {
    /// The poll.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its votes, counting only its busiest items.
    pub votes_per_second: f64,
}

/// Load of an item.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemLoadBody {
    /// The item.
    #[serde(rename = "itemID")]
    pub item_id: ItemId,
    /// Its poll.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its votes.
    pub votes_per_second: f64,
    /// Number of lanes of its counter.
    pub lanes: u64,
}

/// Which part of the load to show.
#[derive(Debug, Clone, Default)]
pub struct LoadFilter {
    /// Only this shard, and what is on it.
    pub shard: Option<ShardId>,
    /// Only this tenant, and its shards.
    pub tenant: Option<TenantId>,
    /// Maximum number of tenants.
    pub tenants_max: Option<usize>,
}

impl LoadFilter {
    pub(super) fn has_shard(&self, shard: &ShardId) -> bool {
        self.shard.as_ref().is_none_or(|wanted| wanted == shard)
    }

    pub(super) fn has_tenant(&self, tenant: &TenantId) -> bool {
        self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
    }
}

/// Load now, or at a moment in the past.
pub async fn show(
    plane: &ControlPlane,
    filter: &LoadFilter,
    at: Option<Timestamp>,
) -> Result<LoadBody> {
    let load = load_monitor(plane)?;
    match at {
        None => Ok(load.current_load(filter)),
        Some(at) => {
            let spans = load.spans();
            let from = window_start(&spans, Window::Long, at);
            let samples = load.read_samples(from, at).await?;
            Ok(body_from_samples(samples, spans, filter))
        }
    }
}

/// Load at the end of these samples.
fn body_from_samples(samples: Vec<LoadSample>, spans: Spans, filter: &LoadFilter) -> LoadBody {
    // Old load is recorded in longer steps: the window must contain some.
    let step_ms = samples
        .last()
        .map_or(spans.step_ms, |last| last.interval.ms);
    let spans = Spans {
        step_ms: step_ms.max(spans.step_ms),
        ..spans
    };
    let newest = samples.last().cloned();
    let mut book = LoadHistory::new(spans);
    for sample in samples {
        let _ = book.add_sample(sample);
    }
    build_body(&book, newest.as_ref(), &VecDeque::new(), filter)
}

/// Heat of a shard.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardHeat {
    /// The share of its capacity in use, or of the time that its writes wait: 1 is all
    /// of it, more is overload.
    pub heat: f64,
    /// The dimension that is fullest.
    pub fullest: Option<&'static str>,
    /// Its capacity in votes per second; 0 is no limit.
    pub votes_per_second_max: f64,
}

impl LoadMonitor {
    /// Heat of each recently measured shard. Cheap, however many tenants there are.
    pub fn shard_heats(&self) -> BTreeMap<ShardId, ShardHeat> {
        self.with_book(|book| {
            let measured = book.shards().filter(|(_, shard)| book.is_fresh(shard));
            let heats = measured.filter_map(|(name, shard)| {
                let view = book.view(shard, Window::Short)?;
                let heat = ShardHeat {
                    heat: Rates::from_view(&view).heat,
                    fullest: view.fill().map(|(dimension, _)| dimension.name()),
                    votes_per_second_max: view.capacity.votes,
                };
                Some((name.clone(), heat))
            });
            heats.collect()
        })
    }

    /// Heat of a slice on a recently measured shard.
    pub fn slice_heat(&self, shard: &ShardId, slice: &SliceId) -> Option<f64> {
        self.with_book(|book| {
            let known = book.shard(shard).filter(|known| book.is_fresh(known))?;
            let view = book.view(known, Window::Short)?;
            let mut slices = book.slices(known, Window::Short, &view);
            let (_, used) = slices.find(|(id, _)| *id == slice)?;
            Some(Rates::from_slice(&used, &view.capacity).heat)
        })
    }

    /// Current load.
    pub fn current_load(&self, filter: &LoadFilter) -> LoadBody {
        let known = self.lock();
        build_body(&known.book, known.newest.as_ref(), &known.latencies, filter)
    }
}

fn build_body(
    book: &LoadHistory,
    newest: Option<&LoadSample>,
    latencies: &VecDeque<HashMap<SliceId, Sketch>>,
    filter: &LoadFilter,
) -> LoadBody {
    let is_known = book
        .shards()
        .any(|(_, shard)| book.is_fresh(shard) && book.view(shard, Window::Short).is_some());
    let step_ms = book.spans().step_ms;
    let young = (!is_known)
        .then(|| newest.map(single_sample_book))
        .flatten();
    let book = young.as_ref().unwrap_or(book);
    let spans = book.spans();
    let mut body = LoadBodyBuilder::default();
    for (name, shard) in book.shards() {
        let view = book.view(shard, Window::Short);
        let Some(view) = view.filter(|_| book.is_fresh(shard) && filter.has_shard(name)) else {
            continue;
        };
        let is_on_it = body.add_slices(book, name, shard, &view, filter);
        if filter.tenant.is_some() && !is_on_it {
            continue;
        }
        body.add_busiest(book, name, shard, &view, filter);
        body.shards
            .push(shard_body(name, shard.slice_count(), &view));
    }
    LoadBody {
        at: book.newest(),
        window_ms: spans.length_ms(Window::Short),
        step_ms,
        ..body.finish(latencies, filter)
    }
}

/// A book whose window is a single sample.
fn single_sample_book(sample: &LoadSample) -> LoadHistory {
    let mut book = LoadHistory::new(Spans {
        step_ms: sample.interval.ms.max(1),
        short_steps: 1,
        long_shorts: 2,
    });
    let _ = book.add_sample(sample.clone());
    book
}

fn shard_body(name: &ShardId, slices: usize, view: &ShardWindow) -> ShardLoadBody {
    let capacity = &view.capacity;
    ShardLoadBody {
        shard_id: name.clone(),
        region: view.region.clone(),
        rates: Rates::from_view(view),
        fullest: view
            .fill()
            .map(|(dimension, _)| dimension.name().to_owned()),
        io_queue: view.io_wait.map(|wait| wait.queue),
        io_fsync: view.io_wait.map(|wait| wait.fsync),
        vote_latency: LatencyBody::from_sketch(&view.vote_latency),
        query_latency: LatencyBody::from_sketch(&view.query_latency),
        capacity: CapacityBody {
            votes_per_second: capacity.votes,
            queries_per_second: capacity.queries,
            bytes_per_second: capacity.bytes,
            storage_bytes: capacity.storage,
            concurrency: capacity.concurrency,
        },
        slices: slices as u64,
    }
}

/// Collects the load of all shards.
#[derive(Default)]
struct LoadBodyBuilder {
    shards: Vec<ShardLoadBody>,
    tenants: BTreeMap<TenantId, (Rates, Vec<SliceLoadBody>)>,
    keys: Vec<KeyLoadBody>,
    items: Vec<(ShardId, ItemWindow)>,
}

impl LoadBodyBuilder {
    /// Adds the slices of a shard; returns whether any matches the filter.
    fn add_slices(
        &mut self,
        book: &LoadHistory,
        name: &ShardId,
        shard: &ShardHistory,
        view: &ShardWindow,
        filter: &LoadFilter,
    ) -> bool {
        let mut any = false;
        for (slice, used) in book.slices(shard, Window::Short, view) {
            if !filter.has_tenant(&slice.tenant_id) {
                continue;
            }
            any = true;
            let rates = Rates::from_slice(&used, &view.capacity);
            let (sum, slices) = self.tenants.entry(slice.tenant_id.clone()).or_default();
            sum.add(&rates);
            slices.push(SliceLoadBody {
                slice: slice.slice,
                shard_id: name.clone(),
                rates,
            });
        }
        any
    }

    /// Adds the busiest keys and items of a shard.
    fn add_busiest(
        &mut self,
        book: &LoadHistory,
        name: &ShardId,
        shard: &ShardHistory,
        view: &ShardWindow,
        filter: &LoadFilter,
    ) {
        let keys = book.keys(shard, Window::Short, view).into_iter();
        self.keys.extend(
            keys.filter(|key| key.calls > 0.0 && filter.has_tenant(&key.tenant))
                .map(|key| KeyLoadBody {
                    key_id: key.key,
                    tenant_id: key.tenant,
                    shard_id: name.clone(),
                    calls_per_second: key.calls,
                    refused_per_second: key.refused,
                }),
        );
        let items = book.items(shard, Window::Short, view).into_iter();
        self.items.extend(
            items
                .filter(|item| item.votes > 0.0 && filter.has_tenant(&item.name.slice.tenant_id))
                .map(|item| (name.clone(), item)),
        );
    }

    fn finish(
        self,
        latencies: &VecDeque<HashMap<SliceId, Sketch>>,
        filter: &LoadFilter,
    ) -> LoadBody {
        let mut keys = self.keys;
        keys.sort_by(|a, b| b.calls_per_second.total_cmp(&a.calls_per_second));
        keys.truncate(BUSIEST);
        let tenants_total = self.tenants.len() as u64;
        let mut tenants: Vec<_> = self.tenants.into_iter().collect();
        tenants.sort_by(|(_, (a, _)), (_, (b, _))| {
            let busy = |rates: &Rates| rates.votes_per_second + rates.queries_per_second;
            let by_heat = b.heat.total_cmp(&a.heat);
            by_heat.then_with(|| busy(b).total_cmp(&busy(a)))
        });
        tenants.truncate(filter.tenants_max.unwrap_or(TENANTS));
        let tenant = |(tenant_id, (rates, slices)): (TenantId, (Rates, Vec<SliceLoadBody>))| {
            TenantLoadBody {
                latency: tenant_latency(latencies, &tenant_id, &slices),
                tenant_id,
                rates,
                slices,
            }
        };
        LoadBody {
            shards: self.shards,
            tenants: tenants.into_iter().map(tenant).collect(),
            tenants_total,
            keys,
            polls: busiest_polls(&self.items),
            items: busiest_items(self.items),
            ..LoadBody::default()
        }
    }
}

fn tenant_latency(
    latencies: &VecDeque<HashMap<SliceId, Sketch>>,
    tenant: &TenantId,
    slices: &[SliceLoadBody],
) -> Option<LatencyBody> {
    let mut all = Sketch::default();
    for slice in slices {
        let name = SliceId {
            tenant_id: tenant.clone(),
            slice: slice.slice,
        };
        let steps = latencies.iter().filter_map(|step| step.get(&name));
        steps.for_each(|sketch| all.merge(sketch));
    }
    LatencyBody::from_sketch(&all)
}

fn busiest_polls(items: &[(ShardId, ItemWindow)]) -> Vec<PollLoadBody> {
    let mut polls: BTreeMap<PollId, PollLoadBody> = BTreeMap::new();
    for (shard, item) in items {
        let name = &item.name;
        let poll = polls.entry(name.poll).or_insert_with(|| PollLoadBody {
            poll_id: name.poll,
            tenant_id: name.slice.tenant_id.clone(),
            shard_id: shard.clone(),
            votes_per_second: 0.0,
        });
        poll.votes_per_second += item.votes;
    }
    let mut polls: Vec<_> = polls.into_values().collect();
    polls.sort_by(|a, b| b.votes_per_second.total_cmp(&a.votes_per_second));
    polls.truncate(BUSIEST);
    polls
}

fn busiest_items(mut items: Vec<(ShardId, ItemWindow)>) -> Vec<ItemLoadBody> {
    items.sort_by(|(_, a), (_, b)| b.votes.total_cmp(&a.votes));
    items.truncate(BUSIEST);
    let body = |(shard_id, item): (ShardId, ItemWindow)| ItemLoadBody {
        item_id: item.name.item,
        poll_id: item.name.poll,
        tenant_id: item.name.slice.tenant_id,
        shard_id,
        votes_per_second: item.votes,
        lanes: item.lanes.len() as u64,
    };
    items.into_iter().map(body).collect()
}
