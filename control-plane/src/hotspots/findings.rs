//! Keeps one record per hotspot, from its detection until it is over, including
//! why nothing is done about it.

use std::collections::BTreeSet;

use ballast_domain::migration::Migration;
use ballast_domain::registry::{CommitError, RecordKind, RecordQuery};
use ballast_domain::{Result, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::report::format_report;
use ballast_hotspot_detector::diagnose::{Cure, Finding};
use ballast_hotspot_detector::plan::Plan;
use serde_json::Value;

use super::decide::{Decision, decide, explain_no_repeat};
use super::fleet::PlanScope;
use super::matching::{CurrentFinding, KnownHotspot, match_findings};
use super::plans::{self, NewPlan, PlanContent};
use super::records::{HotspotRecord, HotspotStatus, NoActionReason, OPEN, PlanRecord};
use crate::change::commit_failed;
use crate::drains::MigrationOptions;
use crate::intent::Intent;
use crate::migrations::begin::new_record_id;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::workflows::no_engine;

/// Maximum number of open hotspots.
const OPEN_MAX: u32 = 10_000;
/// Retry interval after the planner found no plan.
const PLAN_AGAIN_MS: i64 = 60_000;
/// Number of recent plans searched for an earlier one of the same hotspot.
const RECENT_MAX: u32 = 50;

/// The open hotspots.
#[derive(Default)]
pub(crate) struct OpenHotspots {
    open: Vec<OpenHotspot>,
}

struct OpenHotspot {
    record: Versioned<HotspotRecord>,
    /// Why the planner had nothing to offer, and when.
    refused: Option<(NoActionReason, Timestamp)>,
}

impl OpenHotspots {
    /// Loads the hotspots that are open in the registry.
    pub(crate) async fn load_open(plane: &ControlPlane) -> Result<Self> {
        let query = RecordQuery {
            terms: vec![OPEN.to_owned()],
            ..RecordQuery::all(RecordKind::Hotspot, OPEN_MAX)
        };
        let open = typed::list::<HotspotRecord>(plane.registry(), &query).await?;
        let open = open.into_iter().map(|record| OpenHotspot {
            record,
            refused: None,
        });
        Ok(Self {
            open: open.collect(),
        })
    }

    /// When the oldest open hotspot began.
    pub(crate) fn oldest_since(&self) -> Option<Timestamp> {
        let since = self.open.iter().map(|open| open.record.value.since);
        since.min()
    }

    /// Updates the records to match the current findings.
    pub(crate) async fn record_findings(
        &mut self,
        plane: &ControlPlane,
        found: Vec<Finding>,
    ) -> Result<()> {
        if found.is_empty() && self.open.is_empty() {
            return Ok(());
        }
        let mut plans = plans::list_open(plane).await?;
        let places = match_open_hotspots(&found, &self.open, &plans);
        let before = std::mem::take(&mut self.open);
        let mut before: Vec<_> = before.into_iter().map(Some).collect();
        for (finding, place) in found.into_iter().zip(places) {
            let known = place.and_then(|at| before.get_mut(at)?.take());
            match record_finding(plane, known, &finding, &mut plans).await {
                Ok(open) => self.open.push(open),
                Err((open, error)) => {
                    tracing::warn!(shards = ?finding.shards, %error, "failed to update a hotspot; will retry");
                    self.open.extend(open.map(|open| *open));
                }
            }
        }
        for open in before.into_iter().flatten() {
            if let Err(error) = record_end(plane, &open.record).await {
                tracing::warn!(id = open.record.value.hotspot_id, %error, "failed to record the end of a hotspot; will retry");
                self.open.push(open);
            }
        }
        Ok(())
    }
}

/// Matches each finding to the open hotspot that it continues.
fn match_open_hotspots(
    found: &[Finding],
    open: &[OpenHotspot],
    plans: &[Versioned<PlanRecord>],
) -> Vec<Option<usize>> {
    let now = found.iter().map(|finding| CurrentFinding {
        names: rule_names(finding),
        cure: finding.cure.name().to_owned(),
    });
    let before = open.iter().map(|open| {
        let hotspot = &open.record.value;
        let own = |plan: &&Versioned<PlanRecord>| {
            plan.value.hotspot_id.as_ref() == Some(&hotspot.hotspot_id)
        };
        KnownHotspot {
            names: hotspot.rules.clone(),
            found_at: hotspot.found_at,
            cure: plans.iter().find(own).map(|plan| plan.value.does.clone()),
        }
    });
    match_findings(&now.collect::<Vec<_>>(), &before.collect::<Vec<_>>())
}

/// Identifies a finding: its rules and their subjects.
pub(crate) fn rule_names(finding: &Finding) -> Vec<String> {
    let rules = finding.hotspots.iter();
    let mut names: Vec<_> = rules
        .map(|hotspot| format!("{} on {}", hotspot.rule, hotspot.subject))
        .collect();
    if names.is_empty() {
        // Found while diagnosing another hotspot.
        let shards: Vec<_> = finding.shards.iter().map(ShardId::as_str).collect();
        names.push(format!(
            "{} on {}",
            cure_subject(&finding.cure),
            shards.join(", ")
        ));
    }
    names
}

fn cure_subject(cure: &Cure) -> String {
    match cure {
        Cure::Throttle { key, .. } => format!("key {key}"),
        Cure::Lanes { item, .. } => format!("counter {}", item.item),
        other => other.name().to_owned(),
    }
}

type TreatmentFailure = (Option<Box<OpenHotspot>>, ballast_domain::Error);

/// Records a finding and acts on it.
async fn record_finding(
    plane: &ControlPlane,
    known: Option<OpenHotspot>,
    finding: &Finding,
    plans: &mut Vec<Versioned<PlanRecord>>,
) -> std::result::Result<OpenHotspot, TreatmentFailure> {
    let mut refused = known.as_ref().and_then(|open| open.refused.clone());
    let written = match known {
        Some(open) => Ok(open.record),
        None => create_record(plane, finding).await,
    };
    let record = written.map_err(|error| (None, error))?;
    let id = record.value.hotspot_id.clone();
    let open_plan = find_open_plan(plans, &id, finding).map(|plan| plan.value.clone());
    let treated = plan_cure(
        plane,
        &record.value,
        finding,
        open_plan.as_ref(),
        &mut refused,
    )
    .await;
    let treated = match treated {
        Ok(treated) => treated,
        Err(error) => {
            // Record what failed as the reason, and retry.
            TreatmentResult::no_action(NoActionReason::new(error.to_string()))
        }
    };
    plans.extend(treated.made.clone());
    let own = open_plan.filter(|plan| plan.hotspot_id.as_ref() == Some(&id));
    let then = updated_record(&record.value, finding, &treated, own.as_ref());
    match write_if_changed(plane, record.clone(), then).await {
        Ok(record) => Ok(OpenHotspot { record, refused }),
        Err(error) => Err((Some(Box::new(OpenHotspot { record, refused })), error)),
    }
}

/// The open plan for a finding, or one that blocks it: each shard has at most one
/// plan that moves data.
fn find_open_plan<'a>(
    plans: &'a [Versioned<PlanRecord>],
    id: &str,
    finding: &Finding,
) -> Option<&'a Versioned<PlanRecord>> {
    let own = |plan: &&Versioned<PlanRecord>| {
        let same_cure = plan.value.does == finding.cure.name();
        plan.value.hotspot_id.as_deref() == Some(id) && same_cure
    };
    let in_the_way = |plan: &&Versioned<PlanRecord>| {
        let moves = plan.value.plan.is_some() || plan.value.does == "split";
        let shards = &plan.value.shards;
        let touches = finding.shards.iter().any(|shard| shards.contains(shard));
        finding.cure.moves_data() && moves && touches
    };
    // A plan for the same key, poll or region.
    let same = |plan: &&Versioned<PlanRecord>| {
        let cure = plan.value.cure.as_ref();
        cure.is_some_and(|cure| cure.same_subject(&finding.cure))
    };
    let found = plans.iter().find(own);
    found.or_else(|| plans.iter().find(|plan| in_the_way(plan) || same(plan)))
}

