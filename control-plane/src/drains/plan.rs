//! Dry run of a drain: which slices would move where, at what cost.

use ballast_domain::migration::{Migration, MigrationEstimate, MigrationStage, OPEN};
use ballast_domain::placement::{PlacementFleet, PlacementSubject, decide};
use ballast_domain::registry::{RecordKind, RecordQuery, slices_tally};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::{Result, ShardId, TenantId, Timestamp};
use serde::Serialize;

use super::MigrationOptions;
use crate::migrations::finish::{FinishEstimate, FinishTerms};
use crate::migrations::price::PriceEstimator;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Tenants read per page.
const PAGE: u32 = 500;
/// Number of slices to price individually; others are extrapolated.
const PRICED: usize = 200;
/// How long a drain takes from one group of migrations to the next.
const BETWEEN_ROUNDS_MS: u64 = 1_000;

/// A slice that would move, or that has to move and cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedSlice {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Its slice.
    pub slice: u32,
    /// The shard it is on.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The shard it would move to.
    #[serde(rename = "toShardID", skip_serializing_if = "Option::is_none")]
    pub to: Option<ShardId>,
    /// Why it cannot move, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
}

/// Which slices would move where.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetPlan {
    /// The slices, ordered by tenant.
    pub slices: Vec<PlannedSlice>,
    /// How many would move.
    pub moves_total: u64,
    /// How many have to move and cannot.
    pub stuck_total: u64,
    /// How many are moving now.
    pub moving_total: u64,
    /// Whether slices were left out of the list.
    pub more: bool,
    /// The estimated total cost.
    pub price: MigrationEstimate,
    /// When the last of them would be over.
    pub finish: FinishEstimate,
}

/// Plans where up to `limit` slices of a shard would move if it were removed.
pub(super) async fn plan_slices(
    plane: &ControlPlane,
    id: &ShardId,
    limit: usize,
) -> Result<FleetPlan> {
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let terms = vec![slices_tally(id.as_str())];
    let mut then = snapshot.fleet.clone().without(id);
    let mut plan = FleetPlan::default();
    let mut after = None;
    loop {
        let query = RecordQuery {
            terms: terms.clone(),
            after: after.take(),
            ..RecordQuery::all(RecordKind::Tenant, PAGE)
        };
        let page = typed::list::<Tenant>(plane.registry(), &query).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.value.tenant_id.to_string());
        for tenant in &page {
            plan_tenant(&mut plan, &mut then, &tenant.value, id, limit);
        }
        tokio::task::yield_now().await;
    }
    Ok(plan)
}

fn plan_tenant(
    plan: &mut FleetPlan,
    then: &mut PlacementFleet,
    tenant: &Tenant,
    id: &ShardId,
    limit: usize,
) {
    for slice in &tenant.slices {
        if slice.shard_id != *id {
            continue;
        }
        if slice.moving.is_some() {
            plan.moving_total += 1;
            continue;
        }
        let Some(subject) = PlacementSubject::from_slice(tenant, slice.slice) else {
            continue;
        };
        let (to, stays) = match decide(then, &subject).shard_id {
            Some(to) if to == slice.shard_id => continue,
            _ if tenant.status == TenantStatus::Closed => {
                (None, Some("its tenant is closed".to_owned()))
            }
            _ if tenant
                .pin
                .as_ref()
                .is_some_and(|pin| pin.shard_id == slice.shard_id) =>
            {
                (None, Some("its tenant is pinned there".to_owned()))
            }
            Some(to) => (Some(to), None),
            None => (None, Some("no other shard may hold it".to_owned())),
        };
        match &to {
            Some(to) => {
                plan.moves_total += 1;
                // The next slice finds less room there.
                if let Some(shard) = then.get_mut(to) {
                    shard.slices += 1;
                }
            }
            None => plan.stuck_total += 1,
        }
        if plan.slices.len() >= limit {
            plan.more = true;
            continue;
        }
        plan.slices.push(PlannedSlice {
            tenant_id: tenant.tenant_id.clone(),
            slice: slice.slice,
            from: slice.shard_id.clone(),
            to,
            stays,
        });
    }
}

