//! Queries about hotspots: which exist, and why nothing is done about a shard.

use ballast_domain::registry::{RecordKind, RecordQuery};
use ballast_domain::{Error, ErrorCode, Result, ShardId, Timestamp};
use ballast_hotspot_detector::detect::HotspotSubject;
use ballast_hotspot_detector::diagnose::report::format_report;
use ballast_hotspot_detector::load::Window;
use serde::Serialize;

use super::decide::describe_plan;
use super::findings::{details, rule_names};
use super::records::{HotspotRecord, HotspotStatus, OPEN};
use super::{HotspotMode, plans};
use crate::load::{LatencyBody, load_monitor};
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::shards;

/// Hotspots, newest first.
pub async fn list(
    plane: &ControlPlane,
    open: Option<bool>,
    shard: Option<&ShardId>,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<Versioned<HotspotRecord>>> {
    let mut terms: Vec<_> = shard
        .map(|shard| format!("shard:{shard}"))
        .into_iter()
        .collect();
    if open == Some(true) {
        terms.push(OPEN.to_owned());
    }
    let mut found = Vec::new();
    let mut after = after;
    loop {
        let query = RecordQuery {
            terms: terms.clone(),
            after: after.take(),
            descending: true,
            ..RecordQuery::all(RecordKind::Hotspot, limit)
        };
        let page = typed::list::<HotspotRecord>(plane.registry(), &query).await?;
        let is_last = page.len() < limit as usize;
        after = page.last().map(|it| it.value.hotspot_id.clone());
        let wanted = |it: &Versioned<HotspotRecord>| match open {
            Some(false) => it.value.status == HotspotStatus::Over,
            _ => true,
        };
        found.extend(
            page.into_iter()
                .filter(wanted)
                .map(|it| refresh_numbers(plane, it)),
        );
        if is_last || found.len() >= limit as usize {
            found.truncate(limit as usize);
            return Ok(found);
        }
    }
}

/// One hotspot.
pub async fn show(plane: &ControlPlane, id: &str) -> Result<Versioned<HotspotRecord>> {
    let found = typed::get::<HotspotRecord>(plane.registry(), id).await?;
    let found = found.ok_or_else(|| {
        let detail = format!("there is no hotspot {id:?}");
        let error = Error::new(ErrorCode::HotspotNotFound, detail);
        error.with_next_step("List hotspots with: hotspot list.")
    })?;
    Ok(refresh_numbers(plane, found))
}

/// Adds the current measurements: the record only has those of its last change.
fn refresh_numbers(
    plane: &ControlPlane,
    mut record: Versioned<HotspotRecord>,
) -> Versioned<HotspotRecord> {
    let value = &mut record.value;
    if value.status == HotspotStatus::Open
        && let Some(state) = plane.hotspot_state()
    {
        let now = state.findings().into_iter();
        let mut same =
            now.filter(|it| rule_names(it).iter().any(|name| value.rules.contains(name)));
        if let Some(finding) = same.next() {
            value.letter = format_report(&finding);
            value.details = details(&finding);
        }
    }
    record
}

/// Why nothing is done about a shard, or what is.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyNotBody {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// A one-sentence answer.
    pub answer: String,
    /// The hotspot mode: off, observe, propose or auto.
    pub mode: HotspotMode,
    /// Its heat: 1 is its whole capacity, and more is overload; absent if it was not
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<f64>,
    /// Its vote latency, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vote_latency: Option<LatencyBody>,
    /// When it was last measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Timestamp>,
    /// The state of every rule for the shard and for what is on it.
    pub rules: Vec<RuleStatus>,
    /// Its open hotspots, with what is done about each, or why nothing is.
    pub hotspots: Vec<Versioned<HotspotRecord>>,
    /// Open plans for it.
    pub plans: Vec<String>,
    /// Tenants on it with a move freeze, each with the poll that causes it.
    pub frozen: Vec<String>,
}

/// The state of one rule.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RuleStanding)]
pub struct RuleStatus {
    /// The rule.
    pub rule: String,
    /// Its state, in a sentence with the numbers.
    pub words: String,
}

/// Explains why nothing is done about a shard, or what is.
pub async fn why_not(plane: &ControlPlane, shard: &ShardId) -> Result<WhyNotBody> {
    shards::get(plane, shard).await?;
    let settings = plane.settings();
    let mode = settings.hotspots.mode;
    let rules = &settings.hotspots.rules;
    let load = load_monitor(plane)?;
    let (view, standings, measured_at) = load.with_book(|book| {
        let known = book.shard(shard).filter(|known| book.is_fresh(known));
        let view = known.and_then(|known| book.view(known, Window::Short));
        let standings = plane
            .hotspot_state()
            .map(|state| state.explain_rules(rules, book, shard));
        (view, standings.unwrap_or_default(), book.newest())
    });
    let hotspots = list(plane, Some(true), Some(shard), None, 100).await?;
    let open = plans::list_open(plane).await?;
    let mine = open.iter().filter(|plan| plan.value.shards.contains(shard));
    let plans: Vec<_> = mine.map(|plan| describe_plan(&plan.value)).collect();
    let answer = summarize(mode, view.is_some(), &hotspots, &plans);
    Ok(WhyNotBody {
        shard_id: shard.clone(),
        answer,
        mode,
        heat: view
            .as_ref()
            .and_then(|view| view.pressure())
            .map(|heat| heat.max(0.0)),
        vote_latency: view
            .as_ref()
            .and_then(|view| LatencyBody::from_sketch(&view.vote_latency)),
        measured_at,
        rules: standings
            .into_iter()
            .map(|(subject, standing)| RuleStatus {
                rule: standing.rule.to_string(),
                words: match subject {
                    HotspotSubject::Shard { .. } => standing.words,
                    other => format!("{other}: {}", standing.words),
                },
            })
            .collect(),
        hotspots,
        plans,
        frozen: frozen_tenants(plane, shard),
    })
}

fn frozen_tenants(plane: &ControlPlane, shard: &ShardId) -> Vec<String> {
    let Some(calendar) = plane.calendar() else {
        return Vec::new();
    };
    let frozen = calendar.frozen_tenants(shard, plane.now()).into_iter();
    frozen
        .map(|(tenant, frozen)| format!("{tenant}: {frozen}"))
        .collect()
}

fn summarize(
    mode: HotspotMode,
    is_measured: bool,
    hotspots: &[Versioned<HotspotRecord>],
    plans: &[String],
) -> String {
    if mode == HotspotMode::Off {
        return "Hotspot detection is off (hotspots.mode).".to_owned();
    }
    if !is_measured {
        return "Not a hotspot: it has not been measured for long enough.".to_owned();
    }
    if let Some(plan) = plans.first() {
        return format!("There is a plan: {plan}.");
    }
    let Some(hotspot) = hotspots.first().map(|it| &it.value) else {
        return "Not a hotspot: no rule has held for long enough.".to_owned();
    };
    match &hotspot.why_not {
        Some(why) => format!(
            "It is hot ({}), but nothing is done: {}.",
            hotspot.cause, why.because
        ),
        None => format!("It is hot ({}). Cure: {}.", hotspot.cause, hotspot.cure),
    }
}