/// What was done about a finding.
struct TreatmentResult {
    why_not: Option<NoActionReason>,
    made: Option<Versioned<PlanRecord>>,
}

impl TreatmentResult {
    fn no_action(why_not: impl Into<Option<NoActionReason>>) -> Self {
        Self {
            why_not: why_not.into(),
            made: None,
        }
    }
}

/// Why a cure waits if workflows, which carry it out, are unavailable.
fn describe_missing_engine(plane: &ControlPlane, cure: &Cure) -> Option<NoActionReason> {
    let why = plane.workflow_trouble().filter(|_| cure.acts())?;
    let waits = format!("it waits for {}", no_engine(&why));
    Some(NoActionReason::new(waits))
}

async fn plan_cure(
    plane: &ControlPlane,
    hotspot: &HotspotRecord,
    finding: &Finding,
    plan: Option<&PlanRecord>,
    refused: &mut Option<(NoActionReason, Timestamp)>,
) -> Result<TreatmentResult> {
    let (settings, now) = (plane.settings(), plane.now());
    let objection = describe_missing_engine(plane, &finding.cure);
    let against = match objection.or_else(|| check_calendar(plane, &finding.cure)) {
        Some(why_not) => Some(why_not),
        None => {
            let last = load_last_plan(plane, hotspot, finding.cure.name()).await?;
            let rest_ms = settings.hotspots.diagnose.rest_ms;
            last.and_then(|last| explain_no_repeat(&last, finding, rest_ms, now))
        }
    };
    let approved = match decide(settings.hotspots.mode, finding, plan, against) {
        Decision::Nothing(why_not) => {
            let waits = match plan {
                Some(plan) => explain_migration_wait(plane, plan).await?,
                None => None,
            };
            return Ok(TreatmentResult::no_action(waits.or(why_not)));
        }
        Decision::Propose => false,
        Decision::Do => true,
    };
    if let Some((why_not, at)) = refused
        && now.unix_ms() - at.unix_ms() < PLAN_AGAIN_MS
    {
        return Ok(TreatmentResult::no_action(why_not.clone()));
    }
    let (content, needs_approval) = match &finding.cure {
        Cure::Move { .. } => {
            let shards: BTreeSet<_> = finding.shards.iter().cloned().collect();
            let plan = plans::draft(plane, &PlanScope::Shards(shards)).await?;
            if plan.moves.is_empty() {
                let why_not = explain_empty_plan(&plan);
                *refused = Some((why_not.clone(), now));
                return Ok(TreatmentResult::no_action(why_not));
            }
            let needs_approval = plan.moves.iter().any(|it| it.needs_approval.is_some());
            (PlanContent::Moves(plan), needs_approval)
        }
        other => {
            let expected = finding.expected.clone();
            let content = PlanContent::Cure(other.clone(), expected, format_report(finding));
            (content, false)
        }
    };
    *refused = None;
    let intent = Intent::ballast("hotspots", &content.summarize());
    let new = NewPlan {
        hotspot_id: Some(hotspot.hotspot_id.clone()),
        shards: finding.shards.clone(),
        content,
        options: MigrationOptions::default(),
        approved: approved && !needs_approval,
    };
    let made = plans::create(plane, &intent, new).await?;
    let why_not = Some(NoActionReason::new(super::decide::describe_plan(
        &made.value,
    )));
    Ok(TreatmentResult {
        why_not,
        made: Some(made),
    })
}

