//! What a finished move proves, and the text of it that is signed.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::clock::Timestamp;
use crate::id::{ShardId, TenantId};
use crate::migration::Status;
use crate::moving::MoveId;
use crate::tenant::Epoch;

/// The version of the certificate's form.
pub const VERSION: u32 = 1;

/// What a finished move proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Certificate {
    /// The version of this form.
    pub version: u32,
    /// The move.
    #[serde(rename = "migrationID")]
    pub migration_id: MoveId,
    /// How it ended.
    pub status: Status,
    /// Whose slice was moved.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Which slice of the tenant.
    pub slice: u32,
    /// The shard that it left.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The shard that it came to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// The shard that owns it now.
    #[serde(rename = "ownerShardID")]
    pub owner: ShardId,
    /// The epoch that it owns it at.
    pub epoch: Epoch,
    /// Who wanted the move.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was there when the source was sealed, and what was found on the
    /// target; absent when it never came to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<VotesProved>,
    /// The same for the way back, if it was brought back: what was there when
    /// the target was sealed, and what was found on the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes_back: Option<VotesProved>,
    /// What was given up, if somebody accepted that: then it does not say that
    /// nothing was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUp>,
    /// Why it did not end as it was meant to, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How long nobody could vote, in milliseconds, at the longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// From when it was asked for until it ended, in milliseconds.
    pub duration_ms: u64,
    /// Rows that were carried to the target, some of them more than once; what
    /// streamed back is not among them.
    pub rows_carried: u64,
    /// Bytes that were carried to it.
    pub bytes_carried: u64,
    /// How often both sides were compared in the window.
    pub compared: u64,
    /// How often they differed.
    pub differences: u64,
    /// How often a vote was read on the source that the target lacked; counted
    /// among the differences too. There should be none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub stragglers: u64,
    /// Rows that differed before the cutover, and were repaired.
    pub repaired: u64,
    /// When it was asked for.
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
pub struct VotesProved {
    /// Voters' rows that the source had acknowledged when it was sealed, with
    /// one for each poll.
    pub acknowledged: u64,
    /// Those found on the target.
    pub present: u64,
    /// Those found there more than once.
    pub duplicates: u64,
    /// Polls.
    pub polls: u64,
    /// The digest of all rows on the sealed source.
    pub source_digest: String,
    /// The digest of all rows on the target.
    pub target_digest: String,
    /// The epoch of the seal.
    pub sealed_epoch: Epoch,
    /// How far the source's changes went when it was sealed: all of them are on
    /// the target. Unknown when whoever copied them did not live to say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_position: Option<u64>,
}

/// What was given up when a slice was taken back from an owner that was away for
/// good: all that this shard took and that had not been streamed back. Nothing
/// that was acknowledged if both sides had to have it ([`GivenUp::synced`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GivenUp {
    /// The shard that was left behind.
    #[serde(rename = "shardID")]
    pub shard: ShardId,
    /// Who accepted it.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When it was done: from then on another shard takes the votes.
    pub at: Timestamp,
    /// The epoch from which on another shard owns the slice. What the shard that
    /// was left behind took, it took at a lower one.
    pub epoch: Epoch,
    /// Everything up to this position of the lost shard's changes is there, and
    /// perhaps more; what came after it is given up. Unknown when nothing had
    /// been streamed back: then it is all that came after the cutover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_position: Option<u64>,
    /// Everything that was acknowledged before this moment is there.
    pub after: Timestamp,
    /// Voters' rows on the shard that took over when it did; unknown when whoever
    /// counted them did not live to say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<u64>,
    /// Whether every vote that was acknowledged was on both sides: then none of
    /// them is lost.
    #[serde(default, skip_serializing_if = "is_not")]
    pub synced: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_not(flag: &bool) -> bool {
    !flag
}

impl GivenUp {
    /// In one line.
    #[must_use]
    pub fn told(&self) -> String {
        let (shard, after, until) = (&self.shard, self.after, self.at);
        let position = match self.after_position {
            Some(position) => format!(" (position {position} of its changes)"),
            None => String::new(),
        };
        if self.synced {
            return format!(
                "{shard} was left behind at {until}; every vote that was acknowledged was on both sides"
            );
        }
        let who = &self.actor.name;
        format!(
            "what {shard} took between {after}{position} and {until} was given up, accepted by {who}"
        )
    }
}

/// A certificate with its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Signed {
    /// What is signed.
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
    /// Why it does not prove that every vote is there once, if it does not: it
    /// may be what was signed, and still say that something is wrong.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let ways = [
            (&self.votes, &self.from, &self.to),
            (&self.votes_back, &self.to, &self.from),
        ];
        for (proved, from, to) in ways {
            let Some(votes) = proved else { continue };
            let (acknowledged, present) = (votes.acknowledged, votes.present);
            if acknowledged != present {
                return Some(format!(
                    "{from} had acknowledged {acknowledged} rows, {present} were found on {to}"
                ));
            }
            if votes.duplicates > 0 {
                let twice = votes.duplicates;
                return Some(format!("{twice} rows were found on {to} more than once"));
            }
            if votes.source_digest != votes.target_digest {
                return Some(format!("what {from} and {to} held differed"));
            }
        }
        if let Some(lost) = &self.given_up {
            let before = self.votes.as_ref().map_or(0, |votes| votes.acknowledged);
            let missing = before.saturating_sub(lost.present.unwrap_or(before));
            let told = lost.told();
            if missing > 0 {
                let told =
                    format!("{told}, and {missing} rows from before the cutover are missing");
                return Some(told);
            }
            if !lost.synced {
                return Some(told);
            }
        }
        (self.stragglers > 0).then(|| {
            let (seen, from, to) = (self.stragglers, &self.from, &self.to);
            format!("{seen} times a vote was read on {from} that {to} lacked")
        })
    }

    /// The text that is signed: JSON with its members in the order above,
    /// without blanks.
    #[must_use]
    pub fn text(&self) -> String {
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

    fn given_up() -> GivenUp {
        let body = serde_json::json!({
            "shardID": "shard-2", "actor": {"type": "ballast", "name": "ann"},
            "acceptedAt": "2026-11-16T09:00:00Z", "at": "2026-11-16T09:00:01Z",
            "epoch": 5, "after": "2026-11-16T08:59:00Z",
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn whatever_is_wrong_casts_doubt_on_it() {
        assert_eq!(certificate().doubt(), None);
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
            assert!(it.doubt().is_some(), "{it:?}");
        }
        // One that never came to a cutover claims nothing.
        let mut it = certificate();
        (it.votes, it.votes_back) = (None, None);
        assert_eq!(it.doubt(), None);
    }
}
