//! The fleet as the planner sees it: the registry's shards and slices with the
//! load that was measured on them.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::registry::{Kind, RecordQuery};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::{Result, ShardId};
use ballast_hotspot_detector::load::{Book, ShardView, Window};
use ballast_hotspot_detector::plan::{self, Approval, Dial, Pace, Prices, Terms};
use ballast_hotspot_detector::resources::Resources;

use crate::plane::ControlPlane;
use crate::registry::typed;

/// Tenants read at a time.
const PAGE: u32 = 1_000;

/// Which slices a plan is for.
#[derive(Debug, Clone)]
pub enum Of {
    /// All of them.
    All,
    /// Those on these shards; the others are left where they are.
    Shards(BTreeSet<ShardId>),
}

impl Of {
    fn has(&self, shard: &ShardId) -> bool {
        match self {
            Self::All => true,
            Self::Shards(shards) => shards.contains(shard),
        }
    }
}

/// The fleet at this moment.
pub async fn read(plane: &ControlPlane, of: &Of) -> Result<plan::Fleet> {
    // Without load there are still places where slices belong.
    let book = plane.load().map(|load| load.book()).unwrap_or_default();
    let registry = plane.registry();
    let revision = registry.revision().await?;
    let snapshot = plane.fleet().refresh(registry).await?;
    let settings = plane.settings();
    let known = Known::of(&book);
    let mut slices = Vec::new();
    let mut after = None;
    loop {
        let query = RecordQuery {
            after: after.take(),
            ..RecordQuery::all(Kind::Tenant, PAGE)
        };
        let page = typed::list::<Tenant>(registry, &query).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.value.tenant_id.to_string());
        for tenant in &page {
            slices.extend(parts(&tenant.value, &known, of));
        }
        tokio::task::yield_now().await;
    }
    let mut shards = Vec::new();
    for record in snapshot.shards().iter().map(|shard| &shard.value) {
        let measured = known.shards.get(&record.shard_id);
        let capacity = match measured {
            Some(measured) => measured.capacity,
            None => settings.load.capacity.times(record.weight),
        };
        let mut shard = plan::Shard::new(record.clone(), capacity);
        (shard.limit, shard.goal) = (settings.hotspots.limit, settings.hotspots.goal);
        if let Some(measured) = measured {
            shard.overhead = overhead(&record.shard_id, &measured.used, &slices);
        }
        shards.push(shard);
    }
    Ok(plan::Fleet {
        revision,
        at: plane.now(),
        shards,
        slices,
    })
}

/// What was measured, over the long window where there is one.
struct Known {
    shards: BTreeMap<ShardId, ShardView>,
    slices: BTreeMap<(ShardId, SliceId), Resources>,
}

impl Known {
    fn of(book: &Book) -> Self {
        let mut known = Self {
            shards: BTreeMap::new(),
            slices: BTreeMap::new(),
        };
        for (name, shard) in book.shards() {
            let views =
                [Window::Long, Window::Short].map(|window| (window, book.view(shard, window)));
            let Some((window, view)) = views.into_iter().find_map(|(w, v)| Some((w, v?))) else {
                continue;
            };
            for (slice, used) in book.slices(shard, window, &view) {
                known
                    .slices
                    .insert((name.clone(), slice.clone()), used.used);
            }
            known.shards.insert(name.clone(), view);
        }
        known
    }
}

fn parts<'a>(
    tenant: &'a Tenant,
    known: &'a Known,
    of: &'a Of,
) -> impl Iterator<Item = plan::Slice> + 'a {
    tenant.slices.iter().map(move |slice| {
        let id = SliceId {
            tenant_id: tenant.tenant_id.clone(),
            slice: slice.slice,
        };
        let place = (slice.shard_id.clone(), id.clone());
        let demand = known.slices.get(&place).copied().unwrap_or_default();
        plan::Slice {
            id,
            shard_id: slice.shard_id.clone(),
            bytes: demand.storage.max(0.0) as u64,
            demand,
            home_region: tenant.home_region.clone(),
            residency: tenant.residency.clone(),
            zones: tenant.zones.clone(),
            pin: tenant.pin.clone().map(Box::new),
            dial: match of.has(&slice.shard_id) {
                true => tenant.dial,
                // What is on other shards is not this plan's.
                false => Dial::Pause,
            },
            placed_at: slice.placed_at,
            passed_over: slice.passed_over.clone(),
            moving_to: slice.moving.as_ref().map(|moving| moving.to.clone()),
            closed: tenant.status == TenantStatus::Closed,
        }
    })
}

/// What a shard uses for no slice in particular. Storage is told of files and
/// of rows in different ways: what is not a slice's may be freed at any time.
fn overhead(shard: &ShardId, used: &Resources, slices: &[plan::Slice]) -> Resources {
    let mut sum = Resources::default();
    for slice in slices.iter().filter(|slice| slice.shard_id == *shard) {
        sum += slice.demand;
    }
    let rest = |used: f64, sum: f64| (used - sum).max(0.0);
    Resources {
        votes: rest(used.votes, sum.votes),
        queries: rest(used.queries, sum.queries),
        bytes: rest(used.bytes, sum.bytes),
        storage: rest(used.storage, sum.storage),
        concurrency: rest(used.concurrency, sum.concurrency),
    }
}

/// The terms of a plan.
pub fn terms(plane: &ControlPlane) -> Terms {
    let settings = plane.settings();
    let (moves, hotspots) = (&settings.moves, &settings.hotspots);
    let usual = Pace::default();
    let at_a_time = u32::try_from(moves.per_shard_max).unwrap_or(u32::MAX);
    Terms {
        settle_seconds: i64::try_from(hotspots.settle_ms / 1_000).unwrap_or(i64::MAX),
        moves_max: hotspots.moves_max,
        pace: Pace {
            out_at_a_time: at_a_time,
            in_at_a_time: at_a_time,
            bytes_per_second: moves.bytes_per_second.unwrap_or(usual.bytes_per_second),
            window_seconds: moves.window_ms / 1_000,
            ..usual
        },
        prices: Prices::default(),
        windows: moves.maintenance.clone(),
        approval: Approval::default(),
        freezes: plane
            .calendar()
            .map(|calendar| calendar.freezes())
            .unwrap_or_default(),
        ..Terms::default()
    }
}
