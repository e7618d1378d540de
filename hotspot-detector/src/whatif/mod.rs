//! What-if simulation: a change on a copy of the fleet, planned by the same planner.
//!
//! ```text
//!   fleet ─┬─ plan as it is ──────────────┐
//!          └─ change ─► fleet ─► plan ────┴─► answer: moves, bytes, load before and after
//! ```
//! Only the copy is changed. [`PlanOutcome`] compares a plan's predictions with later
//! measurements.

mod outcome;
mod recorded;
mod registered;
mod replay;

pub use outcome::{PlanOutcome, ShardOutcome};
pub use recorded::{RecordedFleet, fleet_from_samples};
pub use registered::apply_registry;
pub use replay::{ReplayFinding, ReplayReport, replay};

use std::fmt;

use serde::{Deserialize, Serialize};

use ballast_domain::bounds::{WEIGHT_MAX, WEIGHT_MIN};
use ballast_domain::id::{RegionId, ShardId};
use ballast_domain::shard::ShardState;
use ballast_domain::text::count_noun;

use crate::plan::{FleetSnapshot, Plan, PlanShard, PlanTerms, Totals, plan};

/// A change to simulate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, tag = "change")]
pub enum FleetChange {
    /// One more shard, as large as another.
    AddShard {
        /// Its name.
        #[serde(rename = "shardID")]
        shard_id: ShardId,
        /// The shard to copy capacity, region, zones and weight from.
        #[serde(rename = "likeShardID")]
        like: ShardId,
        /// A different region.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        region: Option<RegionId>,
    },
    /// A different weight.
    Weight {
        /// Of which shard.
        #[serde(rename = "shardID")]
        shard_id: ShardId,
        /// The new weight.
        weight: f64,
    },
    /// A drain.
    Drain {
        /// Which.
        #[serde(rename = "shardID")]
        shard_id: ShardId,
    },
    /// Different limits for one shard or all.
    Rules {
        /// The shard; all if unset.
        #[serde(rename = "shardID", default, skip_serializing_if = "Option::is_none")]
        shard_id: Option<ShardId>,
        /// The share of its capacity above which a shard is overloaded.
        limit: f64,
        /// The share to which it is relieved.
        goal: f64,
    },
}

/// Why a change cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadChange {
    /// There is no such shard.
    #[error("there is no shard {0}")]
    NoShard(ShardId),
    /// The shard exists already.
    #[error("there is a shard {0} already")]
    Exists(ShardId),
    /// Invalid weight.
    #[error("invalid weight {0}: it must be from {WEIGHT_MIN} to {WEIGHT_MAX}")]
    Weight(f64),
    /// Invalid limits.
    #[error(
        "invalid goal {goal} and limit {limit}: the goal must be above 0 and at most the limit"
    )]
    Rules {
        /// The goal.
        goal: f64,
        /// The limit.
        limit: f64,
    },
}

impl FleetChange {
    /// Applies the change. Returns whether it changed weights, so that tenants follow them.
    ///
    /// # Errors
    ///
    /// If the change is invalid; the fleet is then unchanged.
    pub fn apply(&self, fleet: &mut FleetSnapshot) -> Result<bool, BadChange> {
        match self {
            Self::AddShard {
                shard_id,
                like,
                region,
            } => {
                let shard = like_another(fleet, shard_id, like, region.as_ref())?;
                fleet.shards.push(shard);
                Ok(true)
            }
            Self::Weight { shard_id, weight } => {
                if !(WEIGHT_MIN..=WEIGHT_MAX).contains(weight) {
                    return Err(BadChange::Weight(*weight));
                }
                let record = &mut find(fleet, shard_id)?.record;
                let is_another = (record.weight - *weight).abs() > f64::EPSILON;
                record.weight = *weight;
                Ok(is_another)
            }
            Self::Drain { shard_id } => {
                find(fleet, shard_id)?.record.state = ShardState::Draining;
                Ok(false)
            }
            Self::Rules {
                shard_id,
                limit,
                goal,
            } => {
                // Written so that NaN is rejected too.
                if !(*goal > 0.0 && goal <= limit) {
                    return Err(BadChange::Rules {
                        goal: *goal,
                        limit: *limit,
                    });
                }
                let shards = match shard_id {
                    Some(id) => std::slice::from_mut(find(fleet, id)?),
                    None => fleet.shards.as_mut_slice(),
                };
                for shard in shards {
                    (shard.limit, shard.goal) = (*limit, *goal);
                }
                Ok(false)
            }
        }
    }
}

