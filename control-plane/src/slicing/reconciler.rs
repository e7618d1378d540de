//! Reconciles the number of slices: cuts until every tenant has as many as requested.

use std::sync::Arc;

use ballast_domain::migration::{Migration, OPEN, tenant_migrations_term};
use ballast_domain::placement::{PlacementSubject, decide};
use ballast_domain::registry::{CommitError, RecordKind, RecordQuery, SLICING};
use ballast_domain::slicing::{Slicing, SlicingResult};
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::text::count_noun;
use ballast_domain::{Clock, Result, TenantId};
use ballast_migration_engine::cutter::{RecutClaimError, RecutOutcome, RecutWorker};
use ballast_migration_engine::protocol::recut::{self, RecutError};

use super::TenantLayouts;
use super::requests::new_cut_id;
use crate::intent::Intent;
use crate::migrations::begin::{self, NewMigration};
use crate::migrations::migration_backends;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::tenants;

/// Tenants read per round.
const BATCH_SIZE: u32 = 1_000;
/// Aborted cuts before a request is given up.
const FAILURES_MAX: u32 = 6;
/// Steps per run; needing more means that other processes interfere.
const STEPS_MAX: usize = 1_000;

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlicingProgress {
    /// It is fulfilled or was given up.
    Over,
    /// Something blocks it: retry later.
    Waits,
}

/// Reconciles every tenant with a pending request, once.
pub async fn reconcile(plane: &ControlPlane, clock: &Arc<dyn Clock>) -> Result<()> {
    let query = RecordQuery {
        terms: vec![SLICING.to_owned()],
        ..RecordQuery::all(RecordKind::Tenant, BATCH_SIZE)
    };
    for found in typed::list::<Tenant>(plane.registry(), &query).await? {
        let id = &found.value.tenant_id;
        // One stuck tenant must not hold up the others.
        if let Err(error) = run_cuts(plane, clock, id).await {
            tracing::warn!(%id, %error, "failed to cut a tenant's slices; will retry");
        }
    }
    Ok(())
}

/// Cuts a tenant's slices for as long as nothing blocks it.
pub async fn run_cuts(
    plane: &ControlPlane,
    clock: &Arc<dyn Clock>,
    id: &TenantId,
) -> Result<SlicingProgress> {
    let layouts = Arc::new(TenantLayouts::new(plane.clone()));
    let shards = Arc::clone(&migration_backends(plane)?.shards);
    let cutter = RecutWorker::new(layouts, shards, Arc::clone(clock));
    for _ in 0..STEPS_MAX {
        let tenant = tenants::get(plane, id).await?;
        let Some(slicing) = tenant.value.slicing.clone() else {
            return Ok(SlicingProgress::Over);
        };
        if slicing.recut.is_some() {
            let most = plane.settings().moves.seal_max_ms;
            let came = cutter.work(id, most).await;
            match came.map_err(|error| unavailable(&error))? {
                RecutOutcome::Cut { pause_ms } => {
                    tracing::info!(%id, pause_ms, "cut slices");
                }
                RecutOutcome::Aborted => tracing::warn!(%id, "aborted a cut that took too long"),
                RecutOutcome::FinishedElsewhere => {}
            }
            continue;
        }
        let next = match next_step(plane, &tenant.value, &slicing).await? {
            NextStep::Cut(parents, cuts) => {
                let name = new_cut_id(plane);
                after_claim(cutter.claim(id, &name, &parents, &cuts).await)
            }
            NextStep::End(why) => AfterClaim::End(why),
            NextStep::Wait => AfterClaim::Wait,
        };
        match next {
            AfterClaim::GoOn => {}
            AfterClaim::Wait => return Ok(SlicingProgress::Waits),
            AfterClaim::End(why) => {
                if why.is_none() && slicing.spread {
                    spread_slices(plane, id, &slicing).await?;
                }
                record_end(plane, &tenant, why).await?;
            }
        }
    }
    Ok(SlicingProgress::Waits)
}

enum NextStep {
    Cut(Vec<u32>, Vec<u64>),
    Wait,
    End(Option<String>),
}

async fn next_step(plane: &ControlPlane, tenant: &Tenant, slicing: &Slicing) -> Result<NextStep> {
    if tenant.status == TenantStatus::Closed {
        return Ok(NextStep::End(Some("the tenant was closed".to_owned())));
    }
    let Some((parents, cuts)) = recut::plan_next_recut(&tenant.layout(), slicing.into) else {
        return Ok(NextStep::End(None));
    };
    if slicing.failures >= FAILURES_MAX {
        let why = format!("its shard exceeded seal_max {FAILURES_MAX} times");
        return Ok(NextStep::End(Some(why)));
    }
    let rests = slicing.not_before.is_some_and(|until| plane.now() < until);
    // A migration that has released the slice but not yet ended its own record
    // still looks for the slice.
    if rests || has_open_migration(plane, &tenant.tenant_id, &parents).await? {
        return Ok(NextStep::Wait);
    }
    Ok(NextStep::Cut(parents, cuts))
}

