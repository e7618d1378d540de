//! What operators ask about hotspots: which there are, and why nothing is done.

use ballast_domain::registry::{Kind, RecordQuery};
use ballast_domain::{Error, ErrorCode, Result, ShardId, Timestamp};
use ballast_hotspot_detector::detect::Subject;
use ballast_hotspot_detector::diagnose::letter::letter;
use ballast_hotspot_detector::load::Window;
use serde::Serialize;

use super::decide::stands;
use super::findings::{details, names};
use super::records::{Hotspot, HotspotStatus, OPEN};
use super::{Mode, plans};
use crate::load::{LatencyBody, load};
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::shards;

/// Hotspots, the newest first.
pub async fn list(
    plane: &ControlPlane,
    open: Option<bool>,
    shard: Option<&ShardId>,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<Versioned<Hotspot>>> {
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
            ..RecordQuery::all(Kind::Hotspot, limit)
        };
        let page = typed::list::<Hotspot>(plane.registry(), &query).await?;
        let is_last = page.len() < limit as usize;
        after = page.last().map(|it| it.value.hotspot_id.clone());
        let wanted = |it: &Versioned<Hotspot>| match open {
            Some(false) => it.value.status == HotspotStatus::Over,
            _ => true,
        };
        found.extend(page.into_iter().filter(wanted).map(|it| fresh(plane, it)));
        if is_last || found.len() >= limit as usize {
            found.truncate(limit as usize);
            return Ok(found);
        }
    }
}

/// One hotspot.
pub async fn show(plane: &ControlPlane, id: &str) -> Result<Versioned<Hotspot>> {
    let found = typed::get::<Hotspot>(plane.registry(), id).await?;
    let found = found.ok_or_else(|| {
        let detail = format!("there is no hotspot {id:?}");
        let error = Error::new(ErrorCode::HotspotNotFound, detail);
        error.next("See which there are (hotspot list).")
    })?;
    Ok(fresh(plane, found))
}

/// With the numbers of this moment: the record has those of when it last said
/// something new.
fn fresh(plane: &ControlPlane, mut record: Versioned<Hotspot>) -> Versioned<Hotspot> {
    let value = &mut record.value;
    if value.status == HotspotStatus::Open
        && let Some(mind) = plane.mind()
    {
        let now = mind.findings().into_iter();
        let mut same = now.filter(|it| names(it).iter().any(|name| value.rules.contains(name)));
        if let Some(finding) = same.next() {
            value.letter = letter(&finding);
            value.details = details(&finding);
        }
    }
    record
}

/// Why nothing is done about a shard, or what is.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyNotBody {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The answer in a sentence.
    pub answer: String,
    /// What is done about hotspots: off, observe, propose or auto.
    pub mode: Mode,
    /// How hot it is, from 0 to 1; absent where it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<f64>,
    /// How long its votes take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vote_latency: Option<LatencyBody>,
    /// When it was measured last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Timestamp>,
    /// Where every rule stands on it, and on what is on it.
    pub rules: Vec<RuleStanding>,
    /// Its hotspots that are open, with what is done about each, or why not.
    pub hotspots: Vec<Versioned<Hotspot>>,
    /// Plans for it that are not over.
    pub plans: Vec<String>,
    /// Tenants on it that are left alone now, each with the poll for which.
    pub frozen: Vec<String>,
}

/// Where a rule stands.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleStanding {
    /// Which rule.
    pub rule: String,
    /// Where it stands, in a sentence with the numbers.
    pub words: String,
}

/// Why nothing is done about a shard, or what is.
pub async fn why_not(plane: &ControlPlane, shard: &ShardId) -> Result<WhyNotBody> {
    shards::get(plane, shard).await?;
    let settings = plane.settings();
    let mode = settings.hotspots.mode;
    let rules = &settings.hotspots.rules;
    let load = load(plane)?;
    let (view, standings, measured_at) = load.with_book(|book| {
        let known = book.shard(shard).filter(|known| book.is_fresh(known));
        let view = known.and_then(|known| book.view(known, Window::Short));
        let standings = plane.mind().map(|mind| mind.standings(rules, book, shard));
        (view, standings.unwrap_or_default(), book.newest())
    });
    let hotspots = list(plane, Some(true), Some(shard), None, 100).await?;
    let open = plans::open(plane).await?;
    let mine = open.iter().filter(|plan| plan.value.shards.contains(shard));
    let plans: Vec<_> = mine.map(|plan| stands(&plan.value)).collect();
    let answer = answer(mode, view.is_some(), &hotspots, &plans);
    Ok(WhyNotBody {
        shard_id: shard.clone(),
        answer,
        mode,
        heat: view
            .as_ref()
            .and_then(|view| view.pressure())
            .map(|heat| heat.clamp(0.0, 1.0)),
        vote_latency: view
            .as_ref()
            .and_then(|view| LatencyBody::of(&view.vote_latency)),
        measured_at,
        rules: standings
            .into_iter()
            .map(|(subject, standing)| RuleStanding {
                rule: standing.rule.to_string(),
                words: match subject {
                    Subject::Shard { .. } => standing.words,
                    other => format!("{other}: {}", standing.words),
                },
            })
            .collect(),
        hotspots,
        plans,
        frozen: frozen(plane, shard),
    })
}

fn frozen(plane: &ControlPlane, shard: &ShardId) -> Vec<String> {
    let Some(calendar) = plane.calendar() else {
        return Vec::new();
    };
    let frozen = calendar.frozen_on(shard, plane.now()).into_iter();
    frozen
        .map(|(tenant, frozen)| format!("{tenant}: {frozen}"))
        .collect()
}

fn answer(
    mode: Mode,
    is_measured: bool,
    hotspots: &[Versioned<Hotspot>],
    plans: &[String],
) -> String {
    if mode == Mode::Off {
        return "Nobody looks for hotspots: hotspots.mode is off.".to_owned();
    }
    if !is_measured {
        return "It was not measured for long enough: what is not known is no hotspot.".to_owned();
    }
    if let Some(plan) = plans.first() {
        return format!("There is a plan: {plan}.");
    }
    let Some(hotspot) = hotspots.first().map(|it| &it.value) else {
        return "It is no hotspot: no rule holds for long enough.".to_owned();
    };
    match &hotspot.why_not {
        Some(why) => format!(
            "It is hot ({}), and nothing is done: {}.",
            hotspot.cause, why.because
        ),
        None => format!(
            "It is hot ({}), and what helps is: {}.",
            hotspot.cause, hotspot.cure
        ),
    }
}
