//! Previews: which slices would move if the fleet changed, and which are due to
//! move now. A preview reads every tenant and changes nothing.

use ballast_domain::error::ErrorCode;
use ballast_domain::object::optional_object;
use ballast_domain::placement::{PlacementFleet, PlacementShard, PlacementSubject, decide};
use ballast_domain::registry::{Entity, RecordKind, RecordQuery};
use ballast_domain::tenant::Tenant;
use ballast_domain::{Error, Result, ShardId, TenantId};
use serde::{Deserialize, Serialize};

use crate::fleet::VersionedFleet;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::shards::{self, NewShard};
use crate::validate;

/// A fleet change to try out; set exactly one field.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = FleetChange)]
pub struct FleetChangeBody {
    /// A shard to add.
    #[serde(
        default,
        deserialize_with = "optional_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub add: Option<NewShard>,
    /// A shard to remove or drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<ShardId>,
    /// A shard to give another weight.
    #[serde(
        default,
        deserialize_with = "optional_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub weight: Option<WeightChange>,
}

/// Another weight for a shard.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WeightChange {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its new weight.
    #[schema(minimum = 0.001, maximum = 1_000_000)]
    pub weight: f64,
}

/// Which slices would move.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The slices that would move, ordered by tenant.
    pub items: Vec<PreviewedMove>,
    /// The cursor of the next page.
    pub next_cursor: Option<String>,
    /// Total number of slices.
    pub slices_total: u64,
    /// Number of slices that would move, on all pages.
    pub moves_total: u64,
    /// How many of them are due to move already, without the change.
    pub already_due_total: u64,
    /// The change in slices on each shard.
    pub shards: Vec<ShardTraffic>,
}

/// One slice that would move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedMove {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Its slice.
    pub slice: u32,
    /// The shard it is on.
    #[serde(rename = "fromShardID")]
    pub from_shard_id: ShardId,
    /// The shard it would belong on; `null` when no shard may hold it.
    #[serde(rename = "toShardID")]
    pub to_shard_id: Option<ShardId>,
    /// Whether it is due to move there already, without the change.
    pub already_due: bool,
}

/// The change in slices on a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardTraffic {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Slices it would gain.
    pub gains: u64,
    /// Slices it would lose.
    pub losses: u64,
    /// Slices it would hold afterwards.
    pub slices_after: u64,
    /// Maximum number of slices it may hold.
    pub max_slices: u64,
}

/// Lists the slices that would move after a fleet change; without a change, those
/// that are due to move now. Changes nothing.
pub async fn preview(
    plane: &ControlPlane,
    change: Option<&FleetChangeBody>,
    after: Option<&str>,
    limit: u32,
) -> Result<Preview> {
    let _permit = plane.preview_permit().await;
    let now = plane.fleet().refresh(plane.registry()).await?;
    let then = match change {
        None => now.fleet.clone(),
        Some(change) => apply_change(plane, &now, change)?,
    };
    let mut tally = MoveTally::new(&now.fleet, &then);
    let mut items = Vec::new();
    let mut more = false;
    let mut page_after: Option<String> = None;
    loop {
        let query = RecordQuery {
            after: page_after.take(),
            ..RecordQuery::all(RecordKind::Tenant, 1_000)
        };
        let page: Vec<Versioned<Tenant>> = typed::list(plane.registry(), &query).await?;
        let Some(last) = page.last() else { break };
        page_after = Some(last.value.record_id().to_owned());
        for tenant in &page {
            let wanted = after.is_none_or(|after| tenant.value.tenant_id.as_str() > after);
            for found in due_moves(&tenant.value, &now.fleet, &then, &mut tally) {
                // Keep all slices of a tenant on one page.
                let room = items.len() < limit as usize
                    || items
                        .last()
                        .is_some_and(|last: &PreviewedMove| last.tenant_id == found.tenant_id);
                if wanted && room {
                    items.push(found);
                } else {
                    more |= wanted;
                }
            }
        }
        // A million tenants take seconds: yield to other tasks.
        tokio::task::yield_now().await;
    }
    Ok(Preview {
        next_cursor: items
            .last()
            .filter(|_| more)
            .map(|last| last.tenant_id.to_string()),
        items,
        slices_total: tally.slices,
        moves_total: tally.moves,
        already_due_total: tally.already_due,
        shards: tally.shards,
    })
}

