//! The last minutes of every shard, for charts.

use std::collections::{BTreeMap, VecDeque};

use ballast_domain::{ShardId, Timestamp};
use serde::Serialize;

use super::count::Fleet;

/// Samples that are kept.
const KEPT: usize = 300;

/// What a chart shows of one moment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sample {
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// Votes per second, shard by shard.
    pub(crate) rate: BTreeMap<ShardId, u64>,
    /// How long a write takes to be durable, in microseconds.
    pub(crate) commit_micros: BTreeMap<ShardId, u64>,
}

/// The newest samples, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Series(VecDeque<Sample>);

impl Series {
    pub(crate) fn add(&mut self, at: Timestamp, fleet: &Fleet) {
        let rate = fleet
            .shards
            .iter()
            .map(|(id, shard)| (id.clone(), shard.rate));
        let commits = fleet.shards.iter().filter_map(|(id, shard)| {
            let micros = shard.usage.commit_micros?;
            Some((id.clone(), micros))
        });
        self.0.push_back(Sample {
            at_ms: at.unix_ms(),
            rate: rate.collect(),
            commit_micros: commits.collect(),
        });
        while self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    pub(crate) fn all(&self) -> Vec<Sample> {
        self.0.iter().cloned().collect()
    }
}
