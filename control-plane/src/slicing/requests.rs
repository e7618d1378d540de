//! Requests to split or merge a tenant: checks and plans them, and writes them into
//! the tenant's record. The reconciler does the rest.

use std::collections::BTreeMap;

use ballast_domain::bounds::SLICES_PER_TENANT_MAX;
use ballast_domain::error::ErrorCode;
use ballast_domain::moving::MigrationId;
use ballast_domain::placement::{PlacementFleet, PlacementSubject, decide};
use ballast_domain::registry::CommitError;
use ballast_domain::slicing::{SliceLayout, Slicing};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::text::count_noun;
use ballast_domain::{Error, PollId, Result, ShardId, TenantId};
use ballast_migration_engine::protocol::recut::{self, RecutError};
use serde::{Deserialize, Serialize};

use super::reconciler::{find_open_migration, run_cuts};
use crate::change::commit_failed;
use crate::intent::Intent;
use crate::migrations::begin::new_migration_id;
use crate::migrations::migration_backends;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::tenants;

/// Retries after a concurrent change.
const ATTEMPTS: usize = 16;
/// The share of a slice's votes from which a poll is named in the plan of a split.
const WHOLE_SHARE: f64 = 0.5;

/// A request to split a tenant.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSplit {
    /// The total number of slices the tenant is to have: a power of two.
    #[schema(minimum = 2, maximum = 64)]
    pub into: u32,
    /// Whether the slices stay on the shard where they are split. Otherwise, those that
    /// belong elsewhere are moved there afterwards.
    #[serde(default)]
    pub stay: bool,
    /// Only report what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// A request to merge a tenant's slices.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMerge {
    /// The total number of slices the tenant is to have: a power of two; one when
    /// absent.
    #[schema(minimum = 1, maximum = 32)]
    #[serde(default = "one")]
    pub into: u32,
    /// Only report what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

fn one() -> u32 {
    1
}

/// A request to change the number of slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlicingRequest {
    /// More slices.
    Split {
        /// The total number of slices.
        into: u32,
        /// Whether they are moved to where they belong.
        spread: bool,
    },
    /// Fewer slices.
    Merge {
        /// The total number of slices.
        into: u32,
    },
}

impl SlicingRequest {
    fn slice_count(self) -> u32 {
        match self {
            Self::Split { into, .. } | Self::Merge { into } => into,
        }
    }

    fn is_spread(self) -> bool {
        matches!(self, Self::Split { spread: true, .. })
    }

    fn action(self) -> &'static str {
        match self {
            Self::Split { .. } => "tenant.split",
            Self::Merge { .. } => "tenant.merge",
        }
    }
}

/// What a split or merge would do.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlicingPlan {
    /// Always true: nothing was done.
    pub dry_run: bool,
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Current number of slices.
    pub slices: u32,
    /// Final number of slices.
    pub into: u32,
    /// The cuts, in order.
    pub cuts: Vec<PlannedCut>,
    /// Migrations that would begin afterwards.
    pub moves: Vec<PlannedMove>,
    /// Polls that have most of the votes of a slice that would be split. A poll stays in
    /// one slice, so splitting does not spread it.
    pub whole_polls: Vec<WholePoll>,
}

/// A poll that has most of the votes of a slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WholePoll {
    /// The slice that would be split.
    pub slice: u32,
    /// The poll.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// Its share of the slice's votes.
    pub share: f64,
    /// The slice's heat now, if it is measured. About this share of it stays in one of
    /// the new slices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<f64>,
}

/// A cut that would be made in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCut {
    /// The shard of the slices.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The slices that would end.
    pub parents: Vec<u32>,
    /// The slices that would replace them.
    pub children: Vec<u32>,
}

/// A slice that would move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedMove {
    /// The slice.
    pub slice: u32,
    /// The shard that it would leave.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The shard that it would move to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
}

/// Describes what a split or merge would do; rejects what would be rejected.
pub async fn plan(
    plane: &ControlPlane,
    id: &TenantId,
    wanted: SlicingRequest,
) -> Result<SlicingPlan> {
    let tenant = tenants::get(plane, id).await?;
    let mut plan = check_request(plane, &tenant.value, wanted).await?;
    if matches!(wanted, SlicingRequest::Split { .. }) {
        for cut in &plan.cuts {
            for parent in &cut.parents {
                let whole = find_whole_poll(plane, id, *parent, &cut.shard_id).await?;
                plan.whole_polls.extend(whole);
            }
        }
    }
    Ok(plan)
}

