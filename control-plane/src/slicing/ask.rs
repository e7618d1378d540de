//! A split or a merge is asked for: checked, planned, and written into the
//! tenant's record. Whoever looks after the record does the rest.

use std::collections::BTreeMap;

use ballast_domain::bounds::SLICES_PER_TENANT_MAX;
use ballast_domain::error::ErrorCode;
use ballast_domain::moving::MoveId;
use ballast_domain::placement::{Fleet, Subject, decide};
use ballast_domain::registry::CommitError;
use ballast_domain::slicing::{Layout, Slicing};
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::{Error, Result, ShardId, TenantId};
use ballast_migration_engine::protocol::recut::{self, Refused};
use serde::{Deserialize, Serialize};

use super::work::{go_on, open_move};
use crate::change::commit_failed;
use crate::intent::Intent;
use crate::migrations::begin::fresh;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::tenants;

/// How often it is decided anew because something changed meanwhile.
const ATTEMPTS: usize = 16;

/// What a caller says of a split.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSplit {
    /// How many slices the tenant is to have in all: a power of two.
    #[schema(minimum = 2, maximum = 64)]
    pub into: u32,
    /// Leaves the slices on the shard on which they are cut. Otherwise those
    /// that belong elsewhere are moved there afterwards.
    #[serde(default)]
    pub stay: bool,
    /// Only says what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a caller says of a merge.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMerge {
    /// How many slices the tenant is to have in all: a power of two; one when
    /// absent.
    #[schema(minimum = 1, maximum = 32)]
    #[serde(default = "one")]
    pub into: u32,
    /// Only says what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

fn one() -> u32 {
    1
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// More slices.
    Split {
        /// So many.
        into: u32,
        /// Whether they are moved where they belong.
        spread: bool,
    },
    /// Fewer slices.
    Merge {
        /// So many.
        into: u32,
    },
}

impl Wanted {
    fn into(self) -> u32 {
        match self {
            Self::Split { into, .. } | Self::Merge { into } => into,
        }
    }

    fn spread(self) -> bool {
        matches!(self, Self::Split { spread: true, .. })
    }

    fn action(self) -> &'static str {
        match self {
            Self::Split { .. } => "tenant.split",
            Self::Merge { .. } => "tenant.merge",
        }
    }
}

/// What would be done.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlicingPlan {
    /// Always true: nothing was done.
    pub dry_run: bool,
    /// Whose slices.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// How many slices there are.
    pub slices: u32,
    /// How many there would be.
    pub into: u32,
    /// Each cut, in order.
    pub cuts: Vec<PlannedCut>,
    /// Moves that would be begun afterwards.
    pub moves: Vec<PlannedMove>,
}

/// A cut that would be made, in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCut {
    /// The shard on which it would be made.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The slices that would end.
    pub parents: Vec<u32>,
    /// Those that would take their place.
    pub children: Vec<u32>,
}

/// A slice that would be moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedMove {
    /// The slice.
    pub slice: u32,
    /// The shard that it would leave.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The shard that it would come to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
}

/// Says what would be done; refuses what would be refused.
pub async fn plan(plane: &ControlPlane, id: &TenantId, wanted: Wanted) -> Result<SlicingPlan> {
    let tenant = tenants::get(plane, id).await?;
    checked(plane, &tenant.value, wanted).await
}

/// Asks for it, and goes on with it for as long as nothing is in the way.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    wanted: Wanted,
) -> Result<Versioned<Tenant>> {
    written(plane, intent, id, wanted).await?;
    // By itself: a caller that goes away leaves no slice sealed.
    let (own, tenant) = (plane.clone(), id.clone());
    let going = tokio::spawn(async move { go_on(&own, &own.clock(), &tenant).await });
    // What fails here is made good by the watchman.
    if let Ok(Err(error)) = going.await {
        tracing::warn!(%id, %error, "a tenant's slices could not be cut yet, and will be");
    }
    tenants::get(plane, id).await
}

