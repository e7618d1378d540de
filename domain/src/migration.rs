//! A move as it was asked for, what was asked of it since, and what has become
//! of it: what operators see, and what is kept of it for good.
//!
//! ```text
//!   Asked ──► Admitted ──► CutOver ──► Cleaning ──► Ended(completed)
//!     │           │           └──────────────────► Ended(reversed)
//!     └───────────┴──────────────────────────────► Ended(rolledBack | cancelled)
//! ```
//! It decides nothing about who owns the slice: that is the slice's own record
//! ([`crate::moving`]). What operators want of a move is written here, and
//! whoever works on it finds it here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::certificate::{GivenUp, Signed, VotesProved};
use crate::clock::Timestamp;
use crate::id::{RegionId, ShardId, TenantId};
use crate::moving::MoveId;
use crate::registry::{Entity, Kind};
use crate::tenant::{Epoch, SliceId};

/// A move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// Its name.
    #[serde(rename = "migrationID")]
    pub migration_id: MoveId,
    /// Whose slice is moved.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Which slice of the tenant.
    pub slice: u32,
    /// The shard that it leaves.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The shard that it comes to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// The regions of both, without repetition.
    pub regions: Vec<RegionId>,
    /// Who wants it.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// How it is to be done.
    pub terms: Terms,
    /// How far it is.
    pub stage: Stage,
    /// What was asked of it since.
    #[serde(default, skip_serializing_if = "Asked::is_nothing")]
    pub asked: Asked,
    /// What it waits for, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Which of its executions is the present one: a later one takes over what
    /// an earlier one left unfinished.
    #[serde(default)]
    pub run: u32,
    /// What it was expected to cost when it was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// What was measured.
    #[serde(default)]
    pub figures: Figures,
    /// What was not as it should be, the newest last; of many the newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What was found on both sides at the cutover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proved: Option<VotesProved>,
    /// What was found on both sides when it was brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proved_back: Option<VotesProved>,
    /// What was given up, if it was brought back without its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUp>,
    /// The copy that was left to be removed later, because its shard was away when
    /// the move ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
    /// What has become of the copy that was given up, or left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_behind: Option<LeftBehind>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ending>,
    /// What it proves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Signed>,
}

/// How a move is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Terms {
    /// How long both sides are kept after the cutover, in milliseconds.
    pub window_ms: u64,
    /// Whether, within the window, a write is acknowledged only when both sides
    /// have it.
    #[serde(default, skip_serializing_if = "is_not")]
    pub sync: bool,
    /// How long nobody may be able to vote at the cutover, in milliseconds: it
    /// waits for a moment that promises so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pause_ms: Option<u64>,
    /// Whether somebody has to approve it first.
    #[serde(default)]
    pub needs_approval: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_not(flag: &bool) -> bool {
    !flag
}

/// How far a move is, as limits count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// It was asked for, and waits for its turn.
    Asked,
    /// It copies: limits on moves count it.
    Admitted,
    /// The target owns the slice; both copies are kept.
    CutOver,
    /// The source's copy is being removed: there is no way back.
    Cleaning,
    /// It is over.
    Ended,
}

/// What was asked of a move since it began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// It is not to go on for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Word>,
    /// It may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Word>,
    /// It is to be called off, or to go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Back>,
    /// The window may end now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<Word>,
    /// What only the target has may be given up, if it cannot be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_loss: Option<Word>,
    /// The copy that was given up may be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<Word>,
    /// A way back that waits is to be called off: the slice stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stay: Option<Word>,
    /// The window may end although the source is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_source: Option<Word>,
}

impl Asked {
    /// Nothing was.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// A copy that nobody needs: where the slice is, everything is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// Where it is.
    #[serde(rename = "shardID")]
    pub shard: ShardId,
    /// What is there was written at a lower epoch than this, or at it.
    pub epoch: Epoch,
}

/// What has become of a copy that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum LeftBehind {
    /// Its shard has not answered since: it does not know yet.
    Away,
    /// Its shard has answered, and takes no votes of the slice. It still has
    /// what was given up.
    Kept,
    /// There is nothing of it any more.
    Gone,
}

/// What somebody said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Word {
    /// Who.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// That a move is to leave, or bring, its slice where it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Back {
    /// What was asked for.
    pub how: BackHow,
    /// By whom.
    #[serde(flatten)]
    pub word: Word,
}