/// The poll with most of a slice's votes, if one has. `None` also if the shard cannot
/// say.
async fn find_whole_poll(
    plane: &ControlPlane,
    id: &TenantId,
    slice: u32,
    shard: &ShardId,
) -> Result<Option<WholePoll>> {
    let slice_id = SliceId {
        tenant_id: id.clone(),
        slice,
    };
    let Ok(source) = migration_backends(plane)?.shards.shard(shard) else {
        return Ok(None);
    };
    let Ok(digests) = source.digests(&slice_id).await else {
        return Ok(None);
    };
    // Each poll has one row of its own.
    let votes = |rows: u64| rows.saturating_sub(1);
    let all: u64 = digests.iter().map(|(_, digest)| votes(digest.rows)).sum();
    let most = digests.iter().max_by_key(|(_, digest)| digest.rows);
    let Some((poll, digest)) = most.filter(|_| all > 0) else {
        return Ok(None);
    };
    let share = votes(digest.rows) as f64 / all as f64;
    let heat = plane
        .load_monitor()
        .and_then(|load| load.slice_heat(shard, &slice_id));
    Ok((share >= WHOLE_SHARE).then_some(WholePoll {
        slice,
        poll_id: *poll,
        share,
        heat,
    }))
}

/// Records a split or merge, and runs it for as long as nothing blocks it.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    wanted: SlicingRequest,
) -> Result<Versioned<Tenant>> {
    record_request(plane, intent, id, wanted).await?;
    // A separate task: a disconnected caller must not leave a slice sealed.
    let (own, tenant) = (plane.clone(), id.clone());
    let going = tokio::spawn(async move { run_cuts(&own, &own.clock(), &tenant).await });
    // If this fails, the reconciler retries it.
    if let Ok(Err(error)) = going.await {
        tracing::warn!(%id, %error, "a tenant's slices are not cut yet; will retry");
    }
    tenants::get(plane, id).await
}

