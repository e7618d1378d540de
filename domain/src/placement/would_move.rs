//! Counterfactuals: which single change would move a slice. Candidates are computed from the
//! scores and then tried on a copy of the fleet, so every reported change is verified.

use serde::{Deserialize, Serialize};

use super::decide::{PlacementDecision, decide};
use super::explain::ShardExplanation;
use super::fleet::{PlacementFleet, PlacementSubject};
use crate::bounds::{WEIGHT_MAX, WEIGHT_MIN};
use crate::id::ShardId;
use crate::shard::ShardState;
use crate::tenant::Pin;

/// For how many rivals the required weight is computed.
const RIVALS: usize = 3;

/// A change, and where the slice would belong after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WouldMove {
    /// The change.
    #[serde(flatten)]
    pub change: PlacementChange,
    /// The shard that the slice would belong on.
    #[serde(rename = "toShardID")]
    pub to_shard_id: ShardId,
    /// The change in a sentence.
    pub sentence: String,
    /// The command that makes the change; empty if none is needed.
    pub command: String,
}

/// A change of one thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "change", rename_all = "camelCase")]
#[schema(as = Change)]
pub enum PlacementChange {
    /// None: the slice is already due to move.
    None,
    /// Another weight for a shard.
    Weight {
        /// The shard.
        #[serde(rename = "shardID")]
        shard_id: ShardId,
        /// Its weight now.
        from: f64,
        /// The weight at which the slice would move.
        to: f64,
    },
    /// Another state for a shard.
    State {
        /// The shard.
        #[serde(rename = "shardID")]
        shard_id: ShardId,
        /// Its new state.
        to: ShardState,
    },
    /// Removing the pin.
    Unpin,
}

pub(super) fn would_move(
    fleet: &PlacementFleet,
    subject: &PlacementSubject,
    verdict: &PlacementDecision,
    shards: &[ShardExplanation],
) -> Vec<WouldMove> {
    let Some(preferred) = &verdict.shard_id else {
        // No shard may hold it: try to bring shards back into service.
        return shards
            .iter()
            .filter(|shard| shard.state != ShardState::Active)
            .take(RIVALS)
            .filter_map(|shard| {
                let change = PlacementChange::State {
                    shard_id: shard.shard_id.clone(),
                    to: ShardState::Active,
                };
                try_change(fleet, subject, None, change)
            })
            .collect();
    };
    let mut found = Vec::new();
    if subject
        .current
        .as_ref()
        .is_some_and(|current| current != preferred)
    {
        found.push(WouldMove {
            change: PlacementChange::None,
            to_shard_id: preferred.clone(),
            sentence: format!("it is already due to move to {preferred}"),
            command: String::new(),
        });
    }
    found.extend(
        candidates(subject, preferred, shards)
            .into_iter()
            .filter_map(|change| try_change(fleet, subject, Some(preferred), change)),
    );
    found
}

/// Changes worth trying, the smallest first.
fn candidates(
    subject: &PlacementSubject,
    preferred: &ShardId,
    shards: &[ShardExplanation],
) -> Vec<PlacementChange> {
    if subject.pin.is_some() {
        return vec![PlacementChange::Unpin];
    }
    let Some(winner) = shards.iter().find(|shard| shard.shard_id == *preferred) else {
        return Vec::new();
    };
    let rivals = || {
        shards.iter().filter(|shard| {
            shard.shard_id != *preferred && shard.vetoes.is_empty() && !shard.passed_over
        })
    };
    let mut changes: Vec<PlacementChange> = rivals()
        .take(RIVALS)
        .map(|rival| PlacementChange::Weight {
            shard_id: rival.shard_id.clone(),
            from: rival.weight,
            to: just_above(rival.weight * winner.score / rival.score),
        })
        .collect();
    changes.extend(rivals().next().map(|rival| PlacementChange::Weight {
        shard_id: preferred.clone(),
        from: winner.weight,
        to: just_below(winner.weight * rival.score / winner.score),
    }));
    changes.push(PlacementChange::State {
        shard_id: preferred.clone(),
        to: ShardState::Draining,
    });
    // A shard that would win if it were back in service.
    changes.extend(
        shards
            .iter()
            .filter(|shard| shard.state != ShardState::Active && shard.score > winner.score)
            .map(|shard| PlacementChange::State {
                shard_id: shard.shard_id.clone(),
                to: ShardState::Active,
            }),
    );
    changes
}

/// Tries a change on a copy of the fleet; `None` if it is out of bounds or does not move the
/// slice.
fn try_change(
    fleet: &PlacementFleet,
    subject: &PlacementSubject,
    preferred: Option<&ShardId>,
    change: PlacementChange,
) -> Option<WouldMove> {
    let mut fleet = fleet.clone();
    let mut subject = subject.clone();
    change.apply(&mut fleet, &mut subject.pin)?;
    let to_shard_id = decide(&fleet, &subject)
        .shard_id
        .filter(|to| Some(to) != preferred)?;
    let (sentence, command) = describe_change(&change, &subject, &to_shard_id);
    Some(WouldMove {
        change,
        to_shard_id,
        sentence,
        command,
    })
}

impl PlacementChange {
    /// Applies the change; `None` if that is not possible.
    pub fn apply(&self, fleet: &mut PlacementFleet, pin: &mut Option<Pin>) -> Option<()> {
        match self {
            Self::None => {}
            Self::Weight { shard_id, to, .. } => {
                if !(WEIGHT_MIN..=WEIGHT_MAX).contains(to) {
                    return None;
                }
                fleet.get_mut(shard_id)?.weight = *to;
            }
            Self::State { shard_id, to } => fleet.get_mut(shard_id)?.state = *to,
            Self::Unpin => *pin = None,
        }
        Some(())
    }
}

fn describe_change(
    change: &PlacementChange,
    subject: &PlacementSubject,
    to: &ShardId,
) -> (String, String) {
    match change {
        PlacementChange::None => (String::new(), String::new()),
        PlacementChange::Weight {
            shard_id,
            from,
            to: weight,
        } => {
            let verb = if weight > from { "raise" } else { "lower" };
            let percent = (weight / from - 1.0) * 100.0;
            (
                format!(
                    "{verb} the weight of {shard_id} from {from} to {weight} ({percent:+.1} %): it goes to {to}"
                ),
                format!("ballast shard weight {shard_id} {weight}"),
            )
        }
        PlacementChange::State {
            shard_id,
            to: state,
        } => (
            match state {
                ShardState::Active => {
                    format!("bring {shard_id} back into service: it goes to {to}")
                }
                _ => format!("drain {shard_id}: it goes to {to}"),
            },
            format!("ballast shard state {shard_id} {}", state.name()),
        ),
        PlacementChange::Unpin => (
            format!("remove the pin: it goes to {to}"),
            format!("ballast placement unpin {}", subject.tenant_id),
        ),
    }
}

/// The next number of four digits strictly above `x`.
fn just_above(x: f64) -> f64 {
    let unit = last_digit_unit(x);
    round_off_noise(((x / unit).floor() + 1.0) * unit)
}

/// The next number of four digits strictly below `x`.
fn just_below(x: f64) -> f64 {
    let unit = last_digit_unit(x);
    round_off_noise(((x / unit).ceil() - 1.0) * unit)
}

/// One in the fourth digit of `x`.
fn last_digit_unit(x: f64) -> f64 {
    10f64.powf(x.log10().floor() - 3.0)
}

/// Removes binary rounding noise: 1.3000000000000003 becomes 1.3.
fn round_off_noise(x: f64) -> f64 {
    format!("{x:.9}").parse().unwrap_or(x)
}
