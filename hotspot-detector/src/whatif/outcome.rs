//! What was predicted beside what was measured: kept with the plan, so that
//! anyone can see how far its word can be trusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;

use crate::plan::Plan;
use crate::resources::{Dimension, Resources};

/// How a plan turned out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
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

/// How one shard turned out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardOutcome {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// What was said.
    pub predicted: Resources,
    /// What is.
    pub measured: Resources,
    /// By how much it is off in each dimension, as a share of what was said;
    /// dimensions of which nothing was said are left out.
    pub errors: BTreeMap<Dimension, f64>,
}

impl Outcome {
    /// Compares a plan with what is measured after it. A shard that is not
    /// measured is left out.
    #[must_use]
    pub fn of(plan: &Plan, measured: &BTreeMap<ShardId, Resources>, at: Timestamp) -> Self {
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
