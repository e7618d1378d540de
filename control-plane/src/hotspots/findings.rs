//! Findings become records: one for each hotspot, from when it is found until
//! it is over, with the reason when nothing is done about it.

use std::collections::BTreeSet;

use ballast_domain::migration::Migration;
use ballast_domain::registry::{CommitError, Kind, RecordQuery};
use ballast_domain::{Result, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::letter::letter;
use ballast_hotspot_detector::diagnose::{Cure, Finding};
use ballast_hotspot_detector::plan::Plan;
use serde_json::Value;

use super::decide::{Decision, decide, declined};
use super::fleet::Of;
use super::plans::{self, Content, NewPlan};
use super::records::{Hotspot, HotspotStatus, OPEN, PlanRecord, WhyNot};
use super::same::{Before, Now, same};
use crate::change::commit_failed;
use crate::drains::Manner;
use crate::intent::Intent;
use crate::migrations::begin::fresh_of;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// Hotspots that are open at the same time, at the most.
const OPEN_MAX: u32 = 10_000;
/// What could not be planned is tried again after so long.
const PLAN_AGAIN_MS: i64 = 60_000;
/// Plans among which an earlier one of a hotspot is looked for, newest first.
const RECENT_MAX: u32 = 50;

/// The hotspots that are open.
#[derive(Default)]
pub(crate) struct Findings {
    open: Vec<Open>,
}

struct Open {
    record: Versioned<Hotspot>,
    /// What the planner said when it had nothing to offer, and when.
    refused: Option<(WhyNot, Timestamp)>,
}

impl Findings {
    /// Those that were open when the process was started.
    pub(crate) async fn read(plane: &ControlPlane) -> Result<Self> {
        let query = RecordQuery {
            terms: vec![OPEN.to_owned()],
            ..RecordQuery::all(Kind::Hotspot, OPEN_MAX)
        };
        let open = typed::list::<Hotspot>(plane.registry(), &query).await?;
        let open = open.into_iter().map(|record| Open {
            record,
            refused: None,
        });
        Ok(Self {
            open: open.collect(),
        })
    }

    /// Since when the oldest of them is hot.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        let since = self.open.iter().map(|open| open.record.value.since);
        since.min()
    }

    /// Brings the records in line with what is found now.
    pub(crate) async fn settle(&mut self, plane: &ControlPlane, found: Vec<Finding>) -> Result<()> {
        if found.is_empty() && self.open.is_empty() {
            return Ok(());
        }
        let mut plans = plans::open(plane).await?;
        let places = places(&found, &self.open, &plans);
        let before = std::mem::take(&mut self.open);
        let mut before: Vec<_> = before.into_iter().map(Some).collect();
        for (finding, place) in found.into_iter().zip(places) {
            let known = place.and_then(|at| before.get_mut(at)?.take());
            match treat(plane, known, &finding, &mut plans).await {
                Ok(open) => self.open.push(open),
                Err((open, error)) => {
                    tracing::warn!(shards = ?finding.shards, %error, "a hotspot is not looked after for now");
                    self.open.extend(open.map(|open| *open));
                }
            }
        }
        for open in before.into_iter().flatten() {
            if let Err(error) = end(plane, &open.record).await {
                tracing::warn!(id = open.record.value.hotspot_id, %error, "a hotspot's end is not written down yet");
                self.open.push(open);
            }
        }
        Ok(())
    }
}

/// For each finding the hotspot of before that it is.
fn places(found: &[Finding], open: &[Open], plans: &[Versioned<PlanRecord>]) -> Vec<Option<usize>> {
    let now = found.iter().map(|finding| Now {
        names: names(finding),
        cure: finding.cure.name().to_owned(),
    });
    let before = open.iter().map(|open| {
        let hotspot = &open.record.value;
        let own = |plan: &&Versioned<PlanRecord>| {
            plan.value.hotspot_id.as_ref() == Some(&hotspot.hotspot_id)
        };
        Before {
            names: hotspot.rules.clone(),
            found_at: hotspot.found_at,
            cure: plans.iter().find(own).map(|plan| plan.value.does.clone()),
        }
    });
    same(&now.collect::<Vec<_>>(), &before.collect::<Vec<_>>())
}

