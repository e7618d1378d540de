//! Settings of the diagnosis.

use ballast_domain::bounds::{LANES_DEFAULT, LANES_MAX};
use serde::{Deserialize, Serialize};

/// Limits and prices of the diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiagnosisSettings {
    /// The fill above which a shard is too full, in any dimension.
    pub level: f64,
    /// The fill over the long window above which data is moved. Above `level`, so that a load
    /// that swings around it moves nothing.
    pub sure: f64,
    /// The fill to which a shard is relieved. Below `level`, so that the next gust does not make
    /// it a hotspot again.
    pub aim: f64,
    /// A tenant's fair share of a shard.
    pub fair_share: f64,
    /// A tenant with this share of the shard's load is the cause by itself.
    pub dominant_share: f64,
    /// Keys with a smaller share of the shard's calls are ignored.
    pub key_share: f64,
    /// The share of rejected calls from which a key is abusive.
    pub refused_share: f64,
    /// The multiple of its tenant's limit from which a key is abusive.
    pub over_limit: f64,
    /// The capacity of one lane, in votes per second.
    pub lane_votes_max: f64,
    /// The share of that capacity from which a lane is hot.
    pub lane_hot: f64,
    /// The load of a lane after a cure, as a share of its capacity.
    pub lane_level: f64,
    /// The minimum number of lanes.
    pub lanes_min: u16,
    /// The maximum number of lanes.
    pub lanes_max: u16,
    /// A shard whose writes wait although its fill is below this is sick, not busy.
    pub sick_fill: f64,
    /// Bytes per second that a migration copies.
    pub move_bytes_per_second: f64,
    /// The duration of the smallest migration, in milliseconds.
    pub move_overhead_ms: u64,
    /// The most slices moved for one hotspot.
    pub moves_max: usize,
    /// How long a cure's effect is observed before it is judged, in milliseconds.
    pub judge_ms: u64,
    /// After this time an unfinished cure no longer blocks others, in milliseconds.
    pub give_up_ms: u64,
    /// How long after a cure its slice is not moved and its tenant not split again, and
    /// how long a cure that did not help and a plan that was rejected are not repeated, in
    /// milliseconds.
    pub rest_ms: u64,
}

impl Default for DiagnosisSettings {
    fn default() -> Self {
        Self {
            level: 0.75,
            sure: 0.80,
            aim: 0.65,
            fair_share: 0.30,
            dominant_share: 0.5,
            key_share: 0.3,
            refused_share: 0.5,
            over_limit: 1.2,
            lane_votes_max: 1_000.0,
            lane_hot: 0.7,
            lane_level: 0.4,
            lanes_min: LANES_DEFAULT,
            lanes_max: LANES_MAX,
            sick_fill: 0.5,
            move_bytes_per_second: 50e6,
            move_overhead_ms: 30_000,
            moves_max: 16,
            judge_ms: 600_000,
            give_up_ms: 7_200_000,
            rest_ms: 3_600_000,
        }
    }
}

impl DiagnosisSettings {
    /// The expected duration of moving this many bytes, in milliseconds.
    #[must_use]
    pub fn price_ms(&self, bytes: f64, moves: usize) -> u64 {
        let copying = bytes / self.move_bytes_per_second.max(1.0) * 1_000.0;
        self.move_overhead_ms * moves as u64 + copying as u64
    }
}