async fn written(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    wanted: Wanted,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let _turn = plane.turn(id.as_str()).await;
        let mut tenant = tenants::get(plane, id).await?;
        checked(plane, &tenant.value, wanted).await?;
        tenant.value.slicing = Some(Slicing {
            into: wanted.into(),
            spread: wanted.spread(),
            actor: intent.actor.clone(),
            reason: intent.reason.clone(),
            asked_at: plane.now(),
            failures: 0,
            not_before: None,
            recut: None,
        });
        let write = typed::update(tenant.version, &tenant.value)?;
        tenant.version += 1;
        let commit = intent.create(plane, wanted.action(), vec![write], Vec::new(), &tenant)?;
        match plane.registry().commit(commit).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { .. }) => {}
            Err(other) => return Err(commit_failed(other)),
        }
    }
    Err(Error::new(ErrorCode::Busy, "the tenant kept changing").retry_after(1))
}

/// Whether it may be, and what it would be.
async fn checked(plane: &ControlPlane, tenant: &Tenant, wanted: Wanted) -> Result<SlicingPlan> {
    let (id, into) = (&tenant.tenant_id, wanted.into());
    if !into.is_power_of_two() || into > SLICES_PER_TENANT_MAX {
        let message = format!("{into} is not 1, 2, 4, … {SLICES_PER_TENANT_MAX}");
        return Err(Error::invalid_field("/into", message));
    }
    if tenant.status == TenantStatus::Closed {
        let detail = format!("tenant {:?} is closed", id.as_str());
        return Err(Error::new(ErrorCode::TenantClosed, detail));
    }
    if let Some(slicing) = &tenant.slicing {
        let detail = format!("{id} is being cut into {} slices", slicing.into);
        let error = Error::new(ErrorCode::MoveInProgress, detail);
        return Err(error.next("Wait until it is done (tenant show)."));
    }
    let layout = tenant.layout();
    counted(id, &layout, wanted)?;
    let planned = planned(id, &layout, wanted)?;
    let parents: Vec<u32> = planned
        .cuts
        .iter()
        .flat_map(|cut| cut.parents.clone())
        .collect();
    if let Some(other) = open_move(plane, id, &parents).await? {
        let detail = format!(
            "move {} is at work on {}",
            other.migration_id,
            other.slice_id()
        );
        return Err(Error::new(ErrorCode::MoveInProgress, detail));
    }
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    has_room(&snapshot.fleet, &planned)?;
    let mut then = tenant.clone();
    then.set_layout(planned.layout, plane.now());
    let moves = match wanted.spread() {
        true => moves(snapshot.fleet.clone(), &then),
        false => Vec::new(),
    };
    Ok(SlicingPlan {
        dry_run: true,
        tenant_id: id.clone(),
        slices: u32::try_from(layout.parts.len()).unwrap_or(u32::MAX),
        into,
        cuts: planned.cuts,
        moves,
    })
}

/// Whether the number is one that the verb brings about.
fn counted(id: &TenantId, layout: &Layout, wanted: Wanted) -> Result<()> {
    let (have, into) = (layout.parts.len(), wanted.into() as usize);
    if recut::wanted(layout, wanted.into()).is_none() {
        let noun = if have == 1 { "slice" } else { "slices" };
        let detail = format!("{id} has {have} {noun}");
        return Err(Error::new(ErrorCode::AlreadySliced, detail));
    }
    let (fits, other) = match wanted {
        Wanted::Split { .. } => (have < into, "tenant merge"),
        Wanted::Merge { .. } => (have > into, "tenant split"),
    };
    if fits {
        return Ok(());
    }
    let detail = format!(
        "{id} has {have} slices, and {into} would not be {}",
        match wanted {
            Wanted::Split { .. } => "more",
            Wanted::Merge { .. } => "fewer",
        }
    );
    let error = Error::new(ErrorCode::SlicesRefused, detail);
    Err(error.next(format!("Use {other} --into {into}.")))
}

struct Planned {
    cuts: Vec<PlannedCut>,
    layout: Layout,
}

