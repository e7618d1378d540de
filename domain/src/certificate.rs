//! The certificate of a finished migration, and the text of it that is signed.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::clock::Timestamp;
use crate::id::{ShardId, TenantId};
use crate::migration::MigrationStatus;
use crate::moving::MigrationId;
use crate::tenant::Epoch;
use crate::text::count_noun;

/// The version of the certificate format.
pub const VERSION: u32 = 1;

/// What is certified about a finished migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Certificate {
    /// The version of this format.
    pub version: u32,
    /// The migration.
    #[serde(rename = "migrationID")]
    pub migration_id: MigrationId,
    /// Its final status.
    pub status: MigrationStatus,
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The tenant's slice.
    pub slice: u32,
    /// The source.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The target.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// The shard that owns the slice now.
    #[serde(rename = "ownerShardID")]
    pub owner: ShardId,
    /// The epoch of its ownership.
    pub epoch: Epoch,
    /// Who requested the migration.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The votes on the sealed source and on the target; absent if there was no cutover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<VoteProof>,
    /// The same for the way back, if the slice was brought back: the votes on the sealed
    /// target and on the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes_back: Option<VoteProof>,
    /// The loss that an operator accepted. If present, the certificate does not state that
    /// nothing was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<AcceptedLoss>,
    /// Why it did not complete, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The write pause, in milliseconds; an upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// The time from the request to the end, in milliseconds.
    pub duration_ms: u64,
    /// Rows copied to the target; a row may be copied more than once. Rows that were
    /// streamed back are not included.
    pub rows_carried: u64,
    /// Bytes copied to the target.
    pub bytes_carried: u64,
    /// How often both sides were compared during the window.
    pub compared: u64,
    /// How often they differed.
    pub differences: u64,
    /// How often a vote was read on the source that the target lacked. These are also
    /// counted as differences. There should be none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub stragglers: u64,
    /// Rows that differed before the cutover, and were repaired.
    pub repaired: u64,
    /// When it was requested.
    pub requested_at: Timestamp,
    /// When the target became the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_over_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// The votes on both sides at the moment of the cutover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = VotesProved)]
pub struct VoteProof {
    /// Rows that the source had acknowledged when it was sealed: voters' rows and one row
    /// per poll.
    pub acknowledged: u64,
    /// Those that are on the target.
    pub present: u64,
    /// Those that are there more than once.
    pub duplicates: u64,
    /// Polls.
    pub polls: u64,
    /// The digest of all rows on the sealed source.
    pub source_digest: String,
    /// The digest of all rows on the target.
    pub target_digest: String,
    /// The epoch of the seal.
    pub sealed_epoch: Epoch,
    /// The position of the source's change stream when it was sealed: all changes up to it
    /// are on the target. Unknown if the copying worker crashed before recording it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_position: Option<u64>,
}

/// The loss when an owner that was unavailable for good was abandoned: all that this
/// shard took and that had not been streamed back. Nothing that was acknowledged if both
/// sides had to have it ([`AcceptedLoss::synced`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GivenUp)]
pub struct AcceptedLoss {
    /// The unavailable shard.
    #[serde(rename = "shardID")]
    pub shard: ShardId,
    /// Who accepted it.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When it took effect: from then on another shard takes the votes.
    pub at: Timestamp,
    /// The epoch at which another shard owns the slice. The unavailable shard took votes
    /// at lower epochs only.
    pub epoch: Epoch,
    /// The position up to which the unavailable shard's changes are present; later ones are
    /// lost. Unknown if nothing was streamed back: then all changes since the cutover are
    /// lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_position: Option<u64>,
    /// Everything acknowledged before this moment is present.
    pub after: Timestamp,
    /// Voters' rows on the new owner when it took over. Unknown if the worker crashed before
    /// recording it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<u64>,
    /// Whether every acknowledged vote was on both sides: then none of them is lost.
    #[serde(default, skip_serializing_if = "is_not")]
    pub synced: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_not(flag: &bool) -> bool {
    !flag
}

impl AcceptedLoss {
    /// Describes the loss in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let (shard, after, until) = (&self.shard, self.after, self.at);
        let position = match self.after_position {
            Some(position) => format!(" (position {position} of its changes)"),
            None => String::new(),
        };
        if self.synced {
            return format!(
                "{shard} was abandoned at {until}; every acknowledged vote was on both sides"
            );
        }
        let who = &self.actor.name;
        format!(
            "{shard} was abandoned at {until}; what it took after {after}{position} is lost, \
             accepted by {who}"
        )
    }
}