/// Loads the last plan made for a hotspot with this cure.
async fn load_last_plan(
    plane: &ControlPlane,
    hotspot: &HotspotRecord,
    does: &str,
) -> Result<Option<PlanRecord>> {
    let Some(id) = &hotspot.plan_id else {
        return Ok(None);
    };
    let found = typed::get::<PlanRecord>(plane.registry(), id).await?;
    let found = found.map(|found| found.value);
    if found.as_ref().is_some_and(|last| last.does == does) {
        return Ok(found);
    }
    // A decision about one cure holds even if another cure was tried since.
    let recent = plans::list(plane, None, None, RECENT_MAX).await?;
    let mut mine = recent.into_iter().map(|plan| plan.value);
    let hotspot_id = Some(hotspot.hotspot_id.as_str());
    Ok(mine.find(|plan| plan.hotspot_id.as_deref() == hotspot_id && plan.does == does))
}

/// Why a running plan waits, if one of its migrations does.
async fn explain_migration_wait(
    plane: &ControlPlane,
    plan: &PlanRecord,
) -> Result<Option<NoActionReason>> {
    for name in &plan.migrations {
        let found = typed::get::<Migration>(plane.registry(), name).await?;
        let open = found.filter(|found| found.value.ended.is_none());
        if let Some(waits) = open.and_then(|found| found.value.waiting_for) {
            let because = format!(
                "{} is being carried out: {name} waits for {waits}",
                plan.plan_id
            );
            return Ok(Some(NoActionReason::new(because)));
        }
    }
    Ok(None)
}

/// Checks whether the calendar objects to a cure. The planner checks moves itself.
fn check_calendar(plane: &ControlPlane, cure: &Cure) -> Option<NoActionReason> {
    let (calendar, now) = (plane.calendar()?, plane.now());
    match cure {
        Cure::Lanes { item, from, to } if to < from => {
            let kept = calendar.required_lanes(item.poll, now)?;
            let because = format!("{} keeps {kept} lanes for its expected voters", item.poll);
            (*to < kept).then(|| NoActionReason::new(because))
        }
        Cure::Split { slice, .. } => {
            let frozen = calendar.freeze_for(&slice.tenant_id, now)?;
            Some(NoActionReason {
                because: frozen.to_string(),
                until: Some(frozen.until),
            })
        }
        _ => None,
    }
}

/// Why the planner has nothing to offer.
fn explain_empty_plan(plan: &Plan) -> NoActionReason {
    let text = plan.to_string();
    let from = text.find("Not cured").unwrap_or(0);
    let because = match plan.unhelped.is_empty() {
        true => "the planner finds every shard under its limits over the long window".to_owned(),
        false => format!(
            "the planner has no move that helps. {}",
            text[from..].trim()
        ),
    };
    NoActionReason::new(because)
}

