//! The planner's view of the fleet: the registry's shards and slices, with their
//! measured load.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::registry::{RecordKind, RecordQuery};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::{Result, ShardId};
use ballast_hotspot_detector::load::{LoadHistory, ShardWindow, Window};
use ballast_hotspot_detector::plan::{self, Approval, Dial, MigrationPace, PlanTerms, Prices};
use ballast_hotspot_detector::resources::Resources;

use crate::plane::ControlPlane;
use crate::registry::typed;

/// Tenants read per page.
const PAGE: u32 = 1_000;

/// The scope of a plan.
#[derive(Debug, Clone)]
pub enum PlanScope {
    /// All slices.
    All,
    /// Slices on these shards; others stay where they are.
    Shards(BTreeSet<ShardId>),
}

impl PlanScope {
    fn contains(&self, shard: &ShardId) -> bool {
        match self {
            Self::All => true,
            Self::Shards(shards) => shards.contains(shard),
        }
    }
}

/// Reads the fleet as it is now.
pub async fn read(plane: &ControlPlane, of: &PlanScope) -> Result<plan::FleetSnapshot> {
    // Without measured load, the planner can still place slices.
    let book = plane
        .load_monitor()
        .map(|load| load.book())
        .unwrap_or_default();
    let registry = plane.registry();
    let revision = registry.revision().await?;
    let snapshot = plane.fleet().refresh(registry).await?;
    let settings = plane.settings();
    let known = MeasuredLoad::from_book(&book);
    let mut slices = Vec::new();
    let mut after = None;
    loop {
        let query = RecordQuery {
            after: after.take(),
            ..RecordQuery::all(RecordKind::Tenant, PAGE)
        };
        let page = typed::list::<Tenant>(registry, &query).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.value.tenant_id.to_string());
        for tenant in &page {
            slices.extend(planner_slices(&tenant.value, &known, of));
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
        let mut shard = plan::PlanShard::new(record.clone(), capacity);
        (shard.limit, shard.goal) = (settings.hotspots.limit, settings.hotspots.goal);
        if let Some(measured) = measured {
            shard.overhead = unattributed_load(&record.shard_id, &measured.used, &slices);
        }
        shards.push(shard);
    }
    Ok(plan::FleetSnapshot {
        revision,
        at: plane.now(),
        shards,
        slices,
    })
}

/// Measured load, over the long window where possible.
struct MeasuredLoad {
    shards: BTreeMap<ShardId, ShardWindow>,
    slices: BTreeMap<(ShardId, SliceId), Resources>,
}

impl MeasuredLoad {
    fn from_book(book: &LoadHistory) -> Self {
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

fn planner_slices<'a>(
    tenant: &'a Tenant,
    known: &'a MeasuredLoad,
    of: &'a PlanScope,
) -> impl Iterator<Item = plan::PlanSlice> + 'a {
    tenant.slices.iter().map(move |slice| {
        let id = SliceId {
            tenant_id: tenant.tenant_id.clone(),
            slice: slice.slice,
        };
        let place = (slice.shard_id.clone(), id.clone());
        let demand = known.slices.get(&place).copied().unwrap_or_default();
        plan::PlanSlice {
            id,
            shard_id: slice.shard_id.clone(),
            bytes: demand.storage.max(0.0) as u64,
            demand,
            home_region: tenant.home_region.clone(),
            residency: tenant.residency.clone(),
            zones: tenant.zones.clone(),
            pin: tenant.pin.clone().map(Box::new),
            dial: match of.contains(&slice.shard_id) {
                true => tenant.dial,
                // Slices on other shards are out of scope.
                false => Dial::Pause,
            },
            placed_at: slice.placed_at,
            passed_over: slice.passed_over.clone(),
            moving_to: slice.moving.as_ref().map(|moving| moving.to.clone()),
            closed: tenant.status == TenantStatus::Closed,
        }
    })
}

/// The part of a shard's use that belongs to no slice. Storage is measured
/// differently for files and rows; the difference may be freed at any time.
fn unattributed_load(shard: &ShardId, used: &Resources, slices: &[plan::PlanSlice]) -> Resources {
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

/// Creates the planner's terms from the settings.
pub fn create_plan_terms(plane: &ControlPlane) -> PlanTerms {
    let settings = plane.settings();
    let (moves, hotspots) = (&settings.moves, &settings.hotspots);
    let usual = MigrationPace::default();
    let at_a_time = u32::try_from(moves.per_shard_max).unwrap_or(u32::MAX);
    PlanTerms {
        settle_seconds: i64::try_from(hotspots.settle_ms / 1_000).unwrap_or(i64::MAX),
        moves_max: hotspots.moves_max,
        pace: MigrationPace {
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
        ..PlanTerms::default()
    }
}
