//! What a diagnosis goes by.

use ballast_domain::bounds::{LANES_DEFAULT, LANES_MAX};
use serde::{Deserialize, Serialize};

/// Limits and prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Fuller than this in any dimension a shard is too full.
    pub level: f64,
    /// How full it must be over the long window before data is moved. More than
    /// the level, so that what swings around it moves nothing.
    pub sure: f64,
    /// How full a shard that is relieved may be afterwards. Less than the level,
    /// or the next gust would make it a hotspot again.
    pub aim: f64,
    /// What a tenant may use of a shard.
    pub fair_share: f64,
    /// A tenant with this much of what a shard uses is the cause by itself.
    pub dominant_share: f64,
    /// A key with less of its shard's calls is not looked at.
    pub key_share: f64,
    /// A key of whose calls so many are refused is abusive.
    pub refused_share: f64,
    /// A key is abusive at so many times its tenant's limit.
    pub over_limit: f64,
    /// Votes a second that one lane of a counter can take.
    pub lane_votes_max: f64,
    /// A lane is hot from this share of that on.
    pub lane_hot: f64,
    /// How busy a lane is to be after a cure.
    pub lane_level: f64,
    /// Fewer lanes than this are not made.
    pub lanes_min: u16,
    /// More lanes than this are not made.
    pub lanes_max: u16,
    /// A shard whose writes wait while it is less full than this is sick, not
    /// busy.
    pub sick_fill: f64,
    /// Bytes a second that a move copies.
    pub move_bytes_per_second: f64,
    /// What a move takes however small it is, in milliseconds.
    pub move_overhead_ms: u64,
    /// Slices that are moved for one hotspot at the most.
    pub moves_max: usize,
    /// How long a cure is watched before it is judged, in milliseconds.
    pub judge_ms: u64,
    /// A cure that has not ended after so long holds nobody up, in milliseconds.
    pub give_up_ms: u64,
    /// How long a slice rests after a move, in milliseconds.
    pub rest_ms: u64,
}

impl Default for Settings {
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

impl Settings {
    /// How long moving so many bytes takes, in milliseconds.
    #[must_use]
    pub fn price_ms(&self, bytes: f64, moves: usize) -> u64 {
        let copying = bytes / self.move_bytes_per_second.max(1.0) * 1_000.0;
        self.move_overhead_ms * moves as u64 + copying as u64
    }
}