async fn record_request(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TenantId,
    wanted: SlicingRequest,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let _turn = plane.lock_subject(id.as_str()).await;
        let mut tenant = tenants::get(plane, id).await?;
        check_request(plane, &tenant.value, wanted).await?;
        tenant.value.slicing = Some(Slicing {
            into: wanted.slice_count(),
            spread: wanted.is_spread(),
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

/// Checks a request and plans its cuts and moves.
async fn check_request(
    plane: &ControlPlane,
    tenant: &Tenant,
    wanted: SlicingRequest,
) -> Result<SlicingPlan> {
    let (id, into) = (&tenant.tenant_id, wanted.slice_count());
    if !into.is_power_of_two() || into > SLICES_PER_TENANT_MAX {
        let message = format!("{into} is not 1, 2, 4, … {SLICES_PER_TENANT_MAX}");
        return Err(Error::invalid_field("/into", message));
    }
    if tenant.status == TenantStatus::Closed {
        let detail = format!("tenant {:?} is closed", id.as_str());
        return Err(Error::new(ErrorCode::TenantClosed, detail));
    }
    if let Some(slicing) = &tenant.slicing {
        let verb = match slicing.is_merge(tenant.slices.len()) {
            true => "merged",
            false => "split",
        };
        let into = count_noun(slicing.into.into(), "slice");
        let detail = format!("{id} is already being {verb} into {into}");
        let error = Error::new(ErrorCode::MoveInProgress, detail);
        return Err(error.with_next_step("Wait until it is done (tenant show)."));
    }
    let layout = tenant.layout();
    check_count(id, &layout, wanted)?;
    let planned = plan_cuts(id, &layout, wanted)?;
    let parents: Vec<u32> = planned
        .cuts
        .iter()
        .flat_map(|cut| cut.parents.clone())
        .collect();
    if let Some(other) = find_open_migration(plane, id, &parents).await? {
        let detail = format!(
            "migration {} already moves {}",
            other.migration_id,
            other.slice_id().label()
        );
        return Err(Error::new(ErrorCode::MoveInProgress, detail));
    }
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    check_capacity(&snapshot.fleet, &planned)?;
    let mut then = tenant.clone();
    then.set_layout(planned.layout, plane.now());
    let moves = match wanted.is_spread() {
        true => plan_moves(snapshot.fleet.clone(), &then),
        false => Vec::new(),
    };
    Ok(SlicingPlan {
        dry_run: true,
        tenant_id: id.clone(),
        slices: u32::try_from(layout.parts.len()).unwrap_or(u32::MAX),
        into,
        cuts: planned.cuts,
        moves,
        whole_polls: Vec::new(),
    })
}

/// Checks that a split increases the number of slices, and a merge reduces it.
fn check_count(id: &TenantId, layout: &SliceLayout, wanted: SlicingRequest) -> Result<()> {
    let (have, into) = (layout.parts.len(), wanted.slice_count() as usize);
    if recut::plan_next_recut(layout, wanted.slice_count()).is_none() {
        let detail = format!("{id} has {}", count_noun(have as u64, "slice"));
        return Err(Error::new(ErrorCode::AlreadySliced, detail));
    }
    let (fits, other) = match wanted {
        SlicingRequest::Split { .. } => (have < into, "tenant merge"),
        SlicingRequest::Merge { .. } => (have > into, "tenant split"),
    };
    if fits {
        return Ok(());
    }
    let detail = format!(
        "{id} has {}; {into} would not be {}",
        count_noun(have as u64, "slice"),
        match wanted {
            SlicingRequest::Split { .. } => "more",
            SlicingRequest::Merge { .. } => "fewer",
        }
    );
    let error = Error::new(ErrorCode::SlicesRefused, detail);
    Err(error.with_next_step(format!("Use {other} --into {into}.")))
}

struct PlannedLayout {
    cuts: Vec<PlannedCut>,
    layout: SliceLayout,
}

/// Plans every cut, one after the other.
fn plan_cuts(id: &TenantId, layout: &SliceLayout, wanted: SlicingRequest) -> Result<PlannedLayout> {
    let name = MigrationId("plan".to_owned());
    let (mut layout, mut cuts) = (layout.clone(), Vec::new());
    while let Some((parents, at)) = recut::plan_next_recut(&layout, wanted.slice_count()) {
        let cut = recut::claim(&layout, &name, &parents, &at)
            .and_then(|claimed| recut::commit(&claimed, &name));
        let cut = cut.map_err(|why| to_error(id, &layout, &parents, why))?;
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
    Ok(PlannedLayout { cuts, layout })
}

fn to_error(id: &TenantId, layout: &SliceLayout, parents: &[u32], why: RecutError) -> Error {
    match why {
        RecutError::SliceMigrating { slice, id: other } => {
            let tenant_id = id.clone();
            let moved = SliceId { tenant_id, slice };
            let detail = format!("migration {other} already moves {}", moved.label());
            Error::new(ErrorCode::MoveInProgress, detail)
        }
        RecutError::DifferentShards => {
            let (to, moves) = gathering_commands(id, layout, parents);
            let detail = format!("the slices of {id} are on several shards");
            let error = Error::new(ErrorCode::SlicesRefused, detail);
            error.with_next_step(format!(
                "Move them together to {to} first, and wait until their windows end: {}.",
                moves.join("; ")
            ))
        }
        other => Error::new(ErrorCode::SlicesRefused, other.to_string()),
    }
}

/// The shard that holds most of these slices, and the commands that move the
/// others there.
fn gathering_commands(
    id: &TenantId,
    layout: &SliceLayout,
    parents: &[u32],
) -> (ShardId, Vec<String>) {
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

/// Checks that the shards may hold the new slices until they are moved on.
fn check_capacity(fleet: &PlacementFleet, planned: &PlannedLayout) -> Result<()> {
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
                "{id} may hold {} slices but would hold {then}",
                shard.max_slices
            );
            return Err(Error::new(ErrorCode::SlicesRefused, detail).with_next_step(
                "Raise its limit (shard update --max-slices), or move the tenant first.",
            ));
        }
    }
    Ok(())
}

/// The slices that belong elsewhere, with their targets.
fn plan_moves(mut fleet: PlacementFleet, tenant: &Tenant) -> Vec<PlannedMove> {
    let mut moves = Vec::new();
    for slice in tenant.slices.iter().filter(|slice| slice.moving.is_none()) {
        let subject = PlacementSubject::from_slice(tenant, slice.slice);
        let belongs = subject.and_then(|subject| decide(&fleet, &subject).shard_id);
        let Some(to) = belongs.filter(|to| *to != slice.shard_id) else {
            continue;
        };
        // The next slice finds less room there.
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

/// A new unique id for a cut.
pub(super) fn new_cut_id(plane: &ControlPlane) -> MigrationId {
    let name = new_migration_id(plane).0;
    MigrationId(name.replacen("mv-", "rc-", 1))
}