/// Every cut, one after the other.
fn planned(id: &TenantId, layout: &Layout, wanted: Wanted) -> Result<Planned> {
    let name = MoveId("plan".to_owned());
    let (mut layout, mut cuts) = (layout.clone(), Vec::new());
    while let Some((parents, at)) = recut::wanted(&layout, wanted.into()) {
        let cut = recut::claim(&layout, &name, &parents, &at)
            .and_then(|claimed| recut::commit(&claimed, &name));
        let cut = cut.map_err(|why| refused(id, &layout, &parents, why))?;
        if let Some(made) = &cut.recut {
            cuts.push(PlannedCut {
                shard_id: made.shard_id.clone(),
                parents,
                children: made.children.iter().map(|child| child.slice).collect(),
            });
        }
        layout = recut::release(&cut, &name)
            .map_err(|why| Error::new(ErrorCode::Internal, why.to_string()))?;
    }
    Ok(Planned { cuts, layout })
}

fn refused(id: &TenantId, layout: &Layout, parents: &[u32], why: Refused) -> Error {
    match why {
        Refused::Moving { slice, id: other } => Error::new(
            ErrorCode::MoveInProgress,
            format!("move {other} is at work on {id}/{slice}"),
        ),
        Refused::Apart => {
            let (to, moves) = gathering(id, layout, parents);
            let detail = format!("the slices of {id} are on several shards");
            let error = Error::new(ErrorCode::SlicesRefused, detail);
            error.next(format!(
                "Bring them together on {to} first, and wait until their windows are over: {}.",
                moves.join("; ")
            ))
        }
        other => Error::new(ErrorCode::SlicesRefused, other.to_string()),
    }
}

/// The shard that has most of these slices, and the commands that bring the
/// others there.
fn gathering(id: &TenantId, layout: &Layout, parents: &[u32]) -> (ShardId, Vec<String>) {
    let own: Vec<_> = parents
        .iter()
        .filter_map(|slice| layout.part(*slice))
        .collect();
    let mut counts: BTreeMap<&ShardId, usize> = BTreeMap::new();
    for part in &own {
        *counts.entry(&part.owner).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    let to = most.map_or_else(|| own[0].owner.clone(), |(shard, _)| (*shard).clone());
    let away = own.iter().filter(|part| part.owner != to);
    let moves =
        away.map(|part| format!("ballast tenant move {id} --slice {} --to {to}", part.slice));
    (to.clone(), moves.collect())
}

/// Whether the shards may hold the slices until they are moved on.
fn has_room(fleet: &Fleet, planned: &Planned) -> Result<()> {
    let mut more: BTreeMap<&ShardId, (u64, u64)> = BTreeMap::new();
    for cut in &planned.cuts {
        let (begin, end) = more.entry(&cut.shard_id).or_default();
        *begin += cut.children.len() as u64;
        *end += cut.parents.len() as u64;
    }
    for (id, (begin, end)) in more {
        let Some(shard) = fleet.get(id) else { continue };
        let then = (shard.slices + begin).saturating_sub(end);
        if then > shard.max_slices && begin > end {
            let detail = format!(
                "{id} may hold {} slices, and would hold {then}",
                shard.max_slices
            );
            return Err(Error::new(ErrorCode::SlicesRefused, detail)
                .next("Raise its limit (shard update --max-slices), or move the tenant first."));
        }
    }
    Ok(())
}

/// The slices that belong elsewhere, and where.
fn moves(mut fleet: Fleet, tenant: &Tenant) -> Vec<PlannedMove> {
    let mut moves = Vec::new();
    for slice in tenant.slices.iter().filter(|slice| slice.moving.is_none()) {
        let subject = Subject::of(tenant, slice.slice);
        let belongs = subject.and_then(|subject| decide(&fleet, &subject).shard_id);
        let Some(to) = belongs.filter(|to| *to != slice.shard_id) else {
            continue;
        };
        // The next one finds less room there.
        if let Some(shard) = fleet.get_mut(&to) {
            shard.slices += 1;
        }
        moves.push(PlannedMove {
            slice: slice.slice,
            from: slice.shard_id.clone(),
            to,
        });
    }
    moves
}

/// A name that nobody else comes upon.
pub(super) fn cut_id(plane: &ControlPlane) -> MoveId {
    let name = fresh(plane).0;
    MoveId(name.replacen("mv-", "rc-", 1))
}
