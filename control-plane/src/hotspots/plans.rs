//! Plans: made, approved, rejected, listed.

use std::collections::BTreeSet;

use ballast_domain::registry::{CommitError, Kind, RecordQuery};
use ballast_domain::{Error, ErrorCode, Result, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::{Cure, Effect, Finding, letter::cure_in_words};
use ballast_hotspot_detector::plan::{Fleet, Measure, Plan, Terms, plan};
use ballast_hotspot_detector::resources::Dimension;
use serde_json::json;

use super::fleet::{self, Of};
use super::records::{Decided, OPEN, PlanRecord, PlanStatus};
use crate::change::{Attempts, Edit, IfMatch, commit_failed};
use crate::drains::Manner;
use crate::intent::Intent;
use crate::migrations::begin::fresh_of;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::workflows::{away, engine};

/// The workflow that carries out plans of moves.
pub const WORKFLOW: &str = "rebalance";
/// Moves of a plan that somebody asked for, at the most.
const ASKED_MAX: usize = 1_000;
/// Moves of a plan that are named in its reason.
const MOVES_NAMED: usize = 3;
/// Plans that are looked at in a round.
const OPEN_MAX: u32 = 1_000;

/// Plans for these slices; nothing is done.
pub async fn draft(plane: &ControlPlane, of: &Of) -> Result<Plan> {
    let _turn = plane.preview_permit().await;
    let fleet = fleet::read(plane, of).await?;
    planned(fleet, fleet::terms(plane)).await
}

/// Plans for all slices, on somebody's word: also for what placement would have
/// elsewhere now, and for slices that were placed a short time ago.
pub async fn draft_all(plane: &ControlPlane) -> Result<Plan> {
    let _turn = plane.preview_permit().await;
    let fleet = fleet::read(plane, &Of::All).await?;
    let mut terms = fleet::terms(plane);
    terms.settle_seconds = 0;
    terms.follow_weights = true;
    terms.moves_max = ASKED_MAX;
    planned(fleet, terms).await
}

async fn planned(fleet: Fleet, terms: Terms) -> Result<Plan> {
    let made = tokio::task::spawn_blocking(move || plan(&fleet, &terms)).await;
    made.map_err(|_| Error::new(ErrorCode::Unavailable, "planning was cut short").retry_after(1))
}

/// What a plan is made of.
pub(crate) struct NewPlan {
    pub(crate) hotspot_id: Option<String>,
    pub(crate) shards: Vec<ShardId>,
    pub(crate) content: Content,
    pub(crate) manner: Manner,
    /// Whether it may be carried out at once.
    pub(crate) approved: bool,
}

/// What is to be done.
pub(crate) enum Content {
    Moves(Plan),
    Cure(Cure, Vec<Effect>, String),
}

impl Content {
    /// What it is, in a sentence. The planner weighs all tenants anew and may
    /// prefer others than the diagnosis named: what is planned is told.
    pub(crate) fn told(&self) -> String {
        let plan = match self {
            Self::Moves(plan) => plan,
            Self::Cure(cure, ..) => return cure_in_words(cure),
        };
        let named = plan.moves.iter().take(MOVES_NAMED);
        let named: Vec<_> = named
            .map(|it| format!("{} to {}", it.slice, it.to))
            .collect();
        match plan.moves.len() - named.len() {
            0 => format!("move {}", named.join(", ")),
            more => format!("move {} and {more} more", named.join(", ")),
        }
    }
}

/// Writes a plan down, and has its moves made once it is approved.
pub(crate) async fn make(
    plane: &ControlPlane,
    intent: &Intent,
    new: NewPlan,
) -> Result<Versioned<PlanRecord>> {
    let now = plane.now();
    let decided = new.approved.then(|| Decided {
        actor: intent.actor.clone(),
        at: now,
        reason: intent.reason.clone(),
    });
    let (does, cure, expected, moves, letter) = match new.content {
        Content::Moves(plan) => {
            let letter = plan.to_string();
            ("move", None, Vec::new(), Some(plan), letter)
        }
        Content::Cure(cure, expected, letter) => (cure.name(), Some(cure), expected, None, letter),
    };
    let record = PlanRecord {
        plan_id: fresh_of(plane, "plan").0,
        status: match new.approved {
            true => PlanStatus::Approved,
            false => PlanStatus::Proposed,
        },
        made_at: now,
        actor: intent.actor.clone(),
        reason: intent.reason.clone(),
        hotspot_id: new.hotspot_id,
        shards: new.shards,
        does: does.to_owned(),
        cure,
        plan: moves,
        expected,
        aim: None,
        shards_needed: None,
        letter,
        concurrency: new.manner.concurrency,
        window_ms: new.manner.window_ms,
        sync: new.manner.sync,
        decided,
        execution_id: None,
        migrations: Vec::new(),
        done_at: None,
        outcome: None,
        past: None,
        note: None,
    };
    let write = typed::create(&record, Vec::new())?;
    let commit = intent.create(plane, "plan.propose", vec![write], Vec::new(), &record)?;
    match plane.registry().commit(commit).await {
        Ok(_) => {}
        Err(CommitError::Store(error)) => return Err(error.into()),
        Err(other) => return Err(commit_failed(other)),
    }
    if record.plan.is_some() {
        start(plane, &record.plan_id).await;
    }
    get(plane, &record.plan_id).await
}

/// Has a plan of moves carried out: the execution waits until it is approved.
/// What fails here is made good by the next round.
pub(crate) async fn start(plane: &ControlPlane, id: &str) {
    let input = json!({ "planID": id });
    let started = match engine(plane) {
        Ok(engine) => engine.start(WORKFLOW, id, input).await.map(drop),
        Err(error) => {
            tracing::warn!(id, %error, "a plan could not be started, and will be");
            return;
        }
    };
    if let Err(error) = started {
        tracing::warn!(id, %error, "a plan could not be started, and will be");
    }
}

/// Whether an execution works on a plan.
pub(crate) async fn is_worked_on(plane: &ControlPlane, id: &str) -> Result<bool> {
    let found = engine(plane)?.get(&execution(id)).await.map_err(away)?;
    Ok(found.is_some())
}

/// The execution that carries a plan out.
pub(crate) fn execution(id: &str) -> String {
    format!("{WORKFLOW}:{id}")
}

/// One plan.
pub async fn get(plane: &ControlPlane, id: &str) -> Result<Versioned<PlanRecord>> {
    let found = typed::get::<PlanRecord>(plane.registry(), id).await?;
    found.ok_or_else(|| {
        let error = Error::new(ErrorCode::PlanNotFound, format!("there is no plan {id:?}"));
        error.next("See which there are (plan list).")
    })
}

/// Plans, the newest first.
pub async fn list(
    plane: &ControlPlane,
    open: Option<bool>,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<Versioned<PlanRecord>>> {
    let mut found = Vec::new();
    let mut after = after;
    // Those that are over have no term of their own: they are left out here.
    loop {
        let query = RecordQuery {
            terms: (open == Some(true))
                .then(|| OPEN.to_owned())
                .into_iter()
                .collect(),
            after: after.take(),
            descending: true,
            ..RecordQuery::all(Kind::Plan, limit)
        };
        let page = typed::list::<PlanRecord>(plane.registry(), &query).await?;
        let is_last = page.len() < limit as usize;
        after = page.last().map(|plan| plan.value.plan_id.clone());
        let wanted = |plan: &Versioned<PlanRecord>| match open {
            Some(false) => !plan.value.status.is_open(),
            _ => true,
        };
        found.extend(page.into_iter().filter(wanted));
        if is_last || found.len() >= limit as usize {
            found.truncate(limit as usize);
            return Ok(found);
        }
    }
}

/// Every plan that is not over.
pub(crate) async fn open(plane: &ControlPlane) -> Result<Vec<Versioned<PlanRecord>>> {
    list(plane, Some(true), None, OPEN_MAX).await
}

/// Says yes or no to a plan that waits for it.
pub async fn decide(
    plane: &ControlPlane,
    intent: &Intent,
    id: &str,
    if_match: &IfMatch,
    yes: bool,
) -> Result<Versioned<PlanRecord>> {
    let action = if yes { "plan.approve" } else { "plan.reject" };
    let at = plane.now();
    change(plane, intent, id, if_match, action, |plan| {
        let wanted = if yes {
            PlanStatus::Approved
        } else {
            PlanStatus::Rejected
        };
        if plan.status == wanted {
            return Ok(());
        }
        if plan.status != PlanStatus::Proposed {
            let detail = format!(
                "plan {id} is {}: nobody is asked any more",
                plan.status.name()
            );
            return Err(Error::new(ErrorCode::WrongPhase, detail));
        }
        plan.status = wanted;
        plan.decided = Some(Decided {
            actor: intent.actor.clone(),
            at,
            reason: intent.reason.clone(),
        });
        Ok(())
    })
    .await
}

/// Changes a plan's record.
pub(crate) async fn change(
    plane: &ControlPlane,
    intent: &Intent,
    id: &str,
    if_match: &IfMatch,
    action: &'static str,
    edit: impl Fn(&mut PlanRecord) -> Result<()>,
) -> Result<Versioned<PlanRecord>> {
    let mut attempts = Attempts::new(plane, intent, action, if_match);
    loop {
        let found = get(plane, id).await?;
        let mut value = found.value.clone();
        edit(&mut value)?;
        let writes = match value == found.value {
            true => Vec::new(),
            false => vec![typed::update(found.version, &value)?],
        };
        let edit = Edit {
            old: found.version,
            value,
            writes,
            expects: Vec::new(),
        };
        if let Some(done) = attempts.commit(edit).await? {
            return Ok(done);
        }
    }
}

/// The shards that a plan of moves empties.
pub(crate) fn relieved(plan: &Plan) -> Vec<ShardId> {
    let from: BTreeSet<_> = plan.moves.iter().map(|it| it.from.clone()).collect();
    from.into_iter().collect()
}

/// What a plan is expected to do to the first shard that it relieves: its fill
/// before and after.
pub(crate) fn promised(record: &PlanRecord) -> Option<(f64, f64)> {
    let first = record.shards.first()?;
    if let Some(cure) = &record.cure {
        let effect = match cure {
            // That of the whole region.
            Cure::AddShards { .. } => record.expected.first()?,
            _ => record.expected.iter().find(|it| it.shard == *first)?,
        };
        return Some((effect.before, effect.after));
    }
    let plan = record.plan.as_ref()?;
    let shard = plan.shards.iter().find(|shard| shard.shard_id == *first)?;
    Some((shard.before.share, shard.after.share))
}

/// The cure that a plan is, as it is remembered.
pub(crate) fn cure_of(record: &PlanRecord) -> Option<Cure> {
    use ballast_hotspot_detector::diagnose::Placed;
    if let Some(cure) = &record.cure {
        return Some(cure.clone());
    }
    let plan = record.plan.as_ref()?;
    let from = record.shards.first()?.clone();
    let slices = plan.moves.iter().map(|it| Placed {
        slice: it.slice.clone(),
        to: it.to.clone(),
    });
    Some(Cure::Move {
        from,
        slices: slices.collect(),
        bytes: plan.totals.bytes as f64,
        price_ms: {
            let lasts = plan.totals.ends_at.unix_ms() - record.made_at.unix_ms();
            u64::try_from(lasts).unwrap_or(0)
        },
    })
}

/// A finding with what the planner made of it. It may know better what to move
/// than the diagnosis thought at first.
pub(crate) fn as_planned(finding: &Finding, record: &PlanRecord) -> Finding {
    let mut told = finding.clone();
    if let (Some(cure), Some(plan)) = (cure_of(record), &record.plan) {
        let ends = |shard: &ShardId| {
            plan.moves
                .iter()
                .any(|it| [&it.from, &it.to].contains(&shard))
        };
        let shards = plan.shards.iter().filter(|it| ends(&it.shard_id));
        told.cure = cure;
        told.expected = shards
            .filter_map(|it| {
                // What it was fullest of, then and now.
                let dimension = dimension(it.before.measure)?;
                let same = it.after.measure == it.before.measure;
                same.then(|| Effect {
                    shard: it.shard_id.clone(),
                    dimension: Some(dimension),
                    before: it.before.share,
                    after: it.after.share,
                })
            })
            .collect();
    }
    told
}

fn dimension(measure: Measure) -> Option<Dimension> {
    match measure {
        Measure::Votes => Some(Dimension::Votes),
        Measure::Queries => Some(Dimension::Queries),
        Measure::Bytes => Some(Dimension::Bytes),
        Measure::Storage => Some(Dimension::Storage),
        Measure::Concurrency => Some(Dimension::Concurrency),
        Measure::Slices => None,
    }
}

/// Whether a plan has waited for too long.
pub(crate) fn is_overdue(plane: &ControlPlane, record: &PlanRecord, now: Timestamp) -> bool {
    let most = i64::try_from(plane.settings().hotspots.expire_ms).unwrap_or(i64::MAX);
    record.status == PlanStatus::Proposed
        && now.unix_ms().saturating_sub(record.made_at.unix_ms()) > most
}