/// What tells one finding from another: the rules and what they hold for.
pub(crate) fn names(finding: &Finding) -> Vec<String> {
    let rules = finding.hotspots.iter();
    let mut names: Vec<_> = rules
        .map(|hotspot| format!("{} on {}", hotspot.rule, hotspot.subject))
        .collect();
    if names.is_empty() {
        // Seen while looking for the cause of another hotspot.
        let shards: Vec<_> = finding.shards.iter().map(ShardId::as_str).collect();
        names.push(format!(
            "{} on {}",
            subject(&finding.cure),
            shards.join(", ")
        ));
    }
    names
}

fn subject(cure: &Cure) -> String {
    match cure {
        Cure::Throttle { key, .. } => format!("key {key}"),
        Cure::Lanes { item, .. } => format!("counter {}", item.item),
        other => other.name().to_owned(),
    }
}

type Troubled = (Option<Box<Open>>, ballast_domain::Error);

/// Writes a finding down, and does about it what is to be done.
async fn treat(
    plane: &ControlPlane,
    known: Option<Open>,
    finding: &Finding,
    plans: &mut Vec<Versioned<PlanRecord>>,
) -> std::result::Result<Open, Troubled> {
    let mut refused = known.as_ref().and_then(|open| open.refused.clone());
    let written = match known {
        Some(open) => Ok(open.record),
        None => write_new(plane, finding).await,
    };
    let record = written.map_err(|error| (None, error))?;
    let id = record.value.hotspot_id.clone();
    let open_plan = open_plan(plans, &id, finding).map(|plan| plan.value.clone());
    let treated = act(
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
            // What could not be done now is told, and tried again.
            Treated::left(WhyNot::new(error.to_string()))
        }
    };
    plans.extend(treated.made.clone());
    let own = open_plan.filter(|plan| plan.hotspot_id.as_ref() == Some(&id));
    let then = told(&record.value, finding, &treated, own.as_ref());
    match update(plane, record.clone(), then).await {
        Ok(record) => Ok(Open { record, refused }),
        Err(error) => Err((Some(Box::new(Open { record, refused })), error)),
    }
}

/// The plan that is open for a finding, or stands in its way: one at a time for
/// a shard.
fn open_plan<'a>(
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
    // One that is for the same key, poll or region.
    let same = |plan: &&Versioned<PlanRecord>| {
        let cure = plan.value.cure.as_ref();
        cure.is_some_and(|cure| cure.same_subject(&finding.cure))
    };
    let found = plans.iter().find(own);
    found.or_else(|| plans.iter().find(|plan| in_the_way(plan) || same(plan)))
}

/// What was done.
struct Treated {
    why_not: Option<WhyNot>,
    made: Option<Versioned<PlanRecord>>,
}

impl Treated {
    fn left(why_not: impl Into<Option<WhyNot>>) -> Self {
        Self {
            why_not: why_not.into(),
            made: None,
        }
    }
}

