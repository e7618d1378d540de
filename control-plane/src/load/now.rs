//! What every shard and tenant uses now, or used at a moment of the past.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, KeyId, PollId, RegionId, Result, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::load::{Book, ItemView, Sample, ShardBook, ShardView, Spans, Window};
use serde::Serialize;

use super::{LatencyBody, Load, Rates, load, window_start};
use crate::plane::ControlPlane;

/// Tenants that are told when nobody says how many.
pub const TENANTS: usize = 100;
/// Keys, polls and items that are told.
const BUSIEST: usize = 20;

/// What is used at a moment: averages over a short window that ends then.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBody {
    /// The moment; absent while nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// How long the window before it is, in milliseconds.
    pub window_ms: u64,
    /// How often it is measured, in milliseconds.
    pub step_ms: u64,
    /// Each shard that was measured.
    pub shards: Vec<ShardLoadBody>,
    /// The hottest tenants, the hottest first.
    pub tenants: Vec<TenantLoadBody>,
    /// How many tenants did anything or store anything.
    pub tenants_total: u64,
    /// The API keys with the most calls.
    pub keys: Vec<KeyLoadBody>,
    /// The polls with the most votes.
    pub polls: Vec<PollLoadBody>,
    /// The items with the most votes.
    pub items: Vec<ItemLoadBody>,
}

/// What a shard does.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardLoadBody {
    /// Which.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Where it stands.
    pub region: RegionId,
    /// What is used.
    #[serde(flatten)]
    pub rates: Rates,
    /// The dimension that is fullest: votes, queries, bytes, storage or
    /// concurrency; absent where it has no limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fullest: Option<String>,
    /// How much of the time writes waited behind others, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_queue: Option<f64>,
    /// How much of the time writes waited for the disk, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_fsync: Option<f64>,
    /// How long votes took, in milliseconds; absent when there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vote_latency: Option<LatencyBody>,
    /// How long queries took, in milliseconds; absent when there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_latency: Option<LatencyBody>,
    /// What it can do; 0 is no limit.
    pub capacity: CapacityBody,
    /// Slices that do or store something.
    pub slices: u64,
}

/// What a shard can do; 0 is no limit.
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
    /// Calls at a time.
    pub concurrency: f64,
}

/// What a tenant uses.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantLoadBody {
    /// Which.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// What all its slices use; the heat is that of the hottest.
    #[serde(flatten)]
    pub rates: Rates,
    /// How long its calls took, in milliseconds; absent when there were none,
    /// or too many tenants to tell them apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyBody>,
    /// Its slices.
    pub slices: Vec<SliceLoadBody>,
}

/// What a slice uses on a shard.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SliceLoadBody {
    /// Its number within the tenant.
    pub slice: u32,
    /// Where.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// What it uses there.
    #[serde(flatten)]
    pub rates: Rates,
}

/// What an API key does.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyLoadBody {
    /// Which.
    #[serde(rename = "keyID")]
    pub key_id: KeyId,
    /// Whose.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The shard it calls.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its calls, whatever became of them.
    pub calls_per_second: f64,
    /// Those that were refused.
    pub refused_per_second: f64,
}

/// What is voted on.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollLoadBody {
    /// Which.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// Whose.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Where.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its votes, of the items that are voted on most.
    pub votes_per_second: f64,
}

/// What is voted for.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemLoadBody {
    /// Which.
    #[serde(rename = "itemID")]
    pub item_id: ItemId,
    /// Of which poll.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// Whose.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Where.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its votes.
    pub votes_per_second: f64,
    /// Lanes that its counter is spread over.
    pub lanes: u64,
}

/// Which part is asked for.
#[derive(Debug, Clone, Default)]
pub struct LoadFilter {
    /// Only this shard, and what is on it.
    pub shard: Option<ShardId>,
    /// Only this tenant, and the shards it is on.
    pub tenant: Option<TenantId>,
    /// So many tenants at the most.
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

/// What is used now, or was at a moment.
pub async fn show(
    plane: &ControlPlane,
    filter: &LoadFilter,
    at: Option<Timestamp>,
) -> Result<LoadBody> {
    let load = load(plane)?;
    match at {
        None => Ok(load.now(filter)),
        Some(at) => {
            let spans = load.spans();
            let from = window_start(&spans, Window::Long, at);
            let samples = load.recorded(from, at).await?;
            Ok(then(samples, spans, filter))
        }
    }
}

/// What was used at the end of these samples.
fn then(samples: Vec<Sample>, spans: Spans, filter: &LoadFilter) -> LoadBody {
    // What is old was recorded in longer steps: the window must hold some.
    let step_ms = samples
        .last()
        .map_or(spans.step_ms, |last| last.interval.ms);
    let spans = Spans {
        step_ms: step_ms.max(spans.step_ms),
        ..spans
    };
    let newest = samples.last().cloned();
    let mut book = Book::new(spans);
    for sample in samples {
        let _ = book.take(sample);
    }
    body(&book, newest.as_ref(), &VecDeque::new(), filter)
}

/// How hot a shard is.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardHeat {
    /// From 0 to 1: how much of what it can do is done, or how much of the time
    /// its writes wait.
    pub heat: f64,
    /// The dimension that is fullest.
    pub fullest: Option<&'static str>,
    /// Votes a second that it can take; 0 is no limit.
    pub votes_per_second_max: f64,
}

