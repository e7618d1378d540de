//! Makes it so: cut by cut, until a tenant has as many slices as are wanted.

use std::sync::Arc;

use ballast_domain::migration::{Migration, OPEN, moves_of};
use ballast_domain::placement::{Subject, decide};
use ballast_domain::registry::{CommitError, Kind, RecordQuery, SLICING};
use ballast_domain::slicing::{Sliced, Slicing};
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::{Clock, Result, TenantId};
use ballast_migration_engine::cutter::{Came, Cutter, NotNow};
use ballast_migration_engine::protocol::recut::{self, Refused};

use super::TenantLayouts;
use super::ask::cut_id;
use crate::intent::Intent;
use crate::migrations::begin::{self, NewMove};
use crate::migrations::movers;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::tenants;

/// Tenants that are looked at in a round.
const LOOKED_AT: u32 = 1_000;
/// Cuts that are called off before it is given up.
const FAILURES_MAX: u32 = 6;
/// Steps of one go: more means that others are at work.
const STEPS_MAX: usize = 1_000;

/// How it stands with a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// It is as it is wanted, or was given up.
    Over,
    /// Something is in the way: later.
    Waits,
}

/// Looks at every tenant that is to have another number of slices, once.
pub async fn round(plane: &ControlPlane, clock: &Arc<dyn Clock>) -> Result<()> {
    let query = RecordQuery {
        terms: vec![SLICING.to_owned()],
        ..RecordQuery::all(Kind::Tenant, LOOKED_AT)
    };
    for found in typed::list::<Tenant>(plane.registry(), &query).await? {
        let id = &found.value.tenant_id;
        // One that is stuck does not keep the others waiting.
        if let Err(error) = go_on(plane, clock, id).await {
            tracing::warn!(%id, %error, "a tenant's slices are not cut for now");
        }
    }
    Ok(())
}

/// Goes on with a tenant for as long as nothing is in the way.
pub async fn go_on(plane: &ControlPlane, clock: &Arc<dyn Clock>, id: &TenantId) -> Result<Stands> {
    let layouts = Arc::new(TenantLayouts::new(plane.clone()));
    let shards = Arc::clone(&movers(plane)?.shards);
    let cutter = Cutter::new(layouts, shards, Arc::clone(clock));
    for _ in 0..STEPS_MAX {
        let tenant = tenants::get(plane, id).await?;
        let Some(slicing) = tenant.value.slicing.clone() else {
            return Ok(Stands::Over);
        };
        if slicing.recut.is_some() {
            let most = plane.settings().moves.seal_max_ms;
            let came = cutter.work(id, most).await;
            match came.map_err(|error| away(&error))? {
                Came::Cut { pause_ms } => {
                    tracing::info!(%id, pause_ms, "slices were cut anew");
                }
                Came::CalledOff => tracing::warn!(%id, "a cut took too long: it was called off"),
                Came::Elsewhere => {}
            }
            continue;
        }
        let next = match next(plane, &tenant.value, &slicing).await? {
            Next::Cut(parents, cuts) => {
                let name = cut_id(plane);
                claimed(cutter.claim(id, &name, &parents, &cuts).await)
            }
            Next::End(why) => Claimed::End(why),
            Next::Wait => Claimed::Wait,
        };
        match next {
            Claimed::GoOn => {}
            Claimed::Wait => return Ok(Stands::Waits),
            Claimed::End(why) => {
                if why.is_none() && slicing.spread {
                    spread(plane, id, &slicing).await?;
                }
                end(plane, &tenant, why).await?;
            }
        }
    }
    Ok(Stands::Waits)
}

enum Next {
    Cut(Vec<u32>, Vec<u64>),
    Wait,
    End(Option<String>),
}

async fn next(plane: &ControlPlane, tenant: &Tenant, slicing: &Slicing) -> Result<Next> {
    if tenant.status == TenantStatus::Closed {
        return Ok(Next::End(Some("the tenant was closed".to_owned())));
    }
    let Some((parents, cuts)) = recut::wanted(&tenant.layout(), slicing.into) else {
        return Ok(Next::End(None));
    };
    if slicing.failures >= FAILURES_MAX {
        let why = format!("its shard did not do it within seal_max, {FAILURES_MAX} times");
        return Ok(Next::End(Some(why)));
    }
    let rests = slicing.not_before.is_some_and(|until| plane.now() < until);
    // A move whose slice was released, and whose own record is about to say so,
    // still looks for the slice.
    if rests || has_moves(plane, &tenant.tenant_id, &parents).await? {
        return Ok(Next::Wait);
    }
    Ok(Next::Cut(parents, cuts))
}

