//! `[load]`: what is measured, the capacity of shards, and how much is recorded.

use ballast_control_plane::load::LoadSettings;
use ballast_hotspot_detector::cost::PriceList;
use ballast_hotspot_detector::resources::Resources;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is measured, the capacity of shards, and how much is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Load {
    /// Whether to measure load; hotspots need it. A change takes effect after a restart.
    pub(crate) measure: bool,
    /// Votes per second that a shard of weight 1 is rated at; 0 for no limit. A shard of weight 2
    /// has twice the capacity; this holds for all capacities below.
    #[schemars(range(min = 0.0))]
    pub(crate) votes_per_second: f64,
    /// Queries per second that it is rated at; 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub(crate) queries_per_second: f64,
    /// Bytes of bodies per second, in and out; 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub(crate) bytes_per_second: f64,
    /// GiB of storage; 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub(crate) storage_gib: f64,
    /// Concurrent calls; 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub(crate) concurrency: f64,
    /// Maximum MiB of recorded load; the oldest is removed first. A change takes effect after a
    /// restart.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(crate) record_mib_max: u64,
    /// Price of a million votes, in your currency.
    #[schemars(range(min = 0.0))]
    pub(crate) price_per_million_votes: f64,
    /// Price of a million queries.
    #[schemars(range(min = 0.0))]
    pub(crate) price_per_million_queries: f64,
    /// Price of a GiB stored for a month of 30 days.
    #[schemars(range(min = 0.0))]
    pub(crate) price_per_gib_month: f64,
    /// Price of a GiB copied by migrations.
    #[schemars(range(min = 0.0))]
    pub(crate) price_per_gib_moved: f64,
}

const GIB: f64 = (1_u64 << 30) as f64;

impl Default for Load {
    fn default() -> Self {
        let Resources {
            votes,
            queries,
            bytes,
            storage,
            concurrency,
        } = LoadSettings::default().capacity;
        Self {
            measure: true,
            votes_per_second: votes,
            queries_per_second: queries,
            bytes_per_second: bytes,
            storage_gib: storage / GIB,
            concurrency,
            record_mib_max: 512,
            price_per_million_votes: 0.0,
            price_per_million_queries: 0.0,
            price_per_gib_month: 0.0,
            price_per_gib_moved: 0.0,
        }
    }
}

impl Load {
    /// Converts to the control plane's settings.
    pub(crate) fn settings(&self) -> LoadSettings {
        LoadSettings {
            capacity: Resources {
                votes: self.votes_per_second,
                queries: self.queries_per_second,
                bytes: self.bytes_per_second,
                storage: self.storage_gib * GIB,
                concurrency: self.concurrency,
            },
            prices: PriceList {
                per_million_votes: self.price_per_million_votes,
                per_million_queries: self.price_per_million_queries,
                per_gib_month: self.price_per_gib_month,
                per_gib_moved: self.price_per_gib_moved,
            },
        }
    }

    /// The first invalid value, with its key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, amount) in [
            ("load.votes_per_second", self.votes_per_second),
            ("load.queries_per_second", self.queries_per_second),
            ("load.bytes_per_second", self.bytes_per_second),
            ("load.storage_gib", self.storage_gib),
            ("load.concurrency", self.concurrency),
            ("load.price_per_million_votes", self.price_per_million_votes),
            (
                "load.price_per_million_queries",
                self.price_per_million_queries,
            ),
            ("load.price_per_gib_month", self.price_per_gib_month),
            ("load.price_per_gib_moved", self.price_per_gib_moved),
        ] {
            if !(0.0..=1e18).contains(&amount) {
                return Err((key, "must be 0 or more".to_owned()));
            }
        }
        if !(1..=1_048_576).contains(&self.record_mib_max) {
            return Err((
                "load.record_mib_max",
                "must be from 1 to 1048576".to_owned(),
            ));
        }
        Ok(())
    }
}
