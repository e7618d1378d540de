//! A plan's predictions compared with measurements, stored with the plan to show how
//! accurate it was.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;

use crate::plan::Plan;
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
    /// The relative error per dimension; dimensions with a predicted load of 0 are left out.
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
                Some(compared(&shard.shard_id, &shard.after.load, is))
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

fn compared(shard_id: &ShardId, predicted: &Resources, measured: &Resources) -> ShardOutcome {
    let errors = Dimension::ALL
        .into_iter()
        .filter(|dimension| predicted[*dimension] > 0.0)
        .map(|dimension| {
            let said = predicted[dimension];
            (dimension, (measured[dimension] - said) / said)
        });
    ShardOutcome {
        shard_id: shard_id.clone(),
        predicted: *predicted,
        measured: *measured,
        errors: errors.collect(),
    }
}