/// Whether moves of these slices are not over.
pub(super) async fn has_moves(
    plane: &ControlPlane,
    tenant: &TenantId,
    slices: &[u32],
) -> Result<bool> {
    Ok(open_move(plane, tenant, slices).await?.is_some())
}

/// A move of one of these slices that is not over.
pub(super) async fn open_move(
    plane: &ControlPlane,
    tenant: &TenantId,
    slices: &[u32],
) -> Result<Option<Migration>> {
    let query = RecordQuery {
        terms: vec![moves_of(tenant), OPEN.to_owned()],
        ..RecordQuery::all(Kind::Migration, LOOKED_AT)
    };
    let open = typed::list::<Migration>(plane.registry(), &query).await?;
    let mut open = open.into_iter().map(|found| found.value);
    Ok(open.find(|migration| slices.contains(&migration.slice)))
}

enum Claimed {
    GoOn,
    Wait,
    End(Option<String>),
}

fn claimed(claim: Result<(), NotNow>) -> Claimed {
    match claim {
        Ok(()) | Err(NotNow::Changed) => Claimed::GoOn,
        Err(NotNow::Refused(Refused::Moving { .. } | Refused::Cutting(_))) => Claimed::Wait,
        Err(NotNow::Refused(refused)) => Claimed::End(Some(refused.to_string())),
        Err(NotNow::Shard(error)) => {
            tracing::warn!(%error, "a slice is not cut before its shard is ready");
            Claimed::Wait
        }
    }
}

/// Has slices that belong elsewhere moved there: each is a move of its own.
async fn spread(plane: &ControlPlane, id: &TenantId, slicing: &Slicing) -> Result<()> {
    let intent = Intent {
        actor: slicing.actor.clone(),
        reason: slicing.reason.clone(),
        idempotency: None,
    };
    let tenant = tenants::get(plane, id).await?.value;
    for slice in tenant.slices.iter().filter(|slice| slice.moving.is_none()) {
        // Each finds the fleet as the one before has left it.
        let fleet = plane.fleet().refresh(plane.registry()).await?;
        let subject = Subject::of(&tenant, slice.slice);
        let belongs = subject.and_then(|subject| decide(&fleet.fleet, &subject).shard_id);
        let Some(to) = belongs.filter(|to| *to != slice.shard_id) else {
            continue;
        };
        let new = NewMove {
            to,
            from: Some(slice.shard_id.clone()),
            slice: slice.slice,
            window_ms: None,
            sync: false,
            max_pause_ms: None,
            passed_over: Vec::new(),
            dry_run: false,
        };
        if let Err(error) = begin::begin(plane, &intent, id, &new).await {
            let slice = slice.slice;
            tracing::warn!(%id, slice, %error, "a slice stays where it was cut");
        }
    }
    Ok(())
}

/// Nothing more is wanted.
async fn end(plane: &ControlPlane, tenant: &Versioned<Tenant>, why: Option<String>) -> Result<()> {
    let id = &tenant.value.tenant_id;
    let _turn = plane.turn(id.as_str()).await;
    let mut now = tenants::get(plane, id).await?;
    let Some(slicing) = now.value.slicing.take().filter(|it| it.recut.is_none()) else {
        return Ok(());
    };
    let action = match &why {
        None => "tenant.slicing.complete",
        Some(_) => "tenant.slicing.give-up",
    };
    now.value.last_slicing = Some(Sliced {
        into: slicing.into,
        at: plane.now(),
        why: why.clone(),
    });
    let text = why.unwrap_or_else(|| format!("{} slices", now.value.slices.len()));
    let intent = Intent::ballast("recut", &text);
    let write = typed::update(now.version, &now.value)?;
    let commit = intent.commit(action, vec![write], Vec::new());
    match plane.registry().commit(commit).await {
        // Changed meanwhile: the next look tells.
        Ok(_) | Err(CommitError::Conflict { .. }) => Ok(()),
        Err(other) => Err(crate::change::commit_failed(other)),
    }
}

fn away(error: &ballast_migration_engine::worker::MoveError) -> ballast_domain::Error {
    ballast_domain::Error::new(ballast_domain::ErrorCode::Unavailable, error.to_string())
        .retry_after(1)
}
