//! What if: a change made to a copy of a fleet, and the same planner over it.
//!
//! ```text
//!   fleet ─┬─ plan as it is ──────────────┐
//!          └─ change ─► fleet ─► plan ────┴─► answer: moves, bytes, load before and after
//! ```
//! Nothing is changed but the copy. What came of it when it was done for real
//! is kept beside what was said ([`Outcome`]).

mod outcome;
mod recorded;
mod registered;
mod replay;

pub use outcome::{Outcome, ShardOutcome};
pub use recorded::{Recorded, fleet as fleet_of};
pub use registered::register;
pub use replay::{Found, Replayed, replay};

use std::fmt;

use serde::{Deserialize, Serialize};

use ballast_domain::bounds::{WEIGHT_MAX, WEIGHT_MIN};
use ballast_domain::id::{RegionId, ShardId};
use ballast_domain::shard::ShardState;

use crate::plan::{Fleet, Plan, Shard, Terms, Totals, plan};

/// A change to be tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, tag = "change")]
pub enum Change {
    /// One more shard, as large as another.
    AddShard {
        /// Its name.
        #[serde(rename = "shardID")]
        shard_id: ShardId,
        /// The shard that it is like: capacity, region, zones, weight.
        #[serde(rename = "likeShardID")]
        like: ShardId,
        /// Another region than that one's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        region: Option<RegionId>,
    },
    /// Another weight.
    Weight {
        /// Of which shard.
        #[serde(rename = "shardID")]
        shard_id: ShardId,
        /// The new weight.
        weight: f64,
    },
    /// A shard is to be emptied.
    Drain {
        /// Which.
        #[serde(rename = "shardID")]
        shard_id: ShardId,
    },
    /// Other limits for a shard, or for all of them.
    Rules {
        /// Which; all when it is left out.
        #[serde(rename = "shardID", default, skip_serializing_if = "Option::is_none")]
        shard_id: Option<ShardId>,
        /// The share of its capacity above which a shard is in trouble.
        limit: f64,
        /// The share to which it is relieved.
        goal: f64,
    },
}

/// Why a change cannot be tried.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadChange {
    /// There is no such shard.
    #[error("there is no shard {0}")]
    NoShard(ShardId),
    /// There is one already.
    #[error("there is a shard {0} already")]
    Exists(ShardId),
    /// The weight cannot be.
    #[error("a weight is from {WEIGHT_MIN} to {WEIGHT_MAX}; {0} is not")]
    Weight(f64),
    /// The limits cannot be.
    #[error("a goal is above 0 and not above its limit; {goal} and {limit} are not so")]
    Rules {
        /// The goal.
        goal: f64,
        /// The limit.
        limit: f64,
    },
}

impl Change {
    /// Makes the change. Whether the weights have changed by it, so that
    /// tenants are due to move for them.
    ///
    /// # Errors
    ///
    /// When the change cannot be made; the fleet is then as it was.
    pub fn apply(&self, fleet: &mut Fleet) -> Result<bool, BadChange> {
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
                // Written so that what is no number is refused too.
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

fn find<'a>(fleet: &'a mut Fleet, id: &ShardId) -> Result<&'a mut Shard, BadChange> {
    let found = fleet.shards.iter_mut().find(|shard| shard.id() == id);
    found.ok_or_else(|| BadChange::NoShard(id.clone()))
}

fn like_another(
    fleet: &mut Fleet,
    id: &ShardId,
    like: &ShardId,
    region: Option<&RegionId>,
) -> Result<Shard, BadChange> {
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

/// What would come of changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The changes.
    pub changes: Vec<Change>,
    /// Whether both plans also move what another shard outscores the holder for,
    /// as is due when shards or weights change.
    pub follows_weights: bool,
    /// What would be done without them.
    pub without: Totals,
    /// What would be done with them.
    pub plan: Plan,
}

/// Tries changes on a copy of a fleet, one after the other, and plans for it.
///
/// # Errors
///
/// When one of the changes cannot be made.
pub fn what_if(fleet: &Fleet, terms: &Terms, changes: &[Change]) -> Result<Answer, BadChange> {
    let mut changed = fleet.clone();
    let mut terms = terms.clone();
    for change in changes {
        // A new shard or weight shows only in where placement wants tenants.
        terms.follow_weights |= change.apply(&mut changed)?;
    }
    Ok(Answer {
        changes: changes.to_vec(),
        follows_weights: terms.follow_weights,
        // By the same terms, or the change would be charged with what was due
        // without it.
        without: plan(fleet, &terms).totals,
        plan: plan(&changed, &terms),
    })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            writeln!(f, "What if {change}?")?;
        }
        let (with, without) = (&self.plan.totals, &self.without);
        if self.follows_weights {
            writeln!(
                f,
                "With shards or weights changed, tenants follow the weights; so does the plan \
                 without it."
            )?;
        }
        if self.changes.is_empty() {
            return fmt::Display::fmt(&self.plan, f);
        }
        writeln!(
            f,
            "Without it: {} moves, {} shards over a limit afterwards. \
             With it: {} moves, {} shards over a limit afterwards.",
            without.moves, without.over_after, with.moves, with.over_after
        )?;
        fmt::Display::fmt(&self.plan, f)
    }
}

impl fmt::Display for Change {
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
