//! `[load]`: what is measured, what shards can do, and how much is kept.

use ballast_control_plane::load::LoadSettings;
use ballast_hotspot_detector::cost::PriceList;
use ballast_hotspot_detector::resources::Resources;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is measured, what shards can do, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Load {
    /// Whether load is measured at all: without it there are no hotspots. A
    /// change takes effect at the next start.
    pub(crate) measure: bool,
    /// Votes per second that a shard of weight 1 can take; 0 for no limit. One
    /// of weight 2 can do twice as much, and so on for what follows.
    #[schemars(range(min = 0.0))]
    pub(crate) votes_per_second: f64,
    /// Queries per second that it can answer; 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub(crate) queries_per_second: f64,
    /// Bytes of bodies per second, in and out; 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub(crate) bytes_per_second: f64,
    /// GiB that it can store; 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub(crate) storage_gib: f64,
    /// Calls at a time; 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub(crate) concurrency: f64,
    /// MiB of recorded load that are kept at the most; the oldest goes first. A
    /// change takes effect at the next start.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(crate) record_mib_max: u64,
    /// What a million votes cost a tenant, in your currency.
    #[schemars(range(min = 0.0))]
    pub(crate) price_per_million_votes: f64,
    /// What a million queries cost.
    #[schemars(range(min = 0.0))]
    pub(crate) price_per_million_queries: f64,
    /// What a GiB stored over a month of 30 days costs.
    #[schemars(range(min = 0.0))]
    pub(crate) price_per_gib_month: f64,
    /// What a GiB copied by moves costs.
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
    /// As the control plane wants it.
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

    /// The first thing that cannot be, with its key.
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