async fn act(
    plane: &ControlPlane,
    hotspot: &Hotspot,
    finding: &Finding,
    plan: Option<&PlanRecord>,
    refused: &mut Option<(WhyNot, Timestamp)>,
) -> Result<Treated> {
    let (settings, now) = (plane.settings(), plane.now());
    let against = match awaits(plane, &finding.cure) {
        Some(why_not) => Some(why_not),
        None => {
            let last = last_plan(plane, hotspot, finding.cure.name()).await?;
            let rest_ms = settings.hotspots.diagnose.rest_ms;
            last.and_then(|last| declined(&last, finding, rest_ms, now))
        }
    };
    let approved = match decide(settings.hotspots.mode, finding, plan, against) {
        Decision::Nothing(why_not) => {
            let waits = match plan {
                Some(plan) => waits_for(plane, plan).await?,
                None => None,
            };
            return Ok(Treated::left(waits.or(why_not)));
        }
        Decision::Propose => false,
        Decision::Do => true,
    };
    if let Some((why_not, at)) = refused
        && now.unix_ms() - at.unix_ms() < PLAN_AGAIN_MS
    {
        return Ok(Treated::left(why_not.clone()));
    }
    let (content, needs_approval) = match &finding.cure {
        Cure::Move { .. } => {
            let shards: BTreeSet<_> = finding.shards.iter().cloned().collect();
            let plan = plans::draft(plane, &Of::Shards(shards)).await?;
            if plan.moves.is_empty() {
                let why_not = nothing_planned(&plan);
                *refused = Some((why_not.clone(), now));
                return Ok(Treated::left(why_not));
            }
            let needs_approval = plan.moves.iter().any(|it| it.needs_approval.is_some());
            (Content::Moves(plan), needs_approval)
        }
        other => {
            let expected = finding.expected.clone();
            let content = Content::Cure(other.clone(), expected, letter(finding));
            (content, false)
        }
    };
    *refused = None;
    let intent = Intent::ballast("hotspots", &content.told());
    let new = NewPlan {
        hotspot_id: Some(hotspot.hotspot_id.clone()),
        shards: finding.shards.clone(),
        content,
        manner: Manner::default(),
        approved: approved && !needs_approval,
    };
    let made = plans::make(plane, &intent, new).await?;
    let why_not = Some(WhyNot::new(super::decide::stands(&made.value)));
    Ok(Treated {
        why_not,
        made: Some(made),
    })
}

/// The last plan that was made for a hotspot with this cure.
async fn last_plan(
    plane: &ControlPlane,
    hotspot: &Hotspot,
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
    // What was said of one cure is not forgotten because another was tried since.
    let recent = plans::list(plane, None, None, RECENT_MAX).await?;
    let mut mine = recent.into_iter().map(|plan| plan.value);
    let hotspot_id = Some(hotspot.hotspot_id.as_str());
    Ok(mine.find(|plan| plan.hotspot_id.as_deref() == hotspot_id && plan.does == does))
}

/// What a plan under way waits for, if one of its moves does.
async fn waits_for(plane: &ControlPlane, plan: &PlanRecord) -> Result<Option<WhyNot>> {
    for name in &plan.migrations {
        let found = typed::get::<Migration>(plane.registry(), name).await?;
        let open = found.filter(|found| found.value.ended.is_none());
        if let Some(waits) = open.and_then(|found| found.value.waiting_for) {
            let because = format!(
                "{} is being carried out: {name} waits for {waits}",
                plan.plan_id
            );
            return Ok(Some(WhyNot::new(because)));
        }
    }
    Ok(None)
}

/// What the calendar of polls has against a cure. The planner asks it by itself.
fn awaits(plane: &ControlPlane, cure: &Cure) -> Option<WhyNot> {
    let (calendar, now) = (plane.calendar()?, plane.now());
    match cure {
        Cure::Lanes { item, from, to } if to < from => {
            let kept = calendar.lanes_kept(item.poll, now)?;
            let because = format!(
                "{} keeps {kept} lanes for those who are expected",
                item.poll
            );
            (*to < kept).then(|| WhyNot::new(because))
        }
        Cure::Split { slice, .. } => {
            let frozen = calendar.frozen(&slice.tenant_id, now)?;
            Some(WhyNot {
                because: frozen.to_string(),
                until: Some(frozen.until),
            })
        }
        _ => None,
    }
}

