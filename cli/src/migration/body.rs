//! The parts of the API's migration bodies that the views show.

use ballast_domain::migration::{self, MigrationEstimate, MigrationStatus, MigrationTerms};
use serde::Deserialize;

use crate::view::finish::FinishBody;

/// A migration.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MigrationBody {
    #[serde(flatten)]
    pub(crate) record: migration::Migration,
    #[serde(default)]
    pub(crate) version: u64,
    pub(crate) status: MigrationStatus,
    /// The workflow state that it is in, or ended in.
    pub(crate) phase: String,
    pub(crate) pause_ms: Option<u64>,
    #[serde(default)]
    pub(crate) progress: MigrationProgressBody,
}

impl MigrationBody {
    /// Its name.
    pub(crate) fn id(&self) -> &str {
        &self.record.migration_id.0
    }
}

/// The progress of the current phase.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MigrationProgressBody {
    #[serde(default)]
    pub(crate) done: u64,
    pub(crate) total: Option<u64>,
    #[serde(default)]
    pub(crate) unit: String,
    pub(crate) note: Option<String>,
    pub(crate) per_second: Option<u64>,
    pub(crate) eta_seconds: Option<u64>,
}

/// The plan of a dry run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MovePlanBody {
    #[serde(rename = "tenantID")]
    pub(crate) tenant_id: String,
    pub(crate) slice: u32,
    #[serde(rename = "fromShardID")]
    pub(crate) from: String,
    #[serde(rename = "toShardID")]
    pub(crate) to: String,
    pub(crate) terms: MigrationTerms,
    pub(crate) price: MigrationEstimate,
    #[serde(default)]
    pub(crate) finish: FinishBody,
    pub(crate) actions: Vec<PlannedAction>,
}

/// One step of the plan.
#[derive(Debug, Deserialize)]
pub(crate) struct PlannedAction {
    pub(crate) phase: String,
    pub(crate) action: String,
}
