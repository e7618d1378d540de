//! The parameters of a generated fleet.

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;

/// The shape of a fleet. The same shape and seed give the same fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FleetShape {
    /// The random seed.
    pub seed: u64,
    /// The number of tenants.
    pub tenants: u64,
    /// The number of shards.
    pub shards: u32,
    /// The number of regions; shards are assigned in turn.
    pub regions: u32,
    /// The number of zones; shards are assigned in turn.
    pub zones: u32,
    /// The share of tenants that require a zone.
    pub zoned: f64,
    /// The share of tenants that may also be in a second region.
    pub permitted: f64,
    /// The share of tenants whose dial is not active.
    pub dialled: f64,
    /// The share of shards that are twice as large.
    pub heavy_shards: f64,
    /// The fill of the fleet on an average day.
    pub fill: f64,
    /// The exponent of Zipf's law for load: 0 is even, 1 is steep.
    pub skew: f64,
    /// The amplitude of the daily season: 0 to 1.
    pub swing: f64,
    /// The chance that a tenant has a flash crowd in a given hour.
    pub crowds: f64,
    /// The load factor of a flash crowd.
    pub crowd_factor: f64,
    /// Storage growth per year: 1 doubles it.
    pub growth: f64,
    /// How tenants are placed.
    pub spread: SliceSpread,
    /// When the fleet was created.
    pub start: Timestamp,
}

/// How tenants are placed on shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SliceSpread {
    /// By placement score: costs a draw per tenant and shard.
    ByScore,
    /// At random on allowed shards: the cost does not depend on the number of shards.
    AtRandom,
}

impl Default for FleetShape {
    fn default() -> Self {
        Self {
            seed: 1,
            tenants: 1_000,
            shards: 10,
            regions: 1,
            zones: 1,
            zoned: 0.0,
            permitted: 0.0,
            dialled: 0.0,
            heavy_shards: 0.0,
            fill: 0.55,
            skew: 0.8,
            swing: 0.4,
            crowds: 0.0,
            crowd_factor: 20.0,
            growth: 0.5,
            spread: SliceSpread::ByScore,
            // A Sunday, so that days and weeks begin with it.
            start: Timestamp::from_unix_ms(1_735_430_400_000),
        }
    }
}
