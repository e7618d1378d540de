//! Explains a placement: every shard with its score, its vetoes and pin, the margin of the
//! winner, and the changes that would move the slice.

use serde::{Deserialize, Serialize};

use super::decide::{PlacementDecision, PlacementReason, decide};
use super::fleet::{PlacementFleet, PlacementShard, PlacementSubject};
use super::score::{draw, score};
use super::veto::{Veto, region_fit, vetoes};
use super::would_move::{WouldMove, would_move};
use crate::id::{RegionId, ShardId, TenantId, ZoneId};
use crate::residency::RegionFit;
use crate::shard::{Pressure, ShardState};
use crate::tenant::Pin;

/// Why a slice is where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The tenant's slice.
    pub slice: u32,
    /// The shard that the slice is on.
    #[serde(rename = "shardID")]
    pub shard_id: Option<ShardId>,
    /// The shard that it belongs on; differs from `shardID` while a move is due.
    #[serde(rename = "preferredShardID")]
    pub preferred_shard_id: Option<ShardId>,
    /// Why it belongs there, in a sentence.
    pub because: String,
    /// The difference between the scores of the preferred shard and the runner-up; `null` if
    /// no other shard may hold the slice. Negative if a pin or a rule decided.
    pub margin: Option<f64>,
    /// The best other shard, to which the margin refers.
    #[serde(rename = "runnerUpShardID")]
    pub runner_up_shard_id: Option<ShardId>,
    /// All shards: first those that may hold the slice, then by score.
    pub shards: Vec<ShardExplanation>,
    /// Changes that would move it; each was tried on a copy of the fleet.
    pub would_move: Vec<WouldMove>,
}

/// One shard's part in an explanation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ShardExplained)]
pub struct ShardExplanation {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its score for this slice: weight / -ln(draw).
    pub score: f64,
    /// The number in (0, 1) that it drew for this slice.
    pub draw: f64,
    /// Its capacity weight.
    pub weight: f64,
    /// Its region.
    pub region: RegionId,
    /// Its tags.
    pub zones: Vec<ZoneId>,
    /// Its state.
    pub state: ShardState,
    /// Whether it is calm or busy. This counts only when a slice is placed.
    pub pressure: Pressure,
    /// How many slices it holds.
    pub slices: u64,
    /// How many it may hold.
    pub max_slices: u64,
    /// Why it may not hold this slice; empty if it may.
    pub vetoes: Vec<Veto>,
    /// The pin to this shard, if there is one.
    pub pinned: Option<Pin>,
    /// Whether it was passed over when the slice was placed, because it was busy or full; it
    /// does not attract the slice now.
    pub passed_over: bool,
    /// Whether it is in an approved secondary region: it is used only while no shard of the
    /// home region can be.
    pub secondary: bool,
}

/// Explains where a slice belongs in a fleet.
pub fn explain(fleet: &PlacementFleet, subject: &PlacementSubject) -> Explanation {
    let verdict = decide(fleet, subject);
    let mut shards: Vec<_> = fleet
        .shards()
        .iter()
        .map(|shard| explain_shard(shard, subject))
        .collect();
    shards.sort_by(|one, two| {
        let rank = |shard: &ShardExplanation| (!shard.vetoes.is_empty(), shard.secondary);
        rank(one)
            .cmp(&rank(two))
            .then(two.score.total_cmp(&one.score))
            .then(one.shard_id.cmp(&two.shard_id))
    });
    let preferred = verdict.shard_id.as_ref();
    let runner_up = shards.iter().find(|shard| {
        shard.vetoes.is_empty() && !shard.passed_over && Some(&shard.shard_id) != preferred
    });
    let margin = preferred
        .and_then(|id| shards.iter().find(|shard| shard.shard_id == *id))
        .zip(runner_up)
        .map(|(winner, other)| winner.score - other.score);
    Explanation {
        tenant_id: subject.tenant_id.clone(),
        slice: subject.slice,
        shard_id: subject.current.clone(),
        preferred_shard_id: verdict.shard_id.clone(),
        because: describe_reason(fleet, subject, &verdict),
        margin,
        runner_up_shard_id: runner_up.map(|shard| shard.shard_id.clone()),
        would_move: would_move(fleet, subject, &verdict, &shards),
        shards,
    }
}

fn explain_shard(shard: &PlacementShard, subject: &PlacementSubject) -> ShardExplanation {
    let draw = draw(subject.hash, shard.hash);
    ShardExplanation {
        shard_id: shard.id.clone(),
        score: score(shard.weight, draw),
        draw,
        weight: shard.weight,
        region: shard.region.clone(),
        zones: shard.zones.clone(),
        state: shard.state,
        pressure: shard.pressure,
        slices: shard.slices,
        max_slices: shard.max_slices,
        vetoes: vetoes(shard, subject),
        pinned: subject.pin.clone().filter(|pin| pin.shard_id == shard.id),
        passed_over: subject.passed_over.contains(&shard.id),
        secondary: region_fit(shard, subject) == RegionFit::Secondary,
    }
}

fn describe_reason(
    fleet: &PlacementFleet,
    subject: &PlacementSubject,
    verdict: &PlacementDecision,
) -> String {
    let Some(target) = &verdict.shard_id else {
        return "no shard may hold it: every one is vetoed".to_owned();
    };
    let current = subject.current.as_ref();
    let held = current.and_then(|id| fleet.get(id));
    match (verdict.why, &subject.pin) {
        (PlacementReason::Pinned, Some(pin)) => format!(
            "{} pinned it to {target}{}",
            pin.actor,
            pin.reason
                .as_ref()
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default()
        ),
        (PlacementReason::Stays, _) => {
            let passed: Vec<_> = subject.passed_over.iter().map(ShardId::as_str).collect();
            let except = match passed.as_slice() {
                [] => String::new(),
                [one] => format!(" ({one} was filling up when it was placed)"),
                several => format!(
                    " ({} were filling up when it was placed)",
                    several.join(", ")
                ),
            };
            format!("{target} has the highest score of the shards that may hold it{except}")
        }
        (PlacementReason::Closed, _) => {
            "its tenant is closed: it stays until it is purged".to_owned()
        }
        (PlacementReason::MustLeave, _) => {
            let from = current.map(ToString::to_string).unwrap_or_default();
            let reasons = match held {
                None => "is gone from the fleet".to_owned(),
                Some(shard) => {
                    let reasons: Vec<_> = vetoes(shard, subject)
                        .into_iter()
                        .map(|veto| veto.message)
                        .collect();
                    reasons.join(" and ")
                }
            };
            format!("it must leave {from}, which {reasons}; {target} is next")
        }
        _ if current.is_some() => format!("{target} now outscores the shard it is on"),
        _ => format!("{target} has the highest score of the shards that may hold it"),
    }
}
