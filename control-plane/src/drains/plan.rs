//! Dry run of a drain: which slices would move where, at what cost.

use ballast_domain::migration::{Migration, MigrationEstimate, OPEN};
use ballast_domain::placement::{PlacementFleet, PlacementSubject, decide};
use ballast_domain::registry::{RecordKind, RecordQuery, slices_tally};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::{Result, ShardId, TenantId};
use serde::Serialize;

use crate::migrations::price::PriceEstimator;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Tenants read per page.
const PAGE: u32 = 500;
/// Number of slices to price individually; others are extrapolated.
const PRICED: usize = 200;

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
pub(super) async fn add_price(plane: &ControlPlane, mut plan: FleetPlan) -> Result<FleetPlan> {
    let pricer = PriceEstimator::new(plane).await?;
    let mut sum = MigrationEstimate::default();
    let mut asked = 0_u64;
    let moves = plan.slices.iter().filter(|slice| slice.to.is_some());
    for slice in moves.take(PRICED) {
        let Some(to) = &slice.to else { continue };
        let id = SliceId {
            tenant_id: slice.tenant_id.clone(),
            slice: slice.slice,
        };
        let price = pricer.price(plane, &id, &slice.from, to).await?;
        asked += 1;
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
    Ok(plan)
}

/// Counts running migrations away from a shard. It holds copies of their slices.
pub(super) async fn count_leaving(plane: &ControlPlane, id: &ShardId) -> Result<usize> {
    let query = RecordQuery {
        terms: vec![format!("from:{id}"), OPEN.to_owned()],
        ..RecordQuery::all(RecordKind::Migration, 10_000)
    };
    let open = typed::list::<Migration>(plane.registry(), &query).await?;
    Ok(open.len())
}