/// Whether any of these slices has an open migration.
pub(super) async fn has_open_migration(
    plane: &ControlPlane,
    tenant: &TenantId,
    slices: &[u32],
) -> Result<bool> {
    Ok(find_open_migration(plane, tenant, slices).await?.is_some())
}

/// An open migration of one of these slices.
pub(super) async fn find_open_migration(
    plane: &ControlPlane,
    tenant: &TenantId,
    slices: &[u32],
) -> Result<Option<Migration>> {
    let query = RecordQuery {
        terms: vec![tenant_migrations_term(tenant), OPEN.to_owned()],
        ..RecordQuery::all(RecordKind::Migration, BATCH_SIZE)
    };
    let open = typed::list::<Migration>(plane.registry(), &query).await?;
    let mut open = open.into_iter().map(|found| found.value);
    Ok(open.find(|migration| slices.contains(&migration.slice)))
}

enum AfterClaim {
    GoOn,
    Wait,
    End(Option<String>),
}

fn after_claim(claim: Result<(), RecutClaimError>) -> AfterClaim {
    match claim {
        Ok(()) | Err(RecutClaimError::Changed) => AfterClaim::GoOn,
        Err(RecutClaimError::Refused(
            RecutError::SliceMigrating { .. } | RecutError::AlreadyCutting(_),
        )) => AfterClaim::Wait,
        Err(RecutClaimError::Refused(refused)) => AfterClaim::End(Some(refused.to_string())),
        Err(RecutClaimError::Shard(error)) => {
            tracing::warn!(%error, "the shard is not ready to cut a slice; will retry");
            AfterClaim::Wait
        }
    }
}

/// Moves slices that belong elsewhere, each by a migration of its own.
async fn spread_slices(plane: &ControlPlane, id: &TenantId, slicing: &Slicing) -> Result<()> {
    let intent = Intent {
        actor: slicing.actor.clone(),
        reason: slicing.reason.clone(),
        idempotency: None,
    };
    let tenant = tenants::get(plane, id).await?.value;
    for slice in tenant.slices.iter().filter(|slice| slice.moving.is_none()) {
        // Refresh the fleet: each migration changes it.
        let fleet = plane.fleet().refresh(plane.registry()).await?;
        let subject = PlacementSubject::from_slice(&tenant, slice.slice);
        let belongs = subject.and_then(|subject| decide(&fleet.fleet, &subject).shard_id);
        let Some(to) = belongs.filter(|to| *to != slice.shard_id) else {
            continue;
        };
        let new = NewMigration {
            to,
            from: Some(slice.shard_id.clone()),
            slice: slice.slice,
            window_ms: None,
            sync: false,
            max_pause_ms: None,
            passed_over: Vec::new(),
            now: false,
            dry_run: false,
        };
        if let Err(error) = begin::begin(plane, &intent, id, &new).await {
            let slice = slice.slice;
            tracing::warn!(%id, slice, %error, "failed to move a slice after a cut");
        }
    }
    Ok(())
}

/// Records that a request is fulfilled or was given up.
async fn record_end(
    plane: &ControlPlane,
    tenant: &Versioned<Tenant>,
    why: Option<String>,
) -> Result<()> {
    let id = &tenant.value.tenant_id;
    let _turn = plane.lock_subject(id.as_str()).await;
    let mut now = tenants::get(plane, id).await?;
    let Some(slicing) = now.value.slicing.take().filter(|it| it.recut.is_none()) else {
        return Ok(());
    };
    let action = match &why {
        None => "tenant.slicing.complete",
        Some(_) => "tenant.slicing.give-up",
    };
    now.value.last_slicing = Some(SlicingResult {
        into: slicing.into,
        at: plane.now(),
        why: why.clone(),
    });
    let text = why.unwrap_or_else(|| count_noun(now.value.slices.len() as u64, "slice"));
    let intent = Intent::ballast("recut", &text);
    let write = typed::update(now.version, &now.value)?;
    let commit = intent.commit(action, vec![write], Vec::new());
    match plane.registry().commit(commit).await {
        // On a conflict, the next round reads again.
        Ok(_) | Err(CommitError::Conflict { .. }) => Ok(()),
        Err(other) => Err(crate::change::commit_failed(other)),
    }
}

fn unavailable(error: &ballast_migration_engine::worker::MigrationError) -> ballast_domain::Error {
    ballast_domain::Error::new(ballast_domain::ErrorCode::Unavailable, error.to_string())
        .retry_after(1)
}
