//! The record of a migration: what was requested, what operators have requested since,
//! its progress and its result. Operators see this record, and it is kept permanently.
//!
//! ```text
//!   Asked ──► Admitted ──► CutOver ──► Cleaning ──► Ended(completed)
//!     │           │           └──────────────────► Ended(reversed)
//!     └───────────┴──────────────────────────────► Ended(rolledBack | cancelled)
//! ```
//! It does not decide who owns the slice; the slice's route does ([`crate::moving`]).
//! Operators' requests are written here, and the migration engine reads them here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::certificate::{AcceptedLoss, SignedCertificate, VoteProof};
use crate::clock::Timestamp;
use crate::id::{RegionId, ShardId, TenantId};
use crate::moving::MigrationId;
use crate::registry::{Entity, RecordKind};
use crate::tenant::{Epoch, SliceId};

/// A migration of one slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// Its id.
    #[serde(rename = "migrationID")]
    pub migration_id: MigrationId,
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The tenant's slice.
    pub slice: u32,
    /// The source: the shard that it leaves.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The target: the shard that it moves to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// The regions of both shards, without duplicates.
    pub regions: Vec<RegionId>,
    /// Who requested it.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was requested.
    pub requested_at: Timestamp,
    /// Its terms.
    pub terms: MigrationTerms,
    /// Its stage.
    pub stage: MigrationStage,
    /// What operators have requested since.
    #[serde(default, skip_serializing_if = "MigrationRequests::is_empty")]
    pub asked: MigrationRequests,
    /// What it is waiting for, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// The number of its current execution: a later execution continues what an earlier
    /// one left unfinished.
    #[serde(default)]
    pub run: u32,
    /// The estimate when it was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<MigrationEstimate>,
    /// The measured figures.
    #[serde(default)]
    pub figures: MigrationFigures,
    /// The newest findings, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<MigrationFinding>,
    /// The comparison of both sides at the cutover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proved: Option<VoteProof>,
    /// The comparison of both sides when the slice was brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proved_back: Option<VoteProof>,
    /// The accepted loss, if the slice was brought back without its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<AcceptedLoss>,
    /// The copy that remains to be removed, because its shard was unavailable when the
    /// migration ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<LeftoverCopy>,
    /// The state of the leftover copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_behind: Option<LeftoverState>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<MigrationEnding>,
    /// The signed certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SignedCertificate>,
}

/// The terms of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Terms)]
pub struct MigrationTerms {
    /// How long both copies are kept after the cutover, in milliseconds.
    pub window_ms: u64,
    /// Whether, within the window, a write is acknowledged only when both sides
    /// have it.
    #[serde(default, skip_serializing_if = "is_not")]
    pub sync: bool,
    /// The longest allowed write pause at the cutover, in milliseconds. The cutover waits
    /// until its estimate is within this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pause_ms: Option<u64>,
    /// Whether an operator must approve it first.
    #[serde(default)]
    pub needs_approval: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_not(flag: &bool) -> bool {
    !flag
}

/// The stage of a migration, as the limits on concurrent migrations count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Stage)]
pub enum MigrationStage {
    /// It was requested and waits for admission.
    Asked,
    /// It is copying: the limits on migrations count it.
    Admitted,
    /// The target owns the slice; both copies are kept.
    CutOver,
    /// The source's copy is being removed: there is no way back.
    Cleaning,
    /// It is over.
    Ended,
}

/// The requests of operators for a running migration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Asked)]
pub struct MigrationRequests {
    /// Pause it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<OperatorRequest>,
    /// Let it begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<OperatorRequest>,
    /// Let it begin outside of the maintenance windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_now: Option<OperatorRequest>,
    /// Cancel or reverse it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<ReturnRequest>,
    /// End the window now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<OperatorRequest>,
    /// Abandon the target, with what only it has, if it is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_loss: Option<OperatorRequest>,
    /// Remove the copy of the abandoned shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<OperatorRequest>,
    /// Cancel a way back that is waiting: the slice stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stay: Option<OperatorRequest>,
    /// End the window although the source is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_source: Option<OperatorRequest>,
}

impl MigrationRequests {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A copy that is not needed, because the owner has all data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Left)]
pub struct LeftoverCopy {
    /// The shard with the copy.
    #[serde(rename = "shardID")]
    pub shard: ShardId,
    /// The copy was written at this epoch or a lower one.
    pub epoch: Epoch,
}