fn find<'a>(fleet: &'a mut FleetSnapshot, id: &ShardId) -> Result<&'a mut PlanShard, BadChange> {
    let found = fleet.shards.iter_mut().find(|shard| shard.id() == id);
    found.ok_or_else(|| BadChange::NoShard(id.clone()))
}

fn like_another(
    fleet: &mut FleetSnapshot,
    id: &ShardId,
    like: &ShardId,
    region: Option<&RegionId>,
) -> Result<PlanShard, BadChange> {
    if fleet.shards.iter().any(|shard| shard.id() == id) {
        return Err(BadChange::Exists(id.clone()));
    }
    let at = fleet.at;
    let mut shard = find(fleet, like)?.clone();
    shard.record.shard_id = id.clone();
    shard.record.state = ShardState::Active;
    shard.record.pressure = Default::default();
    shard.record.created_at = at;
    if let Some(region) = region {
        shard.record.region = region.clone();
    }
    Ok(shard)
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIfReport {
    /// The changes.
    pub changes: Vec<FleetChange>,
    /// Whether both plans also move slices for which another shard outscores the current one,
    /// as is due after shards or weights change.
    pub follows_weights: bool,
    /// The plan's totals without the changes.
    pub without: Totals,
    /// The plan with the changes.
    pub plan: Plan,
}

/// Applies changes to a copy of a fleet, one after the other, and plans for it.
///
/// # Errors
///
/// If one of the changes is invalid.
pub fn simulate_changes(
    fleet: &FleetSnapshot,
    terms: &PlanTerms,
    changes: &[FleetChange],
) -> Result<WhatIfReport, BadChange> {
    let mut changed = fleet.clone();
    let mut terms = terms.clone();
    for change in changes {
        // A new shard or weight has an effect only if tenants follow placement's scores.
        terms.follow_weights |= change.apply(&mut changed)?;
    }
    Ok(WhatIfReport {
        changes: changes.to_vec(),
        follows_weights: terms.follow_weights,
        // By the same terms: otherwise migrations that are due anyway would be attributed to the
        // change.
        without: plan(fleet, &terms).totals,
        plan: plan(&changed, &terms),
    })
}

impl fmt::Display for WhatIfReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            writeln!(f, "What if {change}?")?;
        }
        let (with, without) = (&self.plan.totals, &self.without);
        if self.follows_weights {
            writeln!(
                f,
                "Because shards or weights change, both plans also move tenants to the shards that \
                 placement prefers."
            )?;
        }
        if self.changes.is_empty() {
            return fmt::Display::fmt(&self.plan, f);
        }
        writeln!(
            f,
            "Without the change: {}, {} over a limit afterwards. \
             With the change: {}, {} over a limit afterwards.",
            count_noun(without.moves as u64, "migration"),
            count_noun(without.over_after as u64, "shard"),
            count_noun(with.moves as u64, "migration"),
            count_noun(with.over_after as u64, "shard")
        )?;
        fmt::Display::fmt(&self.plan, f)
    }
}

impl fmt::Display for FleetChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddShard {
                shard_id,
                like,
                region,
            } => {
                write!(f, "there were a shard {shard_id} like {like}")?;
                match region {
                    Some(region) => write!(f, " in {region}"),
                    None => Ok(()),
                }
            }
            Self::Weight { shard_id, weight } => write!(f, "{shard_id} had the weight {weight}"),
            Self::Drain { shard_id } => write!(f, "{shard_id} were drained"),
            Self::Rules {
                shard_id,
                limit,
                goal,
            } => {
                match shard_id {
                    Some(shard_id) => write!(f, "{shard_id}")?,
                    None => write!(f, "every shard")?,
                }
                let (limit, goal) = (limit * 100.0, goal * 100.0);
                write!(f, " had the limit {limit:.0} % and the goal {goal:.0} %")
            }
        }
    }
}