/// How a slice comes to be where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum BackHow {
    /// It never leaves: before the cutover.
    Cancel,
    /// It is brought back: within the window.
    Reverse,
}

/// What a move is expected to cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// Polls to be copied.
    pub polls: u64,
    /// Voters' rows to be copied.
    pub rows: u64,
    /// About so many bytes.
    pub bytes: u64,
    /// About so long until the cutover, in milliseconds.
    pub duration_ms: u64,
    /// About so long nobody can vote, in milliseconds.
    pub pause_ms: u64,
    /// How many ended moves the expectations come from; with none they are
    /// those of a new installation.
    pub from_moves: u64,
    /// Slices that share the source or the target with it.
    pub neighbours: u64,
}

/// What was measured of a move.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Rows that were carried, some of them more than once.
    pub rows: u64,
    /// Bytes that were carried.
    pub bytes: u64,
    /// When the copy began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copying_since: Option<Timestamp>,
    /// When the target became the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_over_at: Option<Timestamp>,
    /// How long nobody could vote, in milliseconds, at the longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// How often the cutover was put off because it would have taken longer
    /// than it may.
    #[serde(default)]
    pub put_off: u32,
    /// Rows that differed and were repaired.
    #[serde(default)]
    pub repaired: u64,
    /// How often both sides were compared in the window.
    #[serde(default)]
    pub compared: u64,
    /// How often they differed.
    #[serde(default)]
    pub differences: u64,
    /// How far the target's changes are known to have been streamed back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed_back: Option<StreamedBack>,
    /// Since when the target alone acknowledges, in a window in which both sides
    /// were to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_since: Option<Timestamp>,
    /// How often a reader found a vote on the source that the target lacks:
    /// there should be none, and as long as there is one the source is kept.
    #[serde(default)]
    pub stragglers: u64,
}

/// How far what was written to the target after the cutover is on the source,
/// too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamedBack {
    /// The position in the target's changes.
    pub position: u64,
    /// Everything that was acknowledged before this moment is.
    pub before: Timestamp,
}

/// Something that was not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// When it was found.
    pub at: Timestamp,
    /// In which state of the workflow.
    pub phase: String,
    /// Whose copy is wrong.
    #[serde(rename = "shardID")]
    pub shard: ShardId,
    /// What is wrong with it: polls, and the voters whose rows they are, or
    /// files.
    pub what: String,
    /// What was done about it.
    pub then: String,
}

/// Findings that are kept of a move.
pub const FINDINGS_MAX: usize = 20;

/// How a move ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Ending {
    /// How.
    pub status: Status,
    /// In which state.
    pub phase: String,
    /// When.
    pub at: Timestamp,
    /// Why, if it did not go as it was meant to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a move stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// It is worked on.
    Running,
    /// It waits: for an approval, a turn, a maintenance window, a quiet moment,
    /// or because it was paused.
    Waiting,
    /// The slice is at its target.
    Completed,
    /// Something was not as it should be, and everything is as it was.
    RolledBack,
    /// The slice was at its target, and is back.
    Reversed,
    /// It was called off, and everything is as it was.
    Cancelled,
    /// It is stuck, and is tried again.
    Failed,
}