/// The state of a leftover copy: of an abandoned shard, or of one that was unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LeftBehind)]
pub enum LeftoverState {
    /// Its shard has not answered since, and does not know yet.
    Away,
    /// Its shard has answered and takes no votes of the slice. It still has the copy.
    Kept,
    /// The copy was removed.
    Gone,
}

/// A request of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Word)]
pub struct OperatorRequest {
    /// Who.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A request to keep the slice at its source, or to bring it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Back)]
pub struct ReturnRequest {
    /// Cancel or reverse.
    pub how: ReturnKind,
    /// Who requested it, when and why.
    #[serde(flatten)]
    pub word: OperatorRequest,
}

/// How a slice stays at, or returns to, its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BackHow)]
pub enum ReturnKind {
    /// Before the cutover: the slice never leaves.
    Cancel,
    /// In the window: the slice is brought back.
    Reverse,
}

/// The estimated cost of a migration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Price)]
pub struct MigrationEstimate {
    /// Polls to copy.
    pub polls: u64,
    /// Voters' rows to copy.
    pub rows: u64,
    /// Approximate bytes to copy.
    pub bytes: u64,
    /// Approximate time until the cutover, in milliseconds.
    pub duration_ms: u64,
    /// Approximate write pause, in milliseconds.
    pub pause_ms: u64,
    /// How many ended migrations the estimate is based on; with 0 it uses defaults.
    pub from_moves: u64,
    /// Other slices on the source or the target.
    pub neighbours: u64,
}

/// The measured figures of a migration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Figures)]
pub struct MigrationFigures {
    /// Rows copied; a row may be copied more than once.
    pub rows: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// When copying began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copying_since: Option<Timestamp>,
    /// When the target became the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_over_at: Option<Timestamp>,
    /// The write pause, in milliseconds; an upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// How often the cutover was postponed because its estimate exceeded the allowed
    /// pause.
    #[serde(default)]
    pub put_off: u32,
    /// Rows that differed and were repaired.
    #[serde(default)]
    pub repaired: u64,
    /// How often both sides were compared during the window.
    #[serde(default)]
    pub compared: u64,
    /// How often they differed.
    #[serde(default)]
    pub differences: u64,
    /// How far the target's changes have been streamed back to the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed_back: Option<StreamedBack>,
    /// Since when the target alone acknowledges writes, in a window with synchronous
    /// replication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_since: Option<Timestamp>,
    /// How often a reader found a vote on the source that the target lacks. There should
    /// be none; if there is one, the source's copy is kept.
    #[serde(default)]
    pub stragglers: u64,
}

/// How far the changes of the target since the cutover are also on the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamedBack {
    /// The position in the target's change stream.
    pub position: u64,
    /// Everything acknowledged before this moment is on the source.
    pub before: Timestamp,
}

/// A problem that was found during a migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Finding)]
pub struct MigrationFinding {
    /// When it was found.
    pub at: Timestamp,
    /// The workflow state in which it was found.
    pub phase: String,
    /// The shard whose copy is wrong.
    #[serde(rename = "shardID")]
    pub shard: ShardId,
    /// What is wrong: polls with the voters of the rows, or files.
    pub what: String,
    /// What was done about it.
    pub then: String,
}

/// The most findings that are kept of a migration.
pub const FINDINGS_MAX: usize = 20;

