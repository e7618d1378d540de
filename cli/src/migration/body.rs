//! The API's bodies of moves, as far as people are shown them.

use ballast_domain::migration::{self, Price, Status, Terms};
use serde::Deserialize;

/// A move.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Migration {
    #[serde(flatten)]
    pub(crate) record: migration::Migration,
    #[serde(default)]
    pub(crate) version: u64,
    pub(crate) status: Status,
    /// The state of the workflow that it is in, or ended in.
    pub(crate) phase: String,
    pub(crate) pause_ms: Option<u64>,
    #[serde(default)]
    pub(crate) progress: Progress,
}

impl Migration {
    /// Its name.
    pub(crate) fn id(&self) -> &str {
        &self.record.migration_id.0
    }
}

/// How far the present phase of a move is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress {
    #[serde(default)]
    pub(crate) done: u64,
    pub(crate) total: Option<u64>,
    #[serde(default)]
    pub(crate) unit: String,
    pub(crate) note: Option<String>,
    pub(crate) per_second: Option<u64>,
    pub(crate) eta_seconds: Option<u64>,
}

/// What a move would do.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    #[serde(rename = "tenantID")]
    pub(crate) tenant_id: String,
    pub(crate) slice: u32,
    #[serde(rename = "fromShardID")]
    pub(crate) from: String,
    #[serde(rename = "toShardID")]
    pub(crate) to: String,
    pub(crate) terms: Terms,
    pub(crate) price: Price,
    pub(crate) actions: Vec<Action>,
}

/// A thing that a move would do.
#[derive(Debug, Deserialize)]
pub(crate) struct Action {
    pub(crate) phase: String,
    pub(crate) action: String,
}
