//! Plans under way: begun, followed to their end, and judged.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::migration::{Migration, Status};
use ballast_domain::tenant::{SliceId, Tenant};
use ballast_domain::{Result, ShardId, TenantId};
use ballast_hotspot_detector::diagnose::{Cure, PastCure, Verdict};
use ballast_hotspot_detector::load::{Book, Window};
use ballast_hotspot_detector::resources::Resources;
use ballast_hotspot_detector::whatif::Outcome;
use ballast_state_machines::core::Status as ExecutionStatus;

use super::act::{self, Acted};
use super::mind::Mind;
use super::plans::execution;
use super::plans::{self, change};
use super::records::{Hotspot, HotspotStatus, PlanRecord, PlanStatus, ShardsNeeded};
use crate::change::IfMatch;
use crate::intent::Intent;
use crate::load::Load;
use crate::plane::ControlPlane;
use crate::registry::typed;
use crate::workflows::{away, engine};

/// Looks after every plan that is not over, once.
pub(crate) async fn round(plane: &ControlPlane, mind: &Mind, load: &Arc<Load>) -> Result<()> {
    let open = plans::open(plane).await?;
    for plan in &open {
        let id = &plan.value.plan_id;
        if let Err(error) = go_on(plane, mind, &plan.value).await {
            tracing::warn!(id, %error, "a plan does not go on for now");
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    let settings = plane.settings();
    let now = plane.now();
    let judged = load.with_book(|book| mind.judge(now, &settings.hotspots.diagnose, book));
    for past in judged {
        let plan = open.iter().find(|plan| {
            let known = plan.value.past.as_ref();
            known.is_some_and(|known| known.id == past.id)
        });
        if let Some(plan) = plan {
            judge(plane, load, &plan.value.plan_id, past).await?;
        }
    }
    Ok(())
}

fn intent(why: &str) -> Intent {
    Intent::ballast("hotspots", why)
}

async fn set(
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
    change(plane, &intent(why), id, &IfMatch::Any, action, edit).await?;
    Ok(())
}

async fn go_on(plane: &ControlPlane, mind: &Mind, plan: &PlanRecord) -> Result<()> {
    match plan.status {
        PlanStatus::Proposed => await_word(plane, plan).await,
        PlanStatus::Approved => begin(plane, mind, plan).await,
        PlanStatus::Running => match (&plan.shards_needed, &plan.cure) {
            (Some(needed), _) => await_shards(plane, mind, plan, needed).await,
            (None, Some(Cure::Split { slice, .. })) => watch_split(plane, mind, plan, slice).await,
            (None, _) => watch_moves(plane, mind, plan).await,
        },
        // One that was judged before it could be written down.
        PlanStatus::Judging if plan.past.is_none() => {
            set(
                plane,
                &plan.plan_id,
                "nobody remembers it",
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

/// A plan that nobody needs, or that nobody wants, ends.
async fn await_word(plane: &ControlPlane, plan: &PlanRecord) -> Result<()> {
    let id = &plan.plan_id;
    let note = if plans::is_overdue(plane, plan, plane.now()) {
        Some("nobody approved it in time")
    } else if is_over(plane, plan).await? {
        Some("the hotspot passed before anybody approved it")
    } else {
        None
    };
    if let Some(note) = note {
        return set(plane, id, note, "plan.expire", |plan| {
            // Somebody may have said yes at the last moment.
            if plan.status == PlanStatus::Proposed {
                plan.status = PlanStatus::Expired;
                plan.note = Some(note.to_owned());
            }
        })
        .await;
    }
    if plan.plan.is_some() && !plans::is_worked_on(plane, id).await? {
        plans::start(plane, id).await;
    }
    Ok(())
}

/// Whether the hotspot that a plan is for has passed.
async fn is_over(plane: &ControlPlane, plan: &PlanRecord) -> Result<bool> {
    let Some(id) = &plan.hotspot_id else {
        return Ok(false);
    };
    let found = typed::get::<Hotspot>(plane.registry(), id).await?;
    Ok(found.is_none_or(|found| found.value.status == HotspotStatus::Over))
}

/// Begins what was approved, and remembers it.
async fn begin(plane: &ControlPlane, mind: &Mind, plan: &PlanRecord) -> Result<()> {
    let id = &plan.plan_id;
    let now = plane.now();
    let past = match (&plan.past, plans::cure_of(plan)) {
        (Some(past), _) => Some(past.clone()),
        (None, Some(cure)) => {
            let promised = plans::promised(plan);
            Some(mind.begin(plan.shards.clone(), cure, promised, now))
        }
        (None, None) => None,
    };
    let Some(cure) = &plan.cure else {
        if !plans::is_worked_on(plane, id).await? {
            plans::start(plane, id).await;
        }
        let run = Some(execution(id));
        return set(plane, id, "it begins", "plan.begin", |plan| {
            plan.status = PlanStatus::Running;
            plan.past.clone_from(&past);
            plan.execution_id.clone_from(&run);
        })
        .await;
    };
    let aim = match plan.aim {
        Some(aim) => Some(aim),
        None => act::aim(plane, cure).await?,
    };
    if aim != plan.aim {
        let why = "what it aims at";
        set(plane, id, why, "plan.aim", |plan| plan.aim = aim).await?;
    }
    match act::act(plane, id, cure, aim).await {
        Ok(Acted::Done(note)) => {
            let past = past.map(|mut past| {
                mind.done(&past, now);
                past.done = Some(now);
                past
            });
            set(plane, id, &note, "plan.done", |plan| {
                plan.status = PlanStatus::Judging;
                plan.done_at = Some(now);
                plan.past.clone_from(&past);
                plan.note = Some(note.clone());
            })
            .await
        }
        Ok(Acted::Begun(note)) => {
            set(plane, id, &note, "plan.begin", |plan| {
                plan.status = PlanStatus::Running;
                plan.past.clone_from(&past);
                plan.note = Some(note.clone());
            })
            .await
        }
        Ok(Acted::Needs(needed)) => {
            let note = format!("it waits for {needed}");
            tracing::warn!(id, %needed, "shards are needed");
            set(plane, id, &note, "plan.request", |plan| {
                plan.status = PlanStatus::Running;
                plan.shards_needed = Some(needed.clone());
                plan.past.clone_from(&past);
                plan.note = Some(note.clone());
            })
            .await
        }
        Err(error) if error.code().kind() == ballast_domain::error::Kind::Unavailable => {
            // It is begun again, and remembered then.
            if let (None, Some(past)) = (&plan.past, &past) {
                mind.forget(past);
            }
            Err(error)
        }
        Err(error) => {
            let begun = PlanRecord {
                past,
                ..plan.clone()
            };
            fail(plane, mind, &begun, &error.to_string()).await
        }
    }
}

/// Notes that nothing came of a plan: it stands in no other's way.
async fn fail(plane: &ControlPlane, mind: &Mind, plan: &PlanRecord, why: &str) -> Result<()> {
    if let Some(past) = &plan.past {
        mind.forget(past);
    }
    let now = plane.now();
    set(plane, &plan.plan_id, why, "plan.fail", |plan| {
        plan.status = PlanStatus::Failed;
        plan.done_at = Some(now);
        plan.past = None;
        plan.note = Some(why.to_owned());
    })
    .await
}

/// Notes that a cure was carried out: from now on it is watched.
async fn done(plane: &ControlPlane, mind: &Mind, plan: &PlanRecord, note: &str) -> Result<()> {
    let now = plane.now();
    if let Some(past) = &plan.past {
        mind.done(past, now);
    }
    set(plane, &plan.plan_id, note, "plan.done", |plan| {
        plan.status = PlanStatus::Judging;
        plan.done_at = Some(now);
        if let Some(past) = &mut plan.past {
            past.done = Some(now);
        }
        plan.note = Some(note.to_owned());
    })
    .await
}

/// Notes when a tenant has been split.
async fn watch_split(
    plane: &ControlPlane,
    mind: &Mind,
    plan: &PlanRecord,
    slice: &SliceId,
) -> Result<()> {
    let tenant = &slice.tenant_id;
    let why = match act::split_ended(plane, slice).await? {
        None => return Ok(()),
        Some(Ok(slices)) => {
            return done(plane, mind, plan, &format!("{tenant} has {slices} slices")).await;
        }
        Some(Err(why)) => format!("the split was given up: {why}"),
    };
    fail(plane, mind, plan, &why).await
}

/// Notes when the shards that were asked for are there, or nobody needs them
/// any more.
async fn await_shards(
    plane: &ControlPlane,
    mind: &Mind,
    plan: &PlanRecord,
    needed: &ShardsNeeded,
) -> Result<()> {
    let region = &needed.region;
    if act::active_in(&plane.fleet().snapshot(), region) >= needed.until_active {
        let note = format!("the shards that were needed in {region} are there");
        return done(plane, mind, plan, &note).await;
    }
    if !is_over(plane, plan).await? {
        return Ok(());
    }
    let note = "the hotspot passed before there were more shards";
    if let Some(past) = &plan.past {
        mind.forget(past);
    }
    set(plane, &plan.plan_id, note, "plan.expire", |plan| {
        plan.status = PlanStatus::Expired;
        plan.past = None;
        plan.note = Some(note.to_owned());
    })
    .await
}

/// Notes when every move of a plan has been cut over, or has ended otherwise.
async fn watch_moves(plane: &ControlPlane, mind: &Mind, plan: &PlanRecord) -> Result<()> {
    let mut moved = 0;
    for name in &plan.migrations {
        let Some(found) = typed::get::<Migration>(plane.registry(), name).await? else {
            // It is not written down yet, or never will be.
            return fail_if_ended(plane, mind, plan).await;
        };
        let ended = found.value.ended.as_ref().map(|ended| ended.status);
        match (ended, found.value.figures.cut_over_at) {
            (None, None) => return Ok(()),
            (None | Some(Status::Completed), _) => moved += 1,
            (Some(_), _) => {}
        }
    }
    if plan.migrations.is_empty() {
        return fail_if_ended(plane, mind, plan).await;
    }
    if moved == 0 {
        return fail(plane, mind, plan, "none of its moves was made").await;
    }
    let note = format!("{moved} of {} moves were cut over", plan.migrations.len());
    done(plane, mind, plan, &note).await
}

/// A plan whose execution ended before its moves were begun has failed.
async fn fail_if_ended(plane: &ControlPlane, mind: &Mind, plan: &PlanRecord) -> Result<()> {
    let id = &plan.plan_id;
    let found = engine(plane)?.get(&execution(id)).await.map_err(away)?;
    let Some(found) = found else {
        plans::start(plane, id).await;
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
    fail(plane, mind, plan, &cause).await
}

/// Writes down whether a plan helped: what was predicted beside what is measured.
async fn judge(plane: &ControlPlane, load: &Arc<Load>, id: &str, past: PastCure) -> Result<()> {
    let (measured, now) = (load.with_book(measured), plane.now());
    let words = match past.verdict {
        Some(Verdict::Helped) => "it helped",
        Some(Verdict::DidNotHelp) => "it did not help",
        Some(Verdict::Unknown) | None => "whether it helped cannot be told",
    };
    tracing::info!(id, verdict = words, "a plan is judged");
    set(plane, id, words, "plan.judge", |plan| {
        plan.status = PlanStatus::Done;
        plan.outcome = plan.plan.as_ref().map(|it| Outcome::of(it, &measured, now));
        plan.past = Some(past.clone());
        let before = plan
            .note
            .take()
            .map_or_else(String::new, |note| format!("{note}; "));
        plan.note = Some(format!("{before}{words}"));
    })
    .await
}

/// What every shard uses now.
pub(crate) fn measured(book: &Book) -> BTreeMap<ShardId, Resources> {
    let views = book.shards().filter_map(|(name, shard)| {
        let view = book.view(shard, Window::Short)?;
        Some((name.clone(), view.used))
    });
    views.collect()
}

/// Calls a second that the tenants of the busiest keys may make, where they are
/// limited; asked for only when something is hot.
pub(crate) async fn limits(
    plane: &ControlPlane,
    load: &Arc<Load>,
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

fn busy_tenants(book: &Book) -> std::collections::BTreeSet<TenantId> {
    let shards = book.shards().filter_map(|(_, shard)| {
        let view = book.view(shard, Window::Short)?;
        Some(book.keys(shard, Window::Short, &view))
    });
    shards.flatten().map(|key| key.tenant).collect()
}
