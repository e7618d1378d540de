//! Advances open plans: begins them, follows them to their end, records verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::migration::{Migration, MigrationStatus};
use ballast_domain::tenant::{SliceId, Tenant};
use ballast_domain::text::count_noun;
use ballast_domain::{Result, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::diagnose::{Cure, CureRecord, CureVerdict};
use ballast_hotspot_detector::load::{LoadHistory, Window};
use ballast_hotspot_detector::resources::Resources;
use ballast_hotspot_detector::whatif::PlanOutcome;
use ballast_state_machines::core::ExecutionStatus;

use super::cures::{self, CureOutcome};
use super::plans::execution_id;
use super::plans::{self, change};
use super::records::{HotspotRecord, HotspotStatus, PlanRecord, PlanStatus, ShardRequest};
use super::state::HotspotState;
use crate::change::IfMatch;
use crate::intent::Intent;
use crate::load::LoadMonitor;
use crate::plane::ControlPlane;
use crate::registry::typed;
use crate::workflows::{engine, store_unavailable};

/// Advances every open plan, once.
pub(crate) async fn advance_plans(
    plane: &ControlPlane,
    state: &HotspotState,
    load: &Arc<LoadMonitor>,
) -> Result<()> {
    let open = plans::list_open(plane).await?;
    for plan in &open {
        let id = &plan.value.plan_id;
        if let Err(error) = advance_plan(plane, state, &plan.value).await {
            tracing::warn!(id, %error, "failed to advance a plan; will retry");
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    let settings = plane.settings();
    let now = plane.now();
    let judged = load.with_book(|book| state.judge_cures(now, &settings.hotspots.diagnose, book));
    for past in judged {
        let plan = open.iter().find(|plan| {
            let known = plan.value.past.as_ref();
            known.is_some_and(|known| known.id == past.id)
        });
        if let Some(plan) = plan {
            record_verdict(plane, load, &plan.value.plan_id, past).await?;
        }
    }
    Ok(())
}

fn audit_intent(why: &str) -> Intent {
    Intent::ballast("hotspots", why)
}

async fn update_plan(
    plane: &ControlPlane,
    id: &str,
    why: &str,
    action: &'static str,
    edit: impl Fn(&mut PlanRecord),
) -> Result<()> {
    let edit = |plan: &mut PlanRecord| {
        edit(plan);
        Ok(())
    };
    change(plane, &audit_intent(why), id, &IfMatch::Any, action, edit).await?;
    Ok(())
}

async fn advance_plan(plane: &ControlPlane, state: &HotspotState, plan: &PlanRecord) -> Result<()> {
    match plan.status {
        PlanStatus::Proposed => await_decision(plane, plan).await,
        PlanStatus::Approved => begin_plan(plane, state, plan).await,
        PlanStatus::Running => match (&plan.shards_needed, &plan.cure) {
            (Some(needed), _) => check_shards(plane, state, plan, needed).await,
            (None, Some(Cure::Split { slice, .. })) => check_split(plane, state, plan, slice).await,
            (None, _) => check_migrations(plane, state, plan).await,
        },
        // It was judged before it could be recorded.
        PlanStatus::Judging if plan.past.is_none() => {
            update_plan(
                plane,
                &plan.plan_id,
                "no record of its cure",
                "plan.end",
                |plan| {
                    plan.status = PlanStatus::Done;
                },
            )
            .await
        }
        _ => Ok(()),
    }
}

/// Expires a plan that is no longer needed or was not approved in time.
async fn await_decision(plane: &ControlPlane, plan: &PlanRecord) -> Result<()> {
    let id = &plan.plan_id;
    let note = if plans::is_overdue(plane, plan, plane.now()) {
        Some("not approved in time")
    } else if has_hotspot_ended(plane, plan).await? {
        Some("the hotspot ended before the plan was approved")
    } else {
        None
    };
    if let Some(note) = note {
        return update_plan(plane, id, note, "plan.expire", |plan| {
            // It may have been approved at the last moment.
            if plan.status == PlanStatus::Proposed {
                plan.status = PlanStatus::Expired;
                plan.note = Some(note.to_owned());
            }
        })
        .await;
    }
    if plan.plan.is_some() && !plans::has_execution(plane, id).await? {
        plans::start_execution(plane, id).await;
    }
    Ok(())
}

/// Whether the hotspot that a plan is for has ended.
async fn has_hotspot_ended(plane: &ControlPlane, plan: &PlanRecord) -> Result<bool> {
    let Some(id) = &plan.hotspot_id else {
        return Ok(false);
    };
    let found = typed::get::<HotspotRecord>(plane.registry(), id).await?;
    Ok(found.is_none_or(|found| found.value.status == HotspotStatus::Over))
}

/// Begins an approved plan and remembers its cure.
async fn begin_plan(plane: &ControlPlane, state: &HotspotState, plan: &PlanRecord) -> Result<()> {
    let id = &plan.plan_id;
    let now = plane.now();
    let past = match (&plan.past, plans::to_cure(plan)) {
        (Some(past), _) => Some(past.clone()),
        (None, Some(cure)) => {
            let promised = plans::promised_effect(plan);
            Some(state.begin_cure(plan.shards.clone(), cure, promised, now))
        }
        (None, None) => None,
    };
    let Some(cure) = &plan.cure else {
        return begin_moves(plane, id, past).await;
    };
    let aim = match plan.aim {
        Some(aim) => Some(aim),
        None => cures::compute_cure_target(plane, cure).await?,
    };
    if aim != plan.aim {
        let why = "target of the plan";
        update_plan(plane, id, why, "plan.aim", |plan| plan.aim = aim).await?;
    }
    match cures::apply_cure(plane, id, cure, aim).await {
        Ok(outcome) => record_cure_outcome(plane, state, (id, now), past, outcome).await,
        Err(error) if error.code().kind() == ballast_domain::error::ErrorCategory::Unavailable => {
            // It is retried, and remembered then.
            if let (None, Some(past)) = (&plan.past, &past) {
                state.forget_cure(past);
            }
            Err(error)
        }
        Err(error) => {
            let begun = PlanRecord {
                past,
                ..plan.clone()
            };
            record_failure(plane, state, &begun, &error.to_string()).await
        }
    }
}

/// Begins a plan of moves, which an execution carries out.
async fn begin_moves(plane: &ControlPlane, id: &str, past: Option<CureRecord>) -> Result<()> {
    if !plans::has_execution(plane, id).await? {
        plans::start_execution(plane, id).await;
    }
    let run = Some(execution_id(id));
    update_plan(plane, id, "the plan starts", "plan.begin", |plan| {
        plan.status = PlanStatus::Running;
        plan.past.clone_from(&past);
        plan.execution_id.clone_from(&run);
    })
    .await
}

/// Records what applying a cure has led to.
async fn record_cure_outcome(
    plane: &ControlPlane,
    state: &HotspotState,
    (id, now): (&str, Timestamp),
    past: Option<CureRecord>,
    outcome: CureOutcome,
) -> Result<()> {
    match outcome {
        CureOutcome::Done(note) => {
            let past = past.map(|mut past| {
                state.record_cure_done(&past, now);
                past.done = Some(now);
                past
            });
            update_plan(plane, id, &note, "plan.done", |plan| {
                plan.status = PlanStatus::Judging;
                plan.done_at = Some(now);
                plan.past.clone_from(&past);
                plan.note = Some(note.clone());
            })
            .await
        }
        CureOutcome::Begun(note) => {
            update_plan(plane, id, &note, "plan.begin", |plan| {
                plan.status = PlanStatus::Running;
                plan.past.clone_from(&past);
                plan.note = Some(note.clone());
            })
            .await
        }
        CureOutcome::Needs(needed) => {
            let note = format!("it waits for {needed}");
            tracing::warn!(id, %needed, "more shards are needed");
            update_plan(plane, id, &note, "plan.request", |plan| {
                plan.status = PlanStatus::Running;
                plan.shards_needed = Some(needed.clone());
                plan.past.clone_from(&past);
                plan.note = Some(note.clone());
            })
            .await
        }
    }
}

/// Records that a plan failed, so that it no longer blocks others.
async fn record_failure(
    plane: &ControlPlane,
    state: &HotspotState,
    plan: &PlanRecord,
    why: &str,
) -> Result<()> {
    if let Some(past) = &plan.past {
        state.forget_cure(past);
    }
    let now = plane.now();
    update_plan(plane, &plan.plan_id, why, "plan.fail", |plan| {
        plan.status = PlanStatus::Failed;
        plan.done_at = Some(now);
        plan.past = None;
        plan.note = Some(why.to_owned());
    })
    .await
}

/// Records that a cure was carried out; its effect is measured from now on.
async fn record_done(
    plane: &ControlPlane,
    state: &HotspotState,
    plan: &PlanRecord,
    note: &str,
) -> Result<()> {
    let now = plane.now();
    if let Some(past) = &plan.past {
        state.record_cure_done(past, now);
    }
    update_plan(plane, &plan.plan_id, note, "plan.done", |plan| {
        plan.status = PlanStatus::Judging;
        plan.done_at = Some(now);
        if let Some(past) = &mut plan.past {
            past.done = Some(now);
        }
        plan.note = Some(note.to_owned());
    })
    .await
}

/// Records the end of a split.
async fn check_split(
    plane: &ControlPlane,
    state: &HotspotState,
    plan: &PlanRecord,
    slice: &SliceId,
) -> Result<()> {
    let tenant = &slice.tenant_id;
    let why = match cures::read_split_result(plane, slice).await? {
        None => return Ok(()),
        Some(Ok(slices)) => {
            return record_done(
                plane,
                state,
                plan,
                &format!("{tenant} has {}", count_noun(slices as u64, "slice")),
            )
            .await;
        }
        Some(Err(why)) => format!("the split was given up: {why}"),
    };
    record_failure(plane, state, plan, &why).await
}

/// Records when the requested shards exist, or are no longer needed.
async fn check_shards(
    plane: &ControlPlane,
    state: &HotspotState,
    plan: &PlanRecord,
    needed: &ShardRequest,
) -> Result<()> {
    let region = &needed.region;
    if cures::count_active_shards(&plane.fleet().snapshot(), region) >= needed.until_active {
        let note = format!("{region} now has the shards it needed");
        return record_done(plane, state, plan, &note).await;
    }
    if !has_hotspot_ended(plane, plan).await? {
        return Ok(());
    }
    let note = "the hotspot ended before shards were added";
    if let Some(past) = &plan.past {
        state.forget_cure(past);
    }
    update_plan(plane, &plan.plan_id, note, "plan.expire", |plan| {
        plan.status = PlanStatus::Expired;
        plan.past = None;
        plan.note = Some(note.to_owned());
    })
    .await
}

/// Records when every migration of a plan has been cut over or has ended otherwise.
async fn check_migrations(
    plane: &ControlPlane,
    state: &HotspotState,
    plan: &PlanRecord,
) -> Result<()> {
    let mut moved = 0;
    for name in &plan.migrations {
        let Some(found) = typed::get::<Migration>(plane.registry(), name).await? else {
            // Its record does not exist yet, or never will.
            return fail_if_ended(plane, state, plan).await;
        };
        let ended = found.value.ended.as_ref().map(|ended| ended.status);
        match (ended, found.value.figures.cut_over_at) {
            (None, None) => return Ok(()),
            (None | Some(MigrationStatus::Completed), _) => moved += 1,
            (Some(_), _) => {}
        }
    }
    if plan.migrations.is_empty() {
        return fail_if_ended(plane, state, plan).await;
    }
    if moved == 0 {
        return record_failure(plane, state, plan, "nothing was moved").await;
    }
    let note = format!("{moved} of {} migrations cut over", plan.migrations.len());
    record_done(plane, state, plan, &note).await
}

/// Fails a plan whose execution ended before its migrations began.
async fn fail_if_ended(
    plane: &ControlPlane,
    state: &HotspotState,
    plan: &PlanRecord,
) -> Result<()> {
    let id = &plan.plan_id;
    let found = engine(plane)?
        .get(&execution_id(id))
        .await
        .map_err(store_unavailable)?;
    let Some(found) = found else {
        plans::start_execution(plane, id).await;
        return Ok(());
    };
    if matches!(
        found.summary.status,
        ExecutionStatus::Pending | ExecutionStatus::Running
    ) {
        return Ok(());
    }
    let cause = found
        .cause
        .unwrap_or_else(|| "its execution ended".to_owned());
    record_failure(plane, state, plan, &cause).await
}

/// Records whether a plan helped: predicted and measured effect.
async fn record_verdict(
    plane: &ControlPlane,
    load: &Arc<LoadMonitor>,
    id: &str,
    past: CureRecord,
) -> Result<()> {
    let (measured, now) = (load.with_book(collect_measured_use), plane.now());
    let words = match past.verdict {
        Some(CureVerdict::Helped) => "it helped",
        Some(CureVerdict::DidNotHelp) => "it did not help",
        Some(CureVerdict::Unknown) | None => "its effect is unclear",
    };
    tracing::info!(id, verdict = words, "measured the effect of a plan");
    update_plan(plane, id, words, "plan.judge", |plan| {
        plan.status = PlanStatus::Done;
        plan.outcome = plan
            .plan
            .as_ref()
            .map(|it| PlanOutcome::compare(it, &measured, now));
        plan.past = Some(past.clone());
        let before = plan
            .note
            .take()
            .map_or_else(String::new, |note| format!("{note}; "));
        plan.note = Some(format!("{before}{words}"));
    })
    .await
}

/// Collects what every shard uses now.
pub(crate) fn collect_measured_use(book: &LoadHistory) -> BTreeMap<ShardId, Resources> {
    let views = book.shards().filter_map(|(name, shard)| {
        let view = book.view(shard, Window::Short)?;
        Some((name.clone(), view.used))
    });
    views.collect()
}

/// Vote rate limits of the tenants with the busiest keys, where set. Read only
/// when something is hot.
pub(crate) async fn busy_tenant_limits(
    plane: &ControlPlane,
    load: &Arc<LoadMonitor>,
    is_hot: bool,
) -> Result<BTreeMap<TenantId, f64>> {
    let mut limits = BTreeMap::new();
    if !is_hot {
        return Ok(limits);
    }
    for tenant in load.with_book(busy_tenants) {
        let found = typed::get::<Tenant>(plane.registry(), tenant.as_str()).await?;
        let limit = found.and_then(|found| found.value.limits.votes_per_second);
        if let Some(limit) = limit {
            limits.insert(tenant, limit as f64);
        }
    }
    Ok(limits)
}

fn busy_tenants(book: &LoadHistory) -> std::collections::BTreeSet<TenantId> {
    let shards = book.shards().filter_map(|(_, shard)| {
        let view = book.view(shard, Window::Short)?;
        Some(book.keys(shard, Window::Short, &view))
    });
    shards.flatten().map(|key| key.tenant).collect()
}