fn due_moves(
    tenant: &Tenant,
    now: &PlacementFleet,
    then: &PlacementFleet,
    tally: &mut MoveTally,
) -> Vec<PreviewedMove> {
    let mut moves = Vec::new();
    for slice in &tenant.slices {
        let Some(subject) = PlacementSubject::from_slice(tenant, slice.slice) else {
            continue;
        };
        let belongs = decide(then, &subject).shard_id;
        tally.slices += 1;
        if belongs.as_ref() == Some(&slice.shard_id) {
            continue;
        }
        let already_due = decide(now, &subject).shard_id == belongs;
        tally.already_due += u64::from(already_due);
        tally.add(&slice.shard_id, belongs.as_ref());
        moves.push(PreviewedMove {
            tenant_id: tenant.tenant_id.clone(),
            slice: slice.slice,
            from_shard_id: slice.shard_id.clone(),
            to_shard_id: belongs,
            already_due,
        });
    }
    moves
}

struct MoveTally {
    slices: u64,
    already_due: u64,
    moves: u64,
    shards: Vec<ShardTraffic>,
}

impl MoveTally {
    fn new(now: &PlacementFleet, then: &PlacementFleet) -> Self {
        let gone = now
            .shards()
            .iter()
            .filter(|shard| then.get(&shard.id).is_none());
        let shards = then.shards().iter().chain(gone).map(|shard| ShardTraffic {
            shard_id: shard.id.clone(),
            gains: 0,
            losses: 0,
            slices_after: shard.slices,
            max_slices: shard.max_slices,
        });
        let mut shards: Vec<_> = shards.collect();
        shards.sort_by(|one, two| one.shard_id.cmp(&two.shard_id));
        Self {
            slices: 0,
            already_due: 0,
            moves: 0,
            shards,
        }
    }

    fn add(&mut self, from: &ShardId, to: Option<&ShardId>) {
        self.moves += 1;
        if to.is_none() {
            // No shard may hold it: it stays for now.
            return;
        }
        if let Some(shard) = self.shard(from) {
            shard.losses += 1;
            shard.slices_after = shard.slices_after.saturating_sub(1);
        }
        if let Some(shard) = to.and_then(|to| self.shard(to)) {
            shard.gains += 1;
            shard.slices_after += 1;
        }
    }

    fn shard(&mut self, id: &ShardId) -> Option<&mut ShardTraffic> {
        let place = self
            .shards
            .binary_search_by(|shard| shard.shard_id.cmp(id))
            .ok()?;
        self.shards.get_mut(place)
    }
}

/// The fleet after a change.
fn apply_change(
    plane: &ControlPlane,
    now: &VersionedFleet,
    change: &FleetChangeBody,
) -> Result<PlacementFleet> {
    let fleet = now.fleet.clone();
    match change {
        FleetChangeBody {
            add: Some(new),
            remove: None,
            weight: None,
        } => {
            if fleet.get(&new.shard_id).is_some() {
                let detail = format!("there is a shard {:?} already", new.shard_id.as_str());
                return Err(Error::new(ErrorCode::ShardExists, detail));
            }
            Ok(fleet.with(PlacementShard::new(&shards::build_shard(plane, new)?, 0)))
        }
        FleetChangeBody {
            add: None,
            remove: Some(id),
            weight: None,
        } => {
            if fleet.get(id).is_none() {
                return Err(shards::not_found(plane, id));
            }
            Ok(fleet.without(id))
        }
        FleetChangeBody {
            add: None,
            remove: None,
            weight: Some(WeightChange { shard_id, weight }),
        } => {
            validate::weight("/weight/weight", *weight)?;
            let mut fleet = fleet;
            let Some(shard) = fleet.get_mut(shard_id) else {
                return Err(shards::not_found(plane, shard_id));
            };
            shard.weight = *weight;
            Ok(fleet)
        }
        _ => Err(Error::invalid_field(
            "",
            "set exactly one of add, remove and weight",
        )),
    }
}