/// How a migration ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Ending)]
pub struct MigrationEnding {
    /// Its final status.
    pub status: MigrationStatus,
    /// The workflow state in which it ended.
    pub phase: String,
    /// When.
    pub at: Timestamp,
    /// Why, if it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The status of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Status)]
pub enum MigrationStatus {
    /// It is running.
    Running,
    /// It waits for an approval, admission, a maintenance window or a quiet moment, or it
    /// is paused.
    Waiting,
    /// The slice is at its target.
    Completed,
    /// It failed before the cutover, and the source is unchanged.
    RolledBack,
    /// The slice was brought back from its target.
    Reversed,
    /// It was cancelled, and the source is unchanged.
    Cancelled,
    /// It is stuck and is being retried.
    Failed,
}

impl MigrationStatus {
    /// Whether the migration is over.
    #[must_use]
    pub fn is_end(self) -> bool {
        match self {
            Self::Running | Self::Waiting | Self::Failed => false,
            Self::Completed | Self::RolledBack | Self::Reversed | Self::Cancelled => true,
        }
    }

    /// The status's name, as in its JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::RolledBack => "rolledBack",
            Self::Reversed => "reversed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for MigrationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Migration {
    /// The slice that is moved.
    #[must_use]
    pub fn slice_id(&self) -> SliceId {
        SliceId {
            tenant_id: self.tenant_id.clone(),
            slice: self.slice,
        }
    }

    /// The name of its current execution of the workflow `move-tenant`.
    #[must_use]
    pub fn execution(&self) -> String {
        match self.run {
            0 => self.migration_id.0.clone(),
            later => format!("{}.{later}", self.migration_id),
        }
    }

    /// Records a finding, and drops the oldest beyond [`FINDINGS_MAX`].
    pub fn record_finding(&mut self, finding: MigrationFinding) {
        let spare = (self.findings.len() + 1).saturating_sub(FINDINGS_MAX);
        self.findings.drain(..spare);
        self.findings.push(finding);
    }

    /// The leftover copy: its shard and its epoch.
    #[must_use]
    pub fn copy_left(&self) -> Option<(&ShardId, Epoch)> {
        let abandoned = self.given_up.as_ref().map(|lost| (&lost.shard, lost.epoch));
        abandoned.or_else(|| self.left.as_ref().map(|left| (&left.shard, left.epoch)))
    }

    /// Whether that copy may be removed when its shard answers: it is not needed, or an
    /// operator has requested it.
    #[must_use]
    pub fn may_remove_copy(&self) -> bool {
        self.asked.discard.is_some() || (self.given_up.is_none() && self.left.is_some())
    }

    /// When its window ends, if it is in its window and no operator has ended or reversed it.
    #[must_use]
    pub fn window_ends_at(&self) -> Option<Timestamp> {
        let goes_on = self.stage == MigrationStage::CutOver
            && self.asked.back.is_none()
            && self.asked.complete.is_none();
        let since = self.figures.cut_over_at.filter(|_| goes_on)?;
        let ends = since
            .unix_ms()
            .saturating_add_unsigned(self.terms.window_ms);
        Some(Timestamp::from_unix_ms(ends))
    }

    /// Whether the migration is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == MigrationStage::Ended
    }
}

/// The term of migrations that are not over.
pub const OPEN: &str = "open";
/// The term of migrations that are over.
pub const OVER: &str = "over";

/// The term of migrations that ended with this status.
#[must_use]
pub fn status_term(status: MigrationStatus) -> String {
    format!("status:{status}")
}

/// The tally of the migrations that copy from or to a shard.
#[must_use]
pub fn shard_migrations_tally(shard: &ShardId) -> String {
    format!("shard:{shard}")
}

/// The tally of the migrations that copy from or to a region.
#[must_use]
pub fn region_migrations_tally(region: &RegionId) -> String {
    format!("region:{region}")
}

/// The tally of the migrations in the whole fleet that copy or keep both copies, from
/// their admission to the end of their window.
pub const UNDERWAY: &str = "underway";

/// The tally of the migrations from or to a shard that are not over. The shard cannot be
/// removed while there are any.
#[must_use]
pub fn open_migrations_tally(shard: &ShardId) -> String {
    format!("open:{shard}")
}

/// The term of migrations with a leftover copy whose shard must still learn that it
/// was abandoned, or must still remove the copy.
pub const LEFT_OPEN: &str = "left:open";

