//! What is kept of hotspots and plans, in the registry: so that what was found
//! and done last Tuesday is still known.
//!
//! ```text
//!   hotspot   open ──► over
//!   plan      proposed ──► approved ──► running ──► judging ──► done
//!                 └──► rejected, expired                └─────► failed
//! ```

use ballast_domain::registry::{Entity, Kind};
use ballast_domain::{Actor, RegionId, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::{Cure, Effect, PastCure};
use ballast_hotspot_detector::plan::Plan;
use ballast_hotspot_detector::whatif::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The term of what is not over.
pub const OPEN: &str = "open";

/// A hotspot: what is hot, why, and what helps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hotspot {
    /// Its name.
    #[serde(rename = "hotspotID")]
    pub hotspot_id: String,
    /// Whether it is over.
    pub status: HotspotStatus,
    /// Since when its condition has held.
    pub since: Timestamp,
    /// When it was found.
    pub found_at: Timestamp,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_at: Option<Timestamp>,
    /// How bad it is: info, warning or critical.
    pub severity: String,
    /// The rules that hold, each with what it holds for: `overload on shard-2`.
    pub rules: Vec<String>,
    /// The shards that are hot.
    #[serde(rename = "shardIDs")]
    pub shards: Vec<ShardId>,
    /// What is really hot, in a word: hot tenant, abusive key, hot counter, …
    pub cause: String,
    /// What helps, in a word: move, throttle, more lanes, fewer lanes, split, add shards,
    /// wait or nothing.
    pub cure: String,
    /// Why nothing is done about it now, if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<WhyNot>,
    /// The plan that is to cure it.
    #[serde(rename = "planID", default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// All of it as a letter: finding, evidence, cause, cure, what to expect,
    /// and what to do if it does not help.
    pub letter: String,
    /// All of it for programs.
    #[schema(value_type = Object)]
    pub details: Value,
}

/// Whether a hotspot is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum HotspotStatus {
    /// It is there.
    Open,
    /// It was.
    Over,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyNot {
    /// In words.
    pub because: String,
    /// When it is looked at again, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl WhyNot {
    pub(crate) fn new(because: impl Into<String>) -> Self {
        Self {
            because: because.into(),
            until: None,
        }
    }
}

impl Entity for Hotspot {
    const KIND: Kind = Kind::Hotspot;
    fn record_id(&self) -> &str {
        &self.hotspot_id
    }
    fn terms(&self) -> Vec<String> {
        let shards = self.shards.iter().map(|shard| format!("shard:{shard}"));
        let mut terms: Vec<_> = shards.collect();
        if self.status == HotspotStatus::Open {
            terms.push(OPEN.to_owned());
        }
        terms
    }
}

/// What is to be done, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRecord {
    /// Its name.
    #[serde(rename = "planID")]
    pub plan_id: String,
    /// How it stands.
    pub status: PlanStatus,
    /// When it was made.
    pub made_at: Timestamp,
    /// Who had it made.
    pub actor: Actor,
    /// Why, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The hotspot that it is to cure.
    #[serde(rename = "hotspotID", default, skip_serializing_if = "Option::is_none")]
    pub hotspot_id: Option<String>,
    /// The shards that it is to relieve.
    #[serde(rename = "shardIDs")]
    pub shards: Vec<ShardId>,
    /// What is done, in a word: move, throttle, more lanes, fewer lanes, split or
    /// add shards.
    pub does: String,
    /// What is to be done, when that is no move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub cure: Option<Cure>,
    /// The moves, with price, schedule and predicted effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub plan: Option<Plan>,
    /// What a cure that is no move should change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub expected: Vec<Effect>,
    /// How many slices or active shards there are to be in the end, for a cure
    /// that makes more of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<u64>,
    /// The shards that somebody has to make before it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards_needed: Option<ShardsNeeded>,
    /// All of it as a letter.
    pub letter: String,
    /// How many moves at the same time; as many as a shard may have when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// How long both sides are kept after each cutover, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Whether, within these windows, a write is acknowledged only when both sides
    /// have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
    /// What somebody said to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
    /// The execution that carries it out.
    #[serde(
        rename = "executionID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub execution_id: Option<String>,
    /// The moves that were begun for it.
    #[serde(
        rename = "migrationIDs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub migrations: Vec<String>,
    /// When all of them had been cut over, or the cure was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_at: Option<Timestamp>,
    /// What was predicted beside what was measured afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub outcome: Option<Outcome>,
    /// The cure as it is remembered, and whether it helped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub past: Option<PastCure>,
    /// What else is to be said of how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Shards that are asked for, where Ballast can make none itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardsNeeded {
    /// Where.
    pub region: RegionId,
    /// How many more.
    pub count: u32,
    /// How many active ones there are to be in all.
    pub until_active: u64,
}

impl std::fmt::Display for ShardsNeeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { region, count, .. } = self;
        let shards = if *count == 1 { "shard" } else { "shards" };
        write!(
            f,
            "{count} {shards} more in {region}: make them, and add them (ballast shard add)"
        )
    }
}

/// How a plan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlanStatus {
    /// It waits for somebody's word.
    Proposed,
    /// It may be carried out.
    Approved,
    /// It is being carried out.
    Running,
    /// It was carried out, and is watched.
    Judging,
    /// It is over.
    Done,
    /// Somebody said no.
    Rejected,
    /// Nobody said anything in time, or there is no reason for it any more.
    Expired,
    /// It could not be carried out.
    Failed,
}

impl PlanStatus {
    /// Whether anything may still happen.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::Proposed | Self::Approved | Self::Running | Self::Judging
        )
    }

    /// Its name, as in its JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Approved => "approved",
            Self::Running => "running",
            Self::Judging => "judging",
            Self::Done => "done",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Failed => "failed",
        }
    }
}

/// What somebody said to a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// Who.
    pub actor: Actor,
    /// When.
    pub at: Timestamp,
    /// Why, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Entity for PlanRecord {
    const KIND: Kind = Kind::Plan;
    fn record_id(&self) -> &str {
        &self.plan_id
    }
    fn terms(&self) -> Vec<String> {
        let mut terms = vec![format!("status:{}", self.status.name())];
        if self.status.is_open() {
            terms.push(OPEN.to_owned());
        }
        terms
    }
}
