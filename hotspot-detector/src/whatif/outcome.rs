//! A plan's predictions compared with measurements, stored with the plan to show how
//! accurate it was.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;

use crate::plan::{Plan, ShardEffect};
use crate::resources::{Dimension, Resources};

/// The measured outcome of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanOutcome {
    /// The revision that the plan was made from.
    pub revision: u64,
    /// When it was measured.
    pub measured_at: Timestamp,
    /// The shards of the plan that were measured.
    pub shards: Vec<ShardOutcome>,
    /// The mean error over shards and dimensions, as a share of what was
    /// predicted; `null` when nothing could be compared.
    pub mean_error: Option<f64>,
    /// The largest of them.
    pub worst_error: Option<f64>,
}

/// The measured outcome of one shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardOutcome {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The predicted load.
    pub predicted: Resources,
    /// The measured load.
    pub measured: Resources,
    /// The error per dimension, relative to what was predicted or to a hundredth of the
    /// capacity, whichever is more; dimensions with less than that in both are left out.
    pub errors: BTreeMap<Dimension, f64>,
}

impl PlanOutcome {
    /// Compares a plan with later measurements. Unmeasured shards are left out.
    #[must_use]
    pub fn compare(plan: &Plan, measured: &BTreeMap<ShardId, Resources>, at: Timestamp) -> Self {
        let shards: Vec<ShardOutcome> = plan
            .shards
            .iter()
            .filter_map(|shard| {
                let is = measured.get(&shard.shard_id)?;
                Some(compared(shard, is))
            })
            .collect();
        let errors = || shards.iter().flat_map(|shard| shard.errors.values());
        let sizes: Vec<f64> = errors().map(|error| error.abs()).collect();
        Self {
            revision: plan.revision,
            measured_at: at,
            mean_error: (!sizes.is_empty()).then(|| sizes.iter().sum::<f64>() / sizes.len() as f64),
            worst_error: sizes.into_iter().reduce(f64::max),
            shards,
        }
    }
}

/// The share of a capacity below which a load is next to nothing.
const NEGLIGIBLE: f64 = 0.01;

fn compared(shard: &ShardEffect, measured: &Resources) -> ShardOutcome {
    let predicted = &shard.after.load;
    let errors = Dimension::ALL.into_iter().filter_map(|dimension| {
        let (said, is) = (predicted[dimension], measured[dimension]);
        let least = shard.capacity[dimension] * NEGLIGIBLE;
        let is_negligible = said.max(is) < least || said.max(least) <= 0.0;
        (!is_negligible).then(|| (dimension, (is - said) / said.max(least)))
    });
    ShardOutcome {
        shard_id: shard.shard_id.clone(),
        predicted: *predicted,
        measured: *measured,
        errors: errors.collect(),
    }
}