/// The term of a tenant's migrations that left a copy on this shard which has not been
/// removed.
#[must_use]
pub fn leftover_copies_term(tenant: &TenantId, shard: &ShardId) -> String {
    format!("left:{tenant}:{shard}")
}

/// The term of a tenant's migrations.
#[must_use]
pub fn tenant_migrations_term(tenant: &TenantId) -> String {
    format!("tenant:{tenant}")
}

impl Entity for Migration {
    const KIND: RecordKind = RecordKind::Migration;
    fn record_id(&self) -> &str {
        &self.migration_id.0
    }
    fn terms(&self) -> Vec<String> {
        let mut terms = vec![
            tenant_migrations_term(&self.tenant_id),
            format!("from:{}", self.from),
            format!("to:{}", self.to),
        ];
        match &self.ended {
            None => terms.push(OPEN.to_owned()),
            Some(ended) => terms.extend([OVER.to_owned(), status_term(ended.status)]),
        }
        let left = self.left_behind.filter(|left| *left != LeftoverState::Gone);
        let shard = self.copy_left().map_or(&self.to, |(shard, _)| shard);
        terms.extend(left.map(|_| leftover_copies_term(&self.tenant_id, shard)));
        let removes = self.may_remove_copy();
        let open = left.filter(|left| *left == LeftoverState::Away || removes);
        terms.extend(open.map(|_| LEFT_OPEN.to_owned()));
        terms
    }
    fn tallies(&self) -> Vec<String> {
        let shards = [&self.from, &self.to];
        let mut tallies = Vec::new();
        if !self.is_over() {
            tallies.extend(shards.map(open_migrations_tally));
        }
        match self.stage {
            MigrationStage::Admitted | MigrationStage::CutOver | MigrationStage::Cleaning => {
                tallies.push(UNDERWAY.to_owned());
            }
            MigrationStage::Asked | MigrationStage::Ended => {}
        }
        if self.stage == MigrationStage::Admitted {
            tallies.extend(shards.map(shard_migrations_tally));
            tallies.extend(self.regions.iter().map(region_migrations_tally));
        }
        tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leftover_copy_is_listed_until_it_is_removed() {
        let body = serde_json::json!({
            "migrationID": "mv-1", "tenantID": "acme", "slice": 0, "fromShardID": "shard-1",
            "toShardID": "shard-2", "regions": [], "actor": {"type": "ballast", "name": "move"},
            "requestedAt": "2026-11-16T09:00:00Z", "terms": {"windowMs": 0}, "stage": "ended",
        });
        let mut migration: Migration = serde_json::from_value(body).unwrap();
        let word = OperatorRequest {
            actor: migration.actor.clone(),
            reason: None,
            at: migration.requested_at,
        };
        let mut left = |behind, discard: bool| {
            migration.left_behind = behind;
            migration.asked.discard = discard.then(|| word.clone());
            let terms = migration.terms();
            let has = |term: &str| terms.iter().any(|known| known == term);
            (has("left:acme:shard-2"), has(LEFT_OPEN))
        };
        assert_eq!(left(None, false), (false, false));
        assert_eq!(left(Some(LeftoverState::Away), false), (true, true));
        assert_eq!(left(Some(LeftoverState::Away), true), (true, true));
        assert_eq!(left(Some(LeftoverState::Kept), false), (true, false));
        assert_eq!(left(Some(LeftoverState::Kept), true), (true, true));
        assert_eq!(left(Some(LeftoverState::Gone), true), (false, false));
        // A copy that is not needed is removed without a request.
        migration.left = Some(LeftoverCopy {
            shard: "shard-1".parse().unwrap(),
            epoch: Epoch(3),
        });
        migration.left_behind = Some(LeftoverState::Kept);
        migration.asked.discard = None;
        let terms = migration.terms();
        assert!(terms.contains(&"left:acme:shard-1".to_owned()), "{terms:?}");
        assert!(terms.contains(&LEFT_OPEN.to_owned()), "{terms:?}");
    }
}
