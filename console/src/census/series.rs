//! Every shard's rates over the last minutes, for charts.

use std::collections::{BTreeMap, VecDeque};

use ballast_domain::{ShardId, Timestamp};
use serde::Serialize;

use super::count::FleetFigures;

/// Samples retained.
const SAMPLES_MAX: usize = 300;

/// What a chart shows of one moment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RateSample {
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// Votes per second, shard by shard.
    pub(crate) rate: BTreeMap<ShardId, u64>,
    /// How long a write takes to be durable, in microseconds.
    pub(crate) commit_micros: BTreeMap<ShardId, u64>,
}

/// The newest samples, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Series(VecDeque<RateSample>);

impl Series {
    pub(crate) fn add(&mut self, at: Timestamp, fleet: &FleetFigures) {
        let rate = fleet
            .shards
            .iter()
            .map(|(id, shard)| (id.clone(), shard.rate));
        let commits = fleet.shards.iter().filter_map(|(id, shard)| {
            let micros = shard.usage.commit_micros?;
            Some((id.clone(), micros))
        });
        self.0.push_back(RateSample {
            at_ms: at.unix_ms(),
            rate: rate.collect(),
            commit_micros: commits.collect(),
        });
        while self.0.len() > SAMPLES_MAX {
            self.0.pop_front();
        }
    }

    pub(crate) fn all(&self) -> Vec<RateSample> {
        self.0.iter().cloned().collect()
    }
}
