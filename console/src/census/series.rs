//! Every shard's rates over the last minutes, for charts. What was measured before this
//! process started comes from the recorded load.

use std::collections::{BTreeMap, VecDeque};

use ballast_control_plane::load::history::ShardSeries;
use ballast_domain::{ShardId, Timestamp};
use serde::Serialize;

use super::count::FleetFigures;
use crate::page::format::whole;

/// How far charts reach back, in milliseconds.
pub(super) const SPAN_MS: i64 = 300_000;

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

    /// Puts recorded load before the first sample. Times at which a write took long are
    /// not recorded.
    pub(crate) fn prepend_recorded(&mut self, recorded: &[ShardSeries]) {
        let mut rates: BTreeMap<i64, BTreeMap<ShardId, u64>> = BTreeMap::new();
        for shard in recorded {
            for point in &shard.points {
                let rate = whole(point.rates.votes_per_second);
                let at = rates.entry(point.at.unix_ms()).or_default();
                at.insert(shard.shard_id.clone(), rate);
            }
        }
        let first = self.0.front().map_or(i64::MAX, |sample| sample.at_ms);
        for (at_ms, rate) in rates.into_iter().rev().filter(|(at, _)| *at < first) {
            self.0.push_front(RateSample {
                at_ms,
                rate,
                commit_micros: BTreeMap::new(),
            });
        }
    }

    pub(crate) fn all(&self) -> Vec<RateSample> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use ballast_control_plane::load::Rates;
    use ballast_control_plane::load::history::ShardPoint;

    use super::*;

    #[test]
    fn recorded_load_comes_before_what_is_measured_now() {
        let shard: ShardId = "shard-1".parse().unwrap();
        let point = |at, votes_per_second| ShardPoint {
            at: Timestamp::from_unix_ms(at),
            rates: Rates {
                votes_per_second,
                ..Rates::default()
            },
            io_wait: None,
            vote_latency: None,
            query_latency: None,
        };
        let recorded = ShardSeries {
            shard_id: shard.clone(),
            points: vec![point(0, 12.0), point(10_000, 34.4), point(20_000, 7.0)],
        };
        let mut series = Series::default();
        series.add(Timestamp::from_unix_ms(15_000), &FleetFigures::default());
        series.prepend_recorded(&[recorded]);
        let all = series.all();
        let times: Vec<_> = all.iter().map(|sample| sample.at_ms).collect();
        assert_eq!(times, [0, 10_000, 15_000]);
        assert_eq!(all[1].rate[&shard], 34);
    }
}
