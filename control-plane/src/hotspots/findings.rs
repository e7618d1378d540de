//! Findings become records: one for each hotspot, from when it is found until
//! it is over, with the reason when nothing is done about it.

use std::collections::BTreeSet;

use ballast_domain::registry::{CommitError, Kind, RecordQuery};
use ballast_domain::{Result, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::letter::letter;
use ballast_hotspot_detector::diagnose::{Cure, Finding};
use ballast_hotspot_detector::plan::Plan;
use serde_json::Value;

use super::decide::{Decision, decide};
use super::fleet::Of;
use super::plans::{self, Content, NewPlan};
use super::records::{Hotspot, HotspotStatus, OPEN, PlanRecord, WhyNot};
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

    /// Brings the records in line with what is found now.
    pub(crate) async fn settle(&mut self, plane: &ControlPlane, found: Vec<Finding>) -> Result<()> {
        if found.is_empty() && self.open.is_empty() {
            return Ok(());
        }
        let mut plans = plans::open(plane).await?;
        let mut before = std::mem::take(&mut self.open);
        for finding in found {
            let names = names(&finding);
            let known = before
                .iter()
                .position(|open| open.record.value.rules.iter().any(|it| names.contains(it)));
            let known = known.map(|at| before.swap_remove(at));
            match treat(plane, known, &finding, &mut plans).await {
                Ok(open) => self.open.push(open),
                Err((open, error)) => {
                    tracing::warn!(shards = ?finding.shards, %error, "a hotspot is not looked after for now");
                    self.open.extend(open.map(|open| *open));
                }
            }
        }
        for open in before {
            if let Err(error) = end(plane, &open.record).await {
                tracing::warn!(id = open.record.value.hotspot_id, %error, "a hotspot's end is not written down yet");
                self.open.push(open);
            }
        }
        Ok(())
    }
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
    let treated = act(plane, &id, finding, open_plan.as_ref(), &mut refused).await;
    let treated = match treated {
        Ok(treated) => treated,
        Err(error) => {
            // What could not be done now is told, and tried again.
            Treated::left(WhyNot::new(error.to_string()))
        }
    };
    plans.extend(treated.made.clone());
    let own = treated.made.as_ref().map(|plan| plan.value.plan_id.clone());
    let own = own.or_else(|| {
        let open = open_plan.filter(|plan| plan.hotspot_id.as_ref() == Some(&id));
        open.map(|plan| plan.plan_id)
    });
    let then = told(&record.value, finding, treated.why_not, own);
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
    id: &str,
    finding: &Finding,
    plan: Option<&PlanRecord>,
    refused: &mut Option<(WhyNot, Timestamp)>,
) -> Result<Treated> {
    let mode = plane.settings().hotspots.mode;
    let approved = match decide(mode, finding, plan, awaits(plane, &finding.cure)) {
        Decision::Nothing(why_not) => return Ok(Treated::left(why_not)),
        Decision::Propose => false,
        Decision::Do => true,
    };
    let now = plane.now();
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
        hotspot_id: Some(id.to_owned()),
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

/// The record as it should be now.
fn told(
    record: &Hotspot,
    finding: &Finding,
    why_not: Option<WhyNot>,
    plan_id: Option<String>,
) -> Hotspot {
    Hotspot {
        rules: names(finding),
        shards: finding.shards.clone(),
        cause: finding.cause.name().to_owned(),
        cure: finding.cure.name().to_owned(),
        why_not,
        plan_id: plan_id.or_else(|| record.plan_id.clone()),
        letter: letter(finding),
        details: details(finding),
        ..record.clone()
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