/// Why the planner has nothing to offer.
fn nothing_planned(plan: &Plan) -> WhyNot {
    let text = plan.to_string();
    let from = text.find("Not cured").unwrap_or(0);
    let because = match plan.unhelped.is_empty() {
        true => "the planner finds every shard under its limits over the long window".to_owned(),
        false => format!(
            "the planner has no move that helps. {}",
            text[from..].trim()
        ),
    };
    WhyNot::new(because)
}

async fn write_new(plane: &ControlPlane, finding: &Finding) -> Result<Versioned<Hotspot>> {
    let hotspots = &finding.hotspots;
    let since = hotspots.iter().map(|hotspot| hotspot.since).min();
    let severity = hotspots.iter().map(|hotspot| hotspot.severity).max();
    let value = Hotspot {
        hotspot_id: fresh_of(plane, "hot").0,
        status: HotspotStatus::Open,
        since: since.unwrap_or(finding.at),
        found_at: plane.now(),
        over_at: None,
        severity: severity.unwrap_or_default().name().to_owned(),
        rules: names(finding),
        shards: finding.shards.clone(),
        cause: finding.cause.name().to_owned(),
        cure: finding.cure.name().to_owned(),
        why_not: None,
        plan_id: None,
        letter: letter(finding),
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
        "a hotspot"
    );
    Ok(Versioned { value, version: 1 })
}

/// All of a finding, for programs.
pub(crate) fn details(finding: &Finding) -> Value {
    serde_json::to_value(finding).unwrap_or_default()
}

/// The record as it should be now. While something is done about a hotspot, and
/// when it passes after that, it tells what it was that was treated.
fn told(
    record: &Hotspot,
    finding: &Finding,
    treated: &Treated,
    open: Option<&PlanRecord>,
) -> Hotspot {
    let made = treated.made.as_ref().map(|made| &made.value);
    let plan_id = made.or(open).map(|plan| plan.plan_id.clone());
    let then = Hotspot {
        rules: names(finding),
        shards: finding.shards.clone(),
        why_not: treated.why_not.clone(),
        plan_id: plan_id.or_else(|| record.plan_id.clone()),
        ..record.clone()
    };
    let is_treated = record.plan_id.is_some() && (open.is_some() || !finding.cure.acts());
    if made.is_none() && is_treated {
        return then;
    }
    let finding = made.map_or_else(|| finding.clone(), |plan| plans::as_planned(finding, plan));
    Hotspot {
        cause: finding.cause.name().to_owned(),
        cure: finding.cure.name().to_owned(),
        letter: letter(&finding),
        details: details(&finding),
        ..then
    }
}

/// Writes a record when it says something new: numbers change all the time.
async fn update(
    plane: &ControlPlane,
    record: Versioned<Hotspot>,
    then: Hotspot,
) -> Result<Versioned<Hotspot>> {
    let gist = |it: &Hotspot| {
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

async fn end(plane: &ControlPlane, record: &Versioned<Hotspot>) -> Result<()> {
    let mut then = record.value.clone();
    then.status = HotspotStatus::Over;
    then.over_at = Some(plane.now());
    then.why_not = None;
    tracing::info!(id = then.hotspot_id, "a hotspot is over");
    let intent = Intent::ballast("hotspots", "it is over");
    write(plane, &intent, "hotspot.end", record.version, then).await?;
    Ok(())
}

async fn write(
    plane: &ControlPlane,
    intent: &Intent,
    action: &'static str,
    version: u64,
    value: Hotspot,
) -> Result<Versioned<Hotspot>> {
    let write = typed::update(version, &value)?;
    let commit = intent.commit(action, vec![write], Vec::new());
    commit_one(plane, commit).await?;
    Ok(Versioned {
        value,
        version: version + 1,
    })
}

async fn commit_one(plane: &ControlPlane, commit: ballast_domain::registry::Commit) -> Result<()> {
    match plane.registry().commit(commit).await {
        Ok(_) => Ok(()),
        Err(CommitError::Store(error)) => Err(error.into()),
        Err(other) => Err(commit_failed(other)),
    }
}