impl Load {
    /// How hot each shard is now; one that was not measured of late is left
    /// out. Cheap, however many tenants there are.
    pub fn heats(&self) -> BTreeMap<ShardId, ShardHeat> {
        self.with_book(|book| {
            let measured = book.shards().filter(|(_, shard)| book.is_fresh(shard));
            let heats = measured.filter_map(|(name, shard)| {
                let view = book.view(shard, Window::Short)?;
                let heat = ShardHeat {
                    heat: Rates::of_view(&view).heat,
                    fullest: view.fill().map(|(dimension, _)| dimension.name()),
                    votes_per_second_max: view.capacity.votes,
                };
                Some((name.clone(), heat))
            });
            heats.collect()
        })
    }

    /// What is used now.
    pub fn now(&self, filter: &LoadFilter) -> LoadBody {
        let known = self.known();
        body(&known.book, known.newest.as_ref(), &known.latencies, filter)
    }
}

fn body(
    book: &Book,
    newest: Option<&Sample>,
    latencies: &VecDeque<HashMap<SliceId, Sketch>>,
    filter: &LoadFilter,
) -> LoadBody {
    let is_known = book
        .shards()
        .any(|(_, shard)| book.is_fresh(shard) && book.view(shard, Window::Short).is_some());
    let step_ms = book.spans().step_ms;
    let young = (!is_known).then(|| newest.map(book_of_one)).flatten();
    let book = young.as_ref().unwrap_or(book);
    let spans = book.spans();
    let mut told = Told::default();
    for (name, shard) in book.shards() {
        let view = book.view(shard, Window::Short);
        let Some(view) = view.filter(|_| book.is_fresh(shard) && filter.has_shard(name)) else {
            continue;
        };
        let is_on_it = told.slices(book, name, shard, &view, filter);
        if filter.tenant.is_some() && !is_on_it {
            continue;
        }
        told.busiest(book, name, shard, &view, filter);
        told.shards
            .push(shard_body(name, shard.slice_count(), &view));
    }
    LoadBody {
        at: book.newest(),
        window_ms: spans.length_ms(Window::Short),
        step_ms,
        ..told.finish(latencies, filter)
    }
}

/// A book with one sample, which is its window.
fn book_of_one(sample: &Sample) -> Book {
    let mut book = Book::new(Spans {
        step_ms: sample.interval.ms.max(1),
        short_steps: 1,
        long_shorts: 2,
    });
    let _ = book.take(sample.clone());
    book
}

fn shard_body(name: &ShardId, slices: usize, view: &ShardView) -> ShardLoadBody {
    let capacity = &view.capacity;
    ShardLoadBody {
        shard_id: name.clone(),
        region: view.region.clone(),
        rates: Rates::of_view(view),
        fullest: view
            .fill()
            .map(|(dimension, _)| dimension.name().to_owned()),
        io_queue: view.io_wait.map(|wait| wait.queue),
        io_fsync: view.io_wait.map(|wait| wait.fsync),
        vote_latency: LatencyBody::of(&view.vote_latency),
        query_latency: LatencyBody::of(&view.query_latency),
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

/// What has been gathered so far.
#[derive(Default)]
struct Told {
    shards: Vec<ShardLoadBody>,
    tenants: BTreeMap<TenantId, (Rates, Vec<SliceLoadBody>)>,
    keys: Vec<KeyLoadBody>,
    items: Vec<(ShardId, ItemView)>,
}

impl Told {
    /// Adds the slices of a shard; whether any is asked for.
    fn slices(
        &mut self,
        book: &Book,
        name: &ShardId,
        shard: &ShardBook,
        view: &ShardView,
        filter: &LoadFilter,
    ) -> bool {
        let mut any = false;
        for (slice, used) in book.slices(shard, Window::Short, view) {
            if !filter.has_tenant(&slice.tenant_id) {
                continue;
            }
            any = true;
            let rates = Rates::of_slice(&used, &view.capacity);
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
    fn busiest(
        &mut self,
        book: &Book,
        name: &ShardId,
        shard: &ShardBook,
        view: &ShardView,
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
                latency: latency(latencies, &tenant_id, &slices),
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
            polls: polls(&self.items),
            items: items(self.items),
            ..LoadBody::default()
        }
    }
}

fn latency(
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
    LatencyBody::of(&all)
}

fn polls(items: &[(ShardId, ItemView)]) -> Vec<PollLoadBody> {
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

fn items(mut items: Vec<(ShardId, ItemView)>) -> Vec<ItemLoadBody> {
    items.sort_by(|(_, a), (_, b)| b.votes.total_cmp(&a.votes));
    items.truncate(BUSIEST);
    let body = |(shard_id, item): (ShardId, ItemView)| ItemLoadBody {
        item_id: item.name.item,
        poll_id: item.name.poll,
        tenant_id: item.name.slice.tenant_id,
        shard_id,
        votes_per_second: item.votes,
        lanes: item.lanes.len() as u64,
    };
    items.into_iter().map(body).collect()
}