/// A certificate with its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Signed)]
pub struct SignedCertificate {
    /// The signed content.
    #[serde(flatten)]
    pub certificate: Certificate,
    /// The ed25519 public key, in base64.
    pub public_key: String,
    /// The ed25519 signature of the certificate's text, in base64.
    pub signature: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Certificate {
    /// Why it does not prove that every vote is present exactly once, if it does not. A
    /// certificate can have a valid signature and still report a problem.
    #[must_use]
    pub fn describe_doubt(&self) -> Option<String> {
        let ways = [
            (&self.votes, &self.from, &self.to),
            (&self.votes_back, &self.to, &self.from),
        ];
        for (proved, from, to) in ways {
            let Some(votes) = proved else { continue };
            let (acknowledged, present) = (votes.acknowledged, votes.present);
            if acknowledged != present {
                let rows = count_noun(acknowledged, "row");
                return Some(format!(
                    "{from} had acknowledged {rows}; on {to} there were {present}"
                ));
            }
            if votes.duplicates > 0 {
                let twice = count_noun(votes.duplicates, "row");
                return Some(format!("found {twice} on {to} more than once"));
            }
            if votes.source_digest != votes.target_digest {
                return Some(format!("what {from} and {to} held differed"));
            }
        }
        if let Some(lost) = &self.given_up {
            let before = self.votes.as_ref().map_or(0, |votes| votes.acknowledged);
            let missing = before.saturating_sub(lost.present.unwrap_or(before));
            let loss = lost.describe();
            if missing > 0 {
                let more = "rows from before the cutover are missing";
                return Some(format!("{loss}, and {missing} {more}"));
            }
            if !lost.synced {
                return Some(loss);
            }
        }
        (self.stragglers > 0).then(|| {
            let (from, to) = (&self.from, &self.to);
            let seen = count_noun(self.stragglers, "time");
            format!("{seen} a vote was read on {from} that {to} lacked")
        })
    }

    /// The text that is signed: JSON with the fields in the order above, without
    /// whitespace.
    #[must_use]
    pub fn signed_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> Certificate {
        let votes = serde_json::json!({"acknowledged": 5, "present": 5, "duplicates": 0,
            "polls": 1, "sourceDigest": "a", "targetDigest": "a", "sealedEpoch": 2});
        let body = serde_json::json!({
            "version": 1, "migrationID": "mv-1", "status": "reversed", "tenantID": "acme",
            "slice": 0, "fromShardID": "shard-1", "toShardID": "shard-2",
            "ownerShardID": "shard-1", "epoch": 4,
            "actor": {"type": "ballast", "name": "move"}, "votes": votes, "votesBack": votes,
            "durationMs": 1, "rowsCarried": 5, "bytesCarried": 5, "compared": 1,
            "differences": 0, "repaired": 0,
            "requestedAt": "2026-11-16T09:00:00Z", "endedAt": "2026-11-16T09:00:01Z",
        });
        serde_json::from_value(body).unwrap()
    }

    fn given_up() -> AcceptedLoss {
        let body = serde_json::json!({
            "shardID": "shard-2", "actor": {"type": "ballast", "name": "ann"},
            "acceptedAt": "2026-11-16T09:00:00Z", "at": "2026-11-16T09:00:01Z",
            "epoch": 5, "after": "2026-11-16T08:59:00Z",
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn every_problem_casts_doubt() {
        assert_eq!(certificate().describe_doubt(), None);
        let doubts: [fn(&mut Certificate); 6] = [
            |it| it.given_up = Some(given_up()),
            |it| it.votes.as_mut().unwrap().present = 4,
            |it| it.votes.as_mut().unwrap().duplicates = 1,
            |it| it.votes_back.as_mut().unwrap().present = 6,
            |it| it.votes_back.as_mut().unwrap().target_digest = "b".to_owned(),
            |it| it.stragglers = 1,
        ];
        for doubt in doubts {
            let mut it = certificate();
            doubt(&mut it);
            assert!(it.describe_doubt().is_some(), "{it:?}");
        }
        // One that never came to a cutover claims nothing.
        let mut it = certificate();
        (it.votes, it.votes_back) = (None, None);
        assert_eq!(it.describe_doubt(), None);
    }
}
