//! Which slices go where, and what that costs. Nothing is done.

use ballast_domain::migration::{Migration, OPEN, Price};
use ballast_domain::placement::{Fleet, Subject, decide};
use ballast_domain::registry::{Kind, RecordQuery, slices_on};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::{Result, ShardId, TenantId};
use serde::Serialize;

use crate::migrations::price::Pricer;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Tenants read at a time.
const PAGE: u32 = 500;
/// Slices that are priced one by one; what is beyond is reckoned from these.
const PRICED: usize = 200;

/// A slice that would move, or that would have to and cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedSlice {
    /// Whose.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Which of its slices.
    pub slice: u32,
    /// Where it is.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// Where it would go.
    #[serde(rename = "toShardID", skip_serializing_if = "Option::is_none")]
    pub to: Option<ShardId>,
    /// Why it stays, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
}

/// Which slices would go where.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetPlan {
    /// The slices, in the order of their tenants.
    pub slices: Vec<PlannedSlice>,
    /// How many would move.
    pub moves_total: u64,
    /// How many would have to, and cannot.
    pub stuck_total: u64,
    /// How many are moving at this moment.
    pub moving_total: u64,
    /// Whether there are more than are named here.
    pub more: bool,
    /// What all of it is expected to cost.
    pub price: Price,
}

/// Where the slices of a shard go, as if it were not there; at the most `limit`.
pub(super) async fn slices(plane: &ControlPlane, id: &ShardId, limit: usize) -> Result<FleetPlan> {
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let terms = vec![slices_on(id.as_str())];
    let mut then = snapshot.fleet.clone().without(id);
    let mut plan = FleetPlan::default();
    let mut after = None;
    loop {
        let query = RecordQuery {
            terms: terms.clone(),
            after: after.take(),
            ..RecordQuery::all(Kind::Tenant, PAGE)
        };
        let page = typed::list::<Tenant>(plane.registry(), &query).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.value.tenant_id.to_string());
        for tenant in &page {
            add(&mut plan, &mut then, &tenant.value, id, limit);
        }
        tokio::task::yield_now().await;
    }
    Ok(plan)
}

fn add(plan: &mut FleetPlan, then: &mut Fleet, tenant: &Tenant, id: &ShardId, limit: usize) {
    for slice in &tenant.slices {
        if slice.shard_id != *id {
            continue;
        }
        if slice.moving.is_some() {
            plan.moving_total += 1;
            continue;
        }
        let Some(subject) = Subject::of(tenant, slice.slice) else {
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
                // The next one finds less room there.
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

/// Adds what it is expected to cost. Of very many slices the first are asked,
/// and the others taken to be like them.
pub(super) async fn priced(plane: &ControlPlane, mut plan: FleetPlan) -> Result<FleetPlan> {
    let pricer = Pricer::new(plane).await?;
    let mut sum = Price::default();
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

/// Moves that leave a shard and are not over: it holds copies of their slices.
pub(super) async fn leaving(plane: &ControlPlane, id: &ShardId) -> Result<usize> {
    let query = RecordQuery {
        terms: vec![format!("from:{id}"), OPEN.to_owned()],
        ..RecordQuery::all(Kind::Migration, 10_000)
    };
    let open = typed::list::<Migration>(plane.registry(), &query).await?;
    Ok(open.len())
}
