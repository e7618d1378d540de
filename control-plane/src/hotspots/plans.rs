//! Plans: create, approve, reject, list.

use std::collections::BTreeSet;

use ballast_domain::registry::{CommitError, RecordKind, RecordQuery};
use ballast_domain::{Error, ErrorCode, Result, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::{Cure, ExpectedEffect, Finding, report::describe_cure};
use ballast_hotspot_detector::plan::{FleetSnapshot, Measure, Plan, PlanTerms, plan};
use ballast_hotspot_detector::resources::Dimension;
use serde_json::json;

use super::fleet::{self, PlanScope};
use super::records::{OPEN, PlanDecision, PlanRecord, PlanStatus};
use crate::change::{Attempts, Edit, IfMatch, commit_failed};
use crate::drains::MigrationOptions;
use crate::intent::Intent;
use crate::migrations::begin::new_record_id;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::workflows::{engine, store_unavailable};

/// The workflow that carries out plans of moves.
pub const WORKFLOW: &str = "rebalance";
/// Maximum number of moves in a plan that an operator requested.
const REQUESTED_MOVES_MAX: usize = 1_000;
/// Number of moves listed in a plan's reason.
const MOVES_IN_SUMMARY: usize = 3;
/// Open plans read per round.
const OPEN_MAX: u32 = 1_000;

/// Drafts a plan for these slices; changes nothing.
pub async fn draft(plane: &ControlPlane, of: &PlanScope) -> Result<Plan> {
    let _turn = plane.preview_permit().await;
    let fleet = fleet::read(plane, of).await?;
    run_planner(fleet, fleet::create_plan_terms(plane)).await
}

/// Drafts a plan for all slices on an operator's request. Also moves slices that
/// placement now prefers elsewhere, and slices that were placed recently. The times
/// follow the requested options.
pub async fn draft_all(plane: &ControlPlane, options: &MigrationOptions) -> Result<Plan> {
    let _turn = plane.preview_permit().await;
    let fleet = fleet::read(plane, &PlanScope::All).await?;
    let mut terms = fleet::create_plan_terms(plane);
    terms.settle_seconds = 0;
    terms.follow_weights = true;
    terms.moves_max = REQUESTED_MOVES_MAX;
    fleet::follow_options(&mut terms, plane, options);
    run_planner(fleet, terms).await
}

async fn run_planner(fleet: FleetSnapshot, terms: PlanTerms) -> Result<Plan> {
    let made = tokio::task::spawn_blocking(move || plan(&fleet, &terms)).await;
    made.map_err(|_| Error::new(ErrorCode::Unavailable, "planning was interrupted").retry_after(1))
}

/// A plan to create.
pub(crate) struct NewPlan {
    pub(crate) hotspot_id: Option<String>,
    pub(crate) shards: Vec<ShardId>,
    pub(crate) content: PlanContent,
    pub(crate) options: MigrationOptions,
    /// Whether it may be carried out at once.
    pub(crate) approved: bool,
}

/// What the plan does.
pub(crate) enum PlanContent {
    Moves(Plan),
    Cure(Cure, Vec<ExpectedEffect>, String),
}

impl PlanContent {
    /// Describes the plan in a sentence. The planner reconsiders all tenants and may
    /// choose others than the diagnosis named, so this describes the plan itself.
    pub(crate) fn summarize(&self) -> String {
        let plan = match self {
            Self::Moves(plan) => plan,
            Self::Cure(cure, ..) => return describe_cure(cure),
        };
        let named = plan.moves.iter().take(MOVES_IN_SUMMARY);
        let named: Vec<_> = named
            .map(|it| format!("{} to {}", it.slice.label(), it.to))
            .collect();
        match plan.moves.len() - named.len() {
            0 => format!("move {}", named.join(", ")),
            more => format!("move {} and {more} more", named.join(", ")),
        }
    }
}

/// Records a plan and starts its execution.
pub(crate) async fn create(
    plane: &ControlPlane,
    intent: &Intent,
    new: NewPlan,
) -> Result<Versioned<PlanRecord>> {
    let now = plane.now();
    let decided = new.approved.then(|| PlanDecision {
        actor: intent.actor.clone(),
        at: now,
        reason: intent.reason.clone(),
    });
    let (does, cure, expected, moves, letter) = match new.content {
        PlanContent::Moves(plan) => {
            let letter = plan.to_string();
            ("move", None, Vec::new(), Some(plan), letter)
        }
        PlanContent::Cure(cure, expected, letter) => {
            (cure.name(), Some(cure), expected, None, letter)
        }
    };
    let record = PlanRecord {
        plan_id: new_record_id(plane, "plan").0,
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
        concurrency: new.options.concurrency,
        window_ms: new.options.window_ms,
        sync: new.options.sync,
        now: new.options.now,
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
        start_execution(plane, &record.plan_id).await;
    }
    get(plane, &record.plan_id).await
}

/// Starts the execution of a plan of moves; it waits for the approval. If this
/// fails, the next round retries it.
pub(crate) async fn start_execution(plane: &ControlPlane, id: &str) {
    let input = json!({ "planID": id });
    let started = match engine(plane) {
        Ok(engine) => engine.start(WORKFLOW, id, input).await.map(drop),
        Err(error) => {
            tracing::warn!(id, %error, "failed to start a plan; will retry");
            return;
        }
    };
    if let Err(error) = started {
        tracing::warn!(id, %error, "failed to start a plan; will retry");
    }
}

/// Whether an execution for the plan exists.
pub(crate) async fn has_execution(plane: &ControlPlane, id: &str) -> Result<bool> {
    let found = engine(plane)?
        .get(&execution_id(id))
        .await
        .map_err(store_unavailable)?;
    Ok(found.is_some())
}

/// The id of the execution that carries out a plan.
pub(crate) fn execution_id(id: &str) -> String {
    format!("{WORKFLOW}:{id}")
}

/// One plan.
pub async fn get(plane: &ControlPlane, id: &str) -> Result<Versioned<PlanRecord>> {
    let found = typed::get::<PlanRecord>(plane.registry(), id).await?;
    found.ok_or_else(|| {
        let error = Error::new(ErrorCode::PlanNotFound, format!("there is no plan {id:?}"));
        error.with_next_step("List plans with: plan list.")
    })
}

/// Plans, newest first.
pub async fn list(
    plane: &ControlPlane,
    open: Option<bool>,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<Versioned<PlanRecord>>> {
    let mut found = Vec::new();
    let mut after = after;
    // Ended plans have no index term: filter them here.
    loop {
        let query = RecordQuery {
            terms: (open == Some(true))
                .then(|| OPEN.to_owned())
                .into_iter()
                .collect(),
            after: after.take(),
            descending: true,
            ..RecordQuery::all(RecordKind::Plan, limit)
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

/// Every open plan.
pub(crate) async fn list_open(plane: &ControlPlane) -> Result<Vec<Versioned<PlanRecord>>> {
    list(plane, Some(true), None, OPEN_MAX).await
}

/// Approves or rejects a proposed plan.
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
                "plan {id} is {}: it no longer waits for approval",
                plan.status.name()
            );
            return Err(Error::new(ErrorCode::WrongPhase, detail));
        }
        plan.status = wanted;
        plan.decided = Some(PlanDecision {
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

/// The shards that a plan moves slices away from.
pub(crate) fn relieved_shards(plan: &Plan) -> Vec<ShardId> {
    let from: BTreeSet<_> = plan.moves.iter().map(|it| it.from.clone()).collect();
    from.into_iter().collect()
}

/// The promised effect of a plan on the first shard that it relieves: its fill
/// before and after.
pub(crate) fn promised_effect(record: &PlanRecord) -> Option<(f64, f64)> {
    let first = record.shards.first()?;
    if let Some(cure) = &record.cure {
        let effect = match cure {
            // The effect on the whole region.
            Cure::AddShards { .. } => record.expected.first()?,
            _ => record.expected.iter().find(|it| it.shard == *first)?,
        };
        return Some((effect.before, effect.after));
    }
    let plan = record.plan.as_ref()?;
    let shard = plan.shards.iter().find(|shard| shard.shard_id == *first)?;
    Some((shard.before.share, shard.after.share))
}

/// The plan as a cure, for the memory of past cures.
pub(crate) fn to_cure(record: &PlanRecord) -> Option<Cure> {
    use ballast_hotspot_detector::diagnose::SlicePlacement;
    if let Some(cure) = &record.cure {
        return Some(cure.clone());
    }
    let plan = record.plan.as_ref()?;
    let from = record.shards.first()?.clone();
    let slices = plan.moves.iter().map(|it| SlicePlacement {
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

/// Replaces a finding's cure by what the planner decided, which may differ from
/// the first diagnosis.
pub(crate) fn apply_plan(finding: &Finding, record: &PlanRecord) -> Finding {
    let mut planned = finding.clone();
    if let (Some(cure), Some(plan)) = (to_cure(record), &record.plan) {
        let ends = |shard: &ShardId| {
            plan.moves
                .iter()
                .any(|it| [&it.from, &it.to].contains(&shard))
        };
        let shards = plan.shards.iter().filter(|it| ends(&it.shard_id));
        planned.cure = cure;
        planned.expected = shards
            .filter_map(|it| {
                // The dimension that was fullest, before and after.
                let dimension = to_dimension(it.before.measure)?;
                let same = it.after.measure == it.before.measure;
                same.then(|| ExpectedEffect {
                    shard: it.shard_id.clone(),
                    dimension: Some(dimension),
                    before: it.before.share,
                    after: it.after.share,
                })
            })
            .collect();
    }
    planned
}

fn to_dimension(measure: Measure) -> Option<Dimension> {
    match measure {
        Measure::Votes => Some(Dimension::Votes),
        Measure::Queries => Some(Dimension::Queries),
        Measure::Bytes => Some(Dimension::Bytes),
        Measure::Storage => Some(Dimension::Storage),
        Measure::Concurrency => Some(Dimension::Concurrency),
        Measure::Slices => None,
    }
}

/// Whether a proposed plan has expired.
pub(crate) fn is_overdue(plane: &ControlPlane, record: &PlanRecord, now: Timestamp) -> bool {
    let most = i64::try_from(plane.settings().hotspots.expire_ms).unwrap_or(i64::MAX);
    record.status == PlanStatus::Proposed
        && now.unix_ms().saturating_sub(record.made_at.unix_ms()) > most
}