impl Status {
    /// Whether a move that stands so is over.
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

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Migration {
    /// What is moved.
    #[must_use]
    pub fn slice_id(&self) -> SliceId {
        SliceId {
            tenant_id: self.tenant_id.clone(),
            slice: self.slice,
        }
    }

    /// The name of its present execution among those of `move-tenant`.
    #[must_use]
    pub fn execution(&self) -> String {
        match self.run {
            0 => self.migration_id.0.clone(),
            later => format!("{}.{later}", self.migration_id),
        }
    }

    /// Keeps what was found.
    pub fn found(&mut self, finding: Finding) {
        let spare = (self.findings.len() + 1).saturating_sub(FINDINGS_MAX);
        self.findings.drain(..spare);
        self.findings.push(finding);
    }

    /// The copy that it left behind, given up or to be removed later: where, and at
    /// which epoch.
    #[must_use]
    pub fn copy_left(&self) -> Option<(&ShardId, Epoch)> {
        let given_up = self.given_up.as_ref().map(|lost| (&lost.shard, lost.epoch));
        given_up.or_else(|| self.left.as_ref().map(|left| (&left.shard, left.epoch)))
    }

    /// Whether that copy may be removed as soon as its shard answers: nobody needs
    /// it, or somebody has said so.
    #[must_use]
    pub fn may_remove_copy(&self) -> bool {
        self.asked.discard.is_some() || (self.given_up.is_none() && self.left.is_some())
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Ended
    }
}

/// The term of moves that are not over.
pub const OPEN: &str = "open";
/// The term of those that are.
pub const OVER: &str = "over";

/// The term of moves that ended so.
#[must_use]
pub fn ended_so(status: Status) -> String {
    format!("status:{status}")
}

/// The tally of the moves that copy from or to a shard.
#[must_use]
pub fn moves_on(shard: &ShardId) -> String {
    format!("shard:{shard}")
}

/// The tally of the moves that copy from or to a region.
#[must_use]
pub fn moves_in(region: &RegionId) -> String {
    format!("region:{region}")
}

/// The tally of the moves from or to a shard that are not over: as long as
/// there are any it cannot be taken away.
#[must_use]
pub fn open_on(shard: &ShardId) -> String {
    format!("open:{shard}")
}

/// The term of moves with a given-up copy that something has yet to be told: that
/// it is given up, or that it is to be removed.
pub const LEFT_OPEN: &str = "left:open";

/// The term of moves of a tenant that left a copy behind on this shard which is
/// still there, or may be.
#[must_use]
pub fn left_on(tenant: &TenantId, shard: &ShardId) -> String {
    format!("left:{tenant}:{shard}")
}

/// The term of a tenant's moves.
#[must_use]
pub fn moves_of(tenant: &TenantId) -> String {
    format!("tenant:{tenant}")
}

impl Entity for Migration {
    const KIND: Kind = Kind::Migration;
    fn record_id(&self) -> &str {
        &self.migration_id.0
    }
    fn terms(&self) -> Vec<String> {
        let mut terms = vec![
            moves_of(&self.tenant_id),
            format!("from:{}", self.from),
            format!("to:{}", self.to),
        ];
        match &self.ended {
            None => terms.push(OPEN.to_owned()),
            Some(ended) => terms.extend([OVER.to_owned(), ended_so(ended.status)]),
        }
        let left = self.left_behind.filter(|left| *left != LeftBehind::Gone);
        let shard = self.copy_left().map_or(&self.to, |(shard, _)| shard);
        terms.extend(left.map(|_| left_on(&self.tenant_id, shard)));
        let removes = self.may_remove_copy();
        let open = left.filter(|left| *left == LeftBehind::Away || removes);
        terms.extend(open.map(|_| LEFT_OPEN.to_owned()));
        terms
    }
    fn tallies(&self) -> Vec<String> {
        let shards = [&self.from, &self.to];
        let mut tallies = Vec::new();
        if !self.is_over() {
            tallies.extend(shards.map(open_on));
        }
        if self.stage == Stage::Admitted {
            tallies.extend(shards.map(moves_on));
            tallies.extend(self.regions.iter().map(moves_in));
        }
        tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_was_given_up_is_found_until_it_is_gone() {
        let body = serde_json::json!({
            "migrationID": "mv-1", "tenantID": "acme", "slice": 0, "fromShardID": "shard-1",
            "toShardID": "shard-2", "regions": [], "actor": {"type": "ballast", "name": "move"},
            "requestedAt": "2026-11-16T09:00:00Z", "terms": {"windowMs": 0}, "stage": "ended",
        });
        let mut migration: Migration = serde_json::from_value(body).unwrap();
        let word = Word {
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
        assert_eq!(left(Some(LeftBehind::Away), false), (true, true));
        assert_eq!(left(Some(LeftBehind::Away), true), (true, true));
        assert_eq!(left(Some(LeftBehind::Kept), false), (true, false));
        assert_eq!(left(Some(LeftBehind::Kept), true), (true, true));
        assert_eq!(left(Some(LeftBehind::Gone), true), (false, false));
        // What nobody needs is removed without anybody saying so.
        migration.left = Some(Left {
            shard: "shard-1".parse().unwrap(),
            epoch: Epoch(3),
        });
        migration.left_behind = Some(LeftBehind::Kept);
        migration.asked.discard = None;
        let terms = migration.terms();
        assert!(terms.contains(&"left:acme:shard-1".to_owned()), "{terms:?}");
        assert!(terms.contains(&LEFT_OPEN.to_owned()), "{terms:?}");
    }
}
