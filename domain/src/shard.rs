//! A shard: stores the votes of many tenants.
//!
//! ```text
//!            ┌────────► draining ◄────┐
//!   added ──►│ active                 │ down
//!            └────────► down ◄────────┘
//! ```
//! Only an active shard takes slices. A draining shard continues to serve its slices while
//! they are moved away. A shard that is down serves nothing.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::id::{RegionId, ShardId, ZoneId};

/// A shard's record in the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shard {
    /// Its id.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The location of its data, such as `file:shards/shard-1`. It contains no secret.
    #[schema(example = "file:shards/shard-1")]
    pub url: String,
    /// Its region.
    pub region: RegionId,
    /// Its tags.
    pub zones: Vec<ZoneId>,
    /// Its relative capacity: a shard with weight 2 gets twice the tenants of a shard with
    /// weight 1.
    #[schema(minimum = 0.001, maximum = 1_000_000)]
    pub weight: f64,
    /// Whether it takes slices.
    pub state: ShardState,
    /// The most slices it may hold (its density limit).
    #[schema(minimum = 1, maximum = 100_000_000)]
    pub max_slices: u64,
    /// Whether it is calm or busy.
    pub pressure: Pressure,
    /// When it was added.
    pub created_at: Timestamp,
}

/// Whether a shard takes slices.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum ShardState {
    /// Serves and takes new slices.
    #[default]
    Active,
    /// Serves its slices, takes no new ones, and is being emptied.
    Draining,
    /// Serves nothing.
    Down,
}

impl ShardState {
    /// The state's name, as in its JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Down => "down",
        }
    }
}

/// Whether a shard is filling up. This is a recorded state with two thresholds and not a
/// comparison at each placement, so that a shard near a threshold does not flap with every
/// tenant.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Pressure {
    /// It has room: new tenants are placed by its full weight.
    #[default]
    Calm,
    /// It is filling up: it gets fewer new tenants. Its current tenants stay.
    Busy,
}

/// The thresholds of a shard's pressure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PressureThresholds {
    /// A calm shard becomes busy at or above this utilisation.
    pub busy_at: f64,
    /// A busy shard becomes calm at or below this utilisation.
    pub calm_at: f64,
}

impl Default for PressureThresholds {
    fn default() -> Self {
        Self {
            busy_at: 0.80,
            calm_at: 0.65,
        }
    }
}

impl Pressure {
    /// The share of its weight that counts when a *new* slice is placed.
    pub fn preference(self) -> f64 {
        match self {
            Self::Calm => 1.0,
            Self::Busy => 0.25,
        }
    }

    /// The state after this utilisation was measured; unchanged between the thresholds.
    #[must_use]
    pub fn after(self, utilisation: f64, thresholds: PressureThresholds) -> Self {
        match self {
            Self::Calm if utilisation >= thresholds.busy_at => Self::Busy,
            Self::Busy if utilisation <= thresholds.calm_at => Self::Calm,
            unchanged => unchanged,
        }
    }

    /// The state's name, as in its JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Busy => "busy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_does_not_flap_around_a_threshold() {
        let thresholds = PressureThresholds::default();
        let mut pressure = Pressure::Calm;
        let mut changes = 0;
        for step in 0..1_000 {
            let utilisation = 0.80 + if step % 2 == 0 { 0.01 } else { -0.01 };
            let next = pressure.after(utilisation, thresholds);
            changes += usize::from(next != pressure);
            pressure = next;
        }
        assert_eq!((pressure, changes), (Pressure::Busy, 1));
        assert_eq!(pressure.after(0.65, thresholds), Pressure::Calm);
    }
}
