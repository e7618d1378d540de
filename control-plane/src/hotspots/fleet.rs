//! The planner's view of the fleet: the registry's shards and slices, with their
//! measured load.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::registry::{RecordKind, RecordQuery};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::{Result, ShardId, TenantId};
use ballast_hotspot_detector::load::{LoadHistory, ShardWindow, Window};
use ballast_hotspot_detector::plan::{self, Approval, MigrationPace, PlanTerms, Prices};
use ballast_hotspot_detector::resources::Resources;

use crate::drains::MigrationOptions;
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
            shard.overhead = known.unattributed_load(&record.shard_id, &measured.used);
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
    /// The measured slices of each tenant.
    tenants: BTreeMap<TenantId, Vec<MeasuredSlice>>,
    /// The sum of the measured slices of each shard.
    on_shards: BTreeMap<ShardId, Resources>,
}

/// The load of a slice on one shard.
struct MeasuredSlice {
    slice: u32,
    used: Resources,
}

impl MeasuredLoad {
    fn from_book(book: &LoadHistory) -> Self {
        let mut known = Self {
            shards: BTreeMap::new(),
            tenants: BTreeMap::new(),
            on_shards: BTreeMap::new(),
        };
        for (name, shard) in book.shards() {
            let views =
                [Window::Long, Window::Short].map(|window| (window, book.view(shard, window)));
            let Some((window, view)) = views.into_iter().find_map(|(w, v)| Some((w, v?))) else {
                continue;
            };
            for (slice, used) in book.slices(shard, window, &view) {
                known.add_slice(name, slice, used.used);
            }
            known.shards.insert(name.clone(), view);
        }
        known
    }

    fn add_slice(&mut self, shard: &ShardId, id: &SliceId, used: Resources) {
        let of = self.tenants.entry(id.tenant_id.clone()).or_default();
        of.push(MeasuredSlice {
            slice: id.slice,
            used,
        });
        *self.on_shards.entry(shard.clone()).or_default() += used;
    }

    /// The load of a slice. Part of it may have been measured on another shard, before
    /// it moved, or for the slice that it was split from: of that it has its share.
    fn demand(&self, tenant: &Tenant, slice: u32) -> Resources {
        let mut own = Resources::default();
        let mut gone = Resources::default();
        let measured = self.tenants.get(&tenant.tenant_id);
        for one in measured.map_or(&[][..], Vec::as_slice) {
            if one.slice == slice {
                own += one.used;
            } else if tenant.slices.iter().all(|part| part.slice != one.slice) {
                gone += one.used;
            }
        }
        own + gone.times(1.0 / tenant.slices.len().max(1) as f64)
    }

    /// The part of a shard's use that was measured for no slice. Storage is measured
    /// differently for files and rows; the difference may be freed at any time.
    fn unattributed_load(&self, shard: &ShardId, used: &Resources) -> Resources {
        let sum = self.on_shards.get(shard).copied().unwrap_or_default();
        let rest = |used: f64, sum: f64| (used - sum).max(0.0);
        Resources {
            votes: rest(used.votes, sum.votes),
            queries: rest(used.queries, sum.queries),
            bytes: rest(used.bytes, sum.bytes),
            storage: rest(used.storage, sum.storage),
            concurrency: rest(used.concurrency, sum.concurrency),
        }
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
        let demand = known.demand(tenant, slice.slice);
        plan::PlanSlice {
            id,
            shard_id: slice.shard_id.clone(),
            bytes: demand.storage.max(0.0) as u64,
            demand,
            home_region: tenant.home_region.clone(),
            residency: tenant.residency.clone(),
            zones: tenant.zones.clone(),
            pin: tenant.pin.clone().map(Box::new),
            dial: tenant.dial,
            in_scope: of.contains(&slice.shard_id),
            placed_at: slice.placed_at,
            passed_over: slice.passed_over.clone(),
            moving_to: slice.moving.as_ref().map(|moving| moving.to.clone()),
            closed: tenant.status == TenantStatus::Closed,
        }
    })
}

/// Changes the times of a plan to those of the requested options.
pub(super) fn follow_options(
    terms: &mut PlanTerms,
    plane: &ControlPlane,
    options: &MigrationOptions,
) {
    let at_a_time = options.concurrency_or_default(plane);
    terms.pace.at_a_time = u32::try_from(at_a_time).unwrap_or(u32::MAX);
    terms.pace.window_seconds = options.window_or_default(plane) / 1_000;
    if options.now {
        terms.windows.clear();
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
            at_a_time,
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

#[cfg(test)]
mod tests {
    use ballast_hotspot_detector::plan::Dial;

    use super::*;

    fn tenant(slices: &[u32], on: &str) -> Tenant {
        let slice = |number: &u32| {
            serde_json::json!({"slice": number, "shardID": on, "epoch": 1,
                "placedAt": "2026-11-16T09:00:00Z"})
        };
        let slices: Vec<_> = slices.iter().map(slice).collect();
        let body = serde_json::json!({"tenantID": "acme", "name": "acme", "status": "active",
            "homeRegion": "eu", "residency": {"policy": "strict"}, "slices": slices, "zones": [],
            "limits": {}, "corsOrigins": [],
            "createdAt": "2026-11-16T09:00:00Z"});
        serde_json::from_value(body).unwrap()
    }

    fn measured(on: &str, slice: u32) -> MeasuredLoad {
        let used = Resources {
            votes: 50.0,
            ..Resources::default()
        };
        let id = SliceId {
            tenant_id: "acme".parse().unwrap(),
            slice,
        };
        let mut known = MeasuredLoad {
            shards: BTreeMap::new(),
            tenants: BTreeMap::new(),
            on_shards: BTreeMap::new(),
        };
        known.add_slice(&on.parse().unwrap(), &id, used);
        known
    }

    #[test]
    fn a_slice_that_a_plan_does_not_concern_keeps_its_dial() {
        let scope = PlanScope::Shards(BTreeSet::from(["shard-2".parse().unwrap()]));
        let tenant = tenant(&[0], "shard-1");
        let known = measured("shard-1", 0);
        let slices: Vec<_> = planner_slices(&tenant, &known, &scope).collect();
        assert_eq!((slices[0].dial, slices[0].in_scope), (Dial::Active, false));
    }

    /// After a split or a move the last measurements name slices that are gone.
    #[test]
    fn the_load_of_a_slice_that_was_just_split_or_moved_is_its_tenants() {
        let votes = |tenant: &Tenant, known: &MeasuredLoad| -> Vec<f64> {
            let slices = planner_slices(tenant, known, &PlanScope::All);
            slices.map(|slice| slice.demand.votes).collect()
        };
        let known = measured("shard-1", 0);
        assert_eq!(votes(&tenant(&[1, 2], "shard-1"), &known), [25.0, 25.0]);
        assert_eq!(votes(&tenant(&[0], "shard-2"), &known), [50.0]);
        // The slice itself was measured, too.
        assert_eq!(votes(&tenant(&[0], "shard-1"), &known), [50.0]);
        // All of the shard's use is the tenant's.
        let shard = "shard-1".parse().unwrap();
        let used = known.on_shards[&shard];
        assert_eq!(known.unattributed_load(&shard, &used).votes, 0.0);
    }
}