async fn create_record(
    plane: &ControlPlane,
    finding: &Finding,
) -> Result<Versioned<HotspotRecord>> {
    let hotspots = &finding.hotspots;
    let since = hotspots.iter().map(|hotspot| hotspot.since).min();
    let severity = hotspots.iter().map(|hotspot| hotspot.severity).max();
    let value = HotspotRecord {
        hotspot_id: new_record_id(plane, "hot").0,
        status: HotspotStatus::Open,
        since: since.unwrap_or(finding.at),
        found_at: plane.now(),
        over_at: None,
        severity: severity.unwrap_or_default().name().to_owned(),
        rules: rule_names(finding),
        shards: finding.shards.clone(),
        cause: finding.cause.name().to_owned(),
        cure: finding.cure.name().to_owned(),
        why_not: None,
        plan_id: None,
        letter: format_report(finding),
        details: details(finding),
    };
    let intent = Intent::ballast("hotspots", &value.rules.join("; "));
    let write = typed::create(&value, Vec::new())?;
    let commit = intent.commit("hotspot.find", vec![write], Vec::new());
    commit_one(plane, commit).await?;
    tracing::warn!(
        id = value.hotspot_id,
        shards = ?value.shards,
        cause = value.cause,
        cure = value.cure,
        "found a hotspot"
    );
    Ok(Versioned { value, version: 1 })
}

/// The full finding, as JSON.
pub(crate) fn details(finding: &Finding) -> Value {
    serde_json::to_value(finding).unwrap_or_default()
}

/// The updated record. While a cure is in progress, and after it, the record keeps
/// describing what was cured.
fn updated_record(
    record: &HotspotRecord,
    finding: &Finding,
    treated: &TreatmentResult,
    open: Option<&PlanRecord>,
) -> HotspotRecord {
    let made = treated.made.as_ref().map(|made| &made.value);
    let plan_id = made.or(open).map(|plan| plan.plan_id.clone());
    let then = HotspotRecord {
        rules: rule_names(finding),
        shards: finding.shards.clone(),
        why_not: treated.why_not.clone(),
        plan_id: plan_id.or_else(|| record.plan_id.clone()),
        ..record.clone()
    };
    let is_treated = record.plan_id.is_some() && (open.is_some() || !finding.cure.acts());
    if made.is_none() && is_treated {
        return then;
    }
    let finding = made.map_or_else(|| finding.clone(), |plan| plans::apply_plan(finding, plan));
    HotspotRecord {
        cause: finding.cause.name().to_owned(),
        cure: finding.cure.name().to_owned(),
        letter: format_report(&finding),
        details: details(&finding),
        ..then
    }
}

/// Writes a record only if it says something new: its numbers change all the time.
async fn write_if_changed(
    plane: &ControlPlane,
    record: Versioned<HotspotRecord>,
    then: HotspotRecord,
) -> Result<Versioned<HotspotRecord>> {
    let gist = |it: &HotspotRecord| {
        let why_not = it.why_not.as_ref().map(|why| why.because.clone());
        let (rules, shards) = (it.rules.clone(), it.shards.clone());
        (
            rules,
            shards,
            it.cause.clone(),
            it.cure.clone(),
            why_not,
            it.plan_id.clone(),
        )
    };
    if gist(&record.value) == gist(&then) {
        return Ok(record);
    }
    let intent = Intent::ballast("hotspots", &format!("{}: {}", then.cause, then.cure));
    write(plane, &intent, "hotspot.update", record.version, then).await
}

async fn record_end(plane: &ControlPlane, record: &Versioned<HotspotRecord>) -> Result<()> {
    let mut then = record.value.clone();
    then.status = HotspotStatus::Over;
    then.over_at = Some(plane.now());
    then.why_not = None;
    tracing::info!(id = then.hotspot_id, "a hotspot has ended");
    let intent = Intent::ballast("hotspots", "the hotspot ended");
    write(plane, &intent, "hotspot.end", record.version, then).await?;
    Ok(())
}

async fn write(
    plane: &ControlPlane,
    intent: &Intent,
    action: &'static str,
    version: u64,
    value: HotspotRecord,
) -> Result<Versioned<HotspotRecord>> {
    let write = typed::update(version, &value)?;
    let commit = intent.commit(action, vec![write], Vec::new());
    commit_one(plane, commit).await?;
    Ok(Versioned {
        value,
        version: version + 1,
    })
}

async fn commit_one(
    plane: &ControlPlane,
    commit: ballast_domain::registry::RegistryCommit,
) -> Result<()> {
    match plane.registry().commit(commit).await {
        Ok(_) => Ok(()),
        Err(CommitError::Store(error)) => Err(error.into()),
        Err(other) => Err(commit_failed(other)),
    }
}