/// Adds the estimated cost. Of very many slices, only the first are priced, and the
/// rest are extrapolated.
pub(super) async fn add_price(
    plane: &ControlPlane,
    mut plan: FleetPlan,
    options: &MigrationOptions,
) -> Result<FleetPlan> {
    let pricer = PriceEstimator::new(plane).await?;
    let mut sum = MigrationEstimate::default();
    let mut asked = 0_u64;
    let mut durations = Vec::new();
    let mut approvals = 0;
    let approval_above = plane.settings().moves.approval_above_rows;
    let moves = plan.slices.iter().filter(|slice| slice.to.is_some());
    for slice in moves.take(PRICED) {
        let Some(to) = &slice.to else { continue };
        let id = SliceId {
            tenant_id: slice.tenant_id.clone(),
            slice: slice.slice,
        };
        let price = pricer.price(plane, &id, &slice.from, to).await?;
        asked += 1;
        durations.push(price.duration_ms);
        approvals += u64::from(approval_above.is_some_and(|most| price.rows > most));
        sum.polls += price.polls;
        sum.rows += price.rows;
        sum.bytes += price.bytes;
        sum.duration_ms += price.duration_ms;
        sum.pause_ms = sum.pause_ms.max(price.pause_ms);
        sum.from_moves = price.from_moves;
        sum.neighbours = sum.neighbours.max(price.neighbours);
    }
    let scale = |part: u64| match asked {
        0 => 0,
        asked => part.saturating_mul(plan.moves_total) / asked,
    };
    sum.polls = scale(sum.polls);
    sum.rows = scale(sum.rows);
    sum.bytes = scale(sum.bytes);
    sum.duration_ms = scale(sum.duration_ms);
    plan.price = sum;
    plan.finish = finish(plane, &plan, options, durations, scale(approvals));
    Ok(plan)
}

/// When the migrations of a drain would be over. Slices beyond the priced ones take as
/// long as these on average.
fn finish(
    plane: &ControlPlane,
    plan: &FleetPlan,
    options: &MigrationOptions,
    mut durations: Vec<u64>,
    approvals: u64,
) -> FinishEstimate {
    let settings = plane.settings();
    let moves = &settings.moves;
    let total = usize::try_from(plan.moves_total).unwrap_or(usize::MAX);
    let priced = durations.len().max(1);
    let mean = durations.iter().sum::<u64>() / priced as u64;
    durations.resize(total, mean);
    for duration in &mut durations {
        *duration += BETWEEN_ROUNDS_MS;
    }
    let at_once = options.concurrency_or_default(plane);
    let at_once = at_once.min(moves.per_shard_max).min(moves.per_region_max);
    let window_ms = options.window_or_default(plane);
    let terms = FinishTerms::new(moves, at_once, window_ms, options.now);
    terms.estimate(&durations, approvals, plane.now())
}

/// The open migrations from and to a shard, and what copies it holds because of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeldCopies {
    /// Running migrations away from it.
    pub(super) leaving: u64,
    /// Those of them that are cut over: it has a copy, and another shard owns the slice.
    pub(super) outgoing: u64,
    /// Migrations to it that are not cut over: it has a copy that it does not own yet.
    pub(super) incoming: u64,
    /// When the last window of these copies ends.
    pub(super) until: Option<Timestamp>,
}

/// Reads the open migrations from and to a shard.
pub(super) async fn held_copies(plane: &ControlPlane, id: &ShardId) -> Result<HeldCopies> {
    let open = async |end: &str| {
        let query = RecordQuery {
            terms: vec![format!("{end}:{id}"), OPEN.to_owned()],
            ..RecordQuery::all(RecordKind::Migration, 10_000)
        };
        typed::list::<Migration>(plane.registry(), &query).await
    };
    let (from, to) = (open("from").await?, open("to").await?);
    let (from, to) = (
        from.iter().map(|it| &it.value),
        to.iter().map(|it| &it.value),
    );
    Ok(HeldCopies::from_migrations(from, to))
}

impl HeldCopies {
    /// Counts the copies. Pure.
    fn from_migrations<'a>(
        from: impl Iterator<Item = &'a Migration>,
        to: impl Iterator<Item = &'a Migration>,
    ) -> Self {
        let is_cut_over = |it: &Migration| match it.stage {
            MigrationStage::CutOver | MigrationStage::Cleaning => true,
            MigrationStage::Asked | MigrationStage::Admitted | MigrationStage::Ended => false,
        };
        let mut held = Self::default();
        for migration in from {
            held.leaving += 1;
            held.outgoing += u64::from(is_cut_over(migration));
            held.until = held.until.max(migration.window_ends_at());
        }
        held.incoming = to.filter(|it| !is_cut_over(it)).count() as u64;
        held
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn migration(stage: &str, cut_over_at: Option<&str>) -> Migration {
        let body = json!({
            "migrationID": "mv-1", "tenantID": "acme", "slice": 0, "fromShardID": "shard-1",
            "toShardID": "shard-2", "regions": [], "actor": {"type": "ballast", "name": "move"},
            "requestedAt": "2026-11-16T09:00:00Z", "terms": {"windowMs": 7_200_000}, "stage": stage,
            "figures": {"rows": 0, "bytes": 0, "cutOverAt": cut_over_at},
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn a_copy_in_its_window_is_no_slice_that_is_left() {
        let cut = migration("cutOver", Some("2026-11-16T09:00:00Z"));
        let from = [cut, migration("admitted", None), migration("asked", None)];
        let to = [migration("admitted", None), migration("cleaning", None)];
        let held = HeldCopies::from_migrations(from.iter(), to.iter());
        assert_eq!((held.leaving, held.outgoing, held.incoming), (3, 1, 1));
        assert_eq!(held.until.unwrap().to_string(), "2026-11-16T11:00:00.000Z");
    }
}
