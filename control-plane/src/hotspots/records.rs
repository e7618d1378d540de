//! Records of hotspots and plans in the registry, for operators and for the
//! history.
//!
//! ```text
//!   hotspot   open ──► over
//!   plan      proposed ──► approved ──► running ──► judging ──► done
//!                 └──► rejected, expired                └─────► failed
//! ```

use ballast_domain::registry::{Entity, RecordKind};
use ballast_domain::{Actor, RegionId, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::{Cure, CureRecord, ExpectedEffect};
use ballast_hotspot_detector::plan::Plan;
use ballast_hotspot_detector::whatif::PlanOutcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::drains::MigrationOptions;

/// The index term of open records.
pub const OPEN: &str = "open";

/// A hotspot: what is hot, why, and what helps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Hotspot)]
pub struct HotspotRecord {
    /// Its ID.
    #[serde(rename = "hotspotID")]
    pub hotspot_id: String,
    /// Whether it is over.
    pub status: HotspotStatus,
    /// When its condition began to hold.
    pub since: Timestamp,
    /// When it was detected.
    pub found_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_at: Option<Timestamp>,
    /// Its severity: info, warning or critical.
    pub severity: String,
    /// The rules that hold, each with its subject: `overload on shard-2`.
    pub rules: Vec<String>,
    /// The hot shards.
    #[serde(rename = "shardIDs")]
    pub shards: Vec<ShardId>,
    /// The cause, in a word: hot tenant, abusive key, hot counter, …
    pub cause: String,
    /// The cure, in a word: move, throttle, more lanes, fewer lanes, split, add shards,
    /// wait or nothing.
    pub cure: String,
    /// Why nothing is done about it now, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<NoActionReason>,
    /// The plan that is to cure it.
    #[serde(rename = "planID", default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// The full report as text: finding, evidence, cause, cure, expected effect, and
    /// what to do if it does not help.
    pub letter: String,
    /// The full finding, for programs.
    #[schema(value_type = Object)]
    pub details: Value,
}

/// Whether a hotspot is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum HotspotStatus {
    /// It is open.
    Open,
    /// It is over.
    Over,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WhyNot)]
pub struct NoActionReason {
    /// The reason, as text.
    pub because: String,
    /// When it is reconsidered, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl NoActionReason {
    pub(crate) fn new(because: impl Into<String>) -> Self {
        Self {
            because: because.into(),
            until: None,
        }
    }
}

impl Entity for HotspotRecord {
    const KIND: RecordKind = RecordKind::Hotspot;
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

/// A plan: what is to be done, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRecord {
    /// Its ID.
    #[serde(rename = "planID")]
    pub plan_id: String,
    /// Its status.
    pub status: PlanStatus,
    /// When it was created.
    pub made_at: Timestamp,
    /// Who requested it.
    pub actor: Actor,
    /// Why, if a reason was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The hotspot that it is to cure.
    #[serde(rename = "hotspotID", default, skip_serializing_if = "Option::is_none")]
    pub hotspot_id: Option<String>,
    /// The shards that it is to relieve.
    #[serde(rename = "shardIDs")]
    pub shards: Vec<ShardId>,
    /// Its kind of cure: move, throttle, more lanes, fewer lanes, split or add shards.
    pub does: String,
    /// The cure, unless it is to move slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub cure: Option<Cure>,
    /// The moves, with price, schedule and predicted effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub plan: Option<Plan>,
    /// The expected effect of a cure that moves no slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub expected: Vec<ExpectedEffect>,
    /// The final number of slices or active shards, for a cure that adds some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<u64>,
    /// Shards that an operator has to add before it can continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards_needed: Option<ShardRequest>,
    /// The full plan as text.
    pub letter: String,
    /// Maximum number of concurrent moves; the limit per shard when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// How long both copies are kept after each cutover, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Whether, within these windows, writes are acknowledged only when both copies
    /// have them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
    /// Whether they begin outside of the maintenance windows, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
    /// The operator's decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<PlanDecision>,
    /// The execution that carries it out.
    #[serde(
        rename = "executionID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub execution_id: Option<String>,
    /// The migrations that it began.
    #[serde(
        rename = "migrationIDs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub migrations: Vec<String>,
    /// When all migrations were cut over, or the cure was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_at: Option<Timestamp>,
    /// Predicted and measured effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub outcome: Option<PlanOutcome>,
    /// The cure as remembered, and whether it helped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub past: Option<CureRecord>,
    /// Further notes on its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Shards that an operator has to add, where Ballast cannot create them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ShardsNeeded)]
pub struct ShardRequest {
    /// The region.
    pub region: RegionId,
    /// How many more.
    pub count: u32,
    /// The total number of active shards needed.
    pub until_active: u64,
}

impl std::fmt::Display for ShardRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { region, count, .. } = self;
        let shards = if *count == 1 { "shard" } else { "shards" };
        write!(
            f,
            "{count} more {shards} in {region}: create and add them (ballast shard add)"
        )
    }
}

/// The status of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlanStatus {
    /// It waits for approval.
    Proposed,
    /// It may be carried out.
    Approved,
    /// It is being carried out.
    Running,
    /// It was carried out; its effect is being measured.
    Judging,
    /// It is over.
    Done,
    /// An operator rejected it.
    Rejected,
    /// It was not approved in time, or is no longer needed.
    Expired,
    /// It could not be carried out.
    Failed,
}

impl PlanStatus {
    /// Whether the plan is not over yet.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::Proposed | Self::Approved | Self::Running | Self::Judging
        )
    }

    /// Its name, as in JSON.
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

/// An operator's decision on a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Decided)]
pub struct PlanDecision {
    /// Who decided.
    pub actor: Actor,
    /// When.
    pub at: Timestamp,
    /// Why, if a reason was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl PlanRecord {
    /// The terms of its migrations.
    pub(crate) fn options(&self) -> MigrationOptions {
        MigrationOptions {
            concurrency: self.concurrency,
            window_ms: self.window_ms,
            sync: self.sync,
            now: self.now,
        }
    }
}

impl Entity for PlanRecord {
    const KIND: RecordKind = RecordKind::Plan;
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
