//! Moving many slices: draining a shard, or rebalancing the fleet.
//!
//! ```text
//!   plan        dry run: which slices would move where, at what cost
//!   drain       empties a draining shard, a few slices at a time
//!   rebalance   brings every shard under its limits, following the planner
//!   tasks       tasks of the workflow `drain-shard`
//!   move_slice  one migration of either, until its slice has left
//! ```
//! A drain has no record of its own: the shard's state `draining` is the intent.
//! An execution starts migrations while the shard is in that state, and ends by
//! itself when it is not. Each migration has its own record and certificate.

pub mod drain;
mod move_slice;
pub mod plan;
pub mod rebalance;
pub mod tasks;

use ballast_domain::{Error, Result};
use ballast_state_machines::store::{ExecutionQuery, StoredStatus};
use serde::{Deserialize, Serialize};

use crate::intent::Intent;
use crate::migrations::begin::check_reason_to_start_now;
use crate::plane::ControlPlane;
use crate::validate;
use crate::workflows::{engine, store_unavailable};

/// Maximum number of concurrent migrations.
pub const CONCURRENCY_MAX: u64 = 100;
/// Longest dual-read window; anything longer is considered a mistake.
const WINDOW_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Maximum number of running executions to search.
const RUNNING_MAX: usize = 1_000;

/// How to run the migrations.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Manner)]
#[into_params(parameter_in = Query)]
pub struct MigrationOptions {
    /// Maximum number of concurrent migrations; the limit per shard when absent.
    #[schema(minimum = 1, maximum = 100)]
    #[param(minimum = 1, maximum = 100)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// How long both copies are kept after each cutover, in milliseconds.
    #[schema(maximum = 2_592_000_000_u64)]
    #[param(maximum = 2_592_000_000_u64)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Whether, within these windows, writes are acknowledged only when both copies
    /// have them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
    /// Whether they begin outside of the maintenance windows, too. Requires a reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
}

impl MigrationOptions {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(concurrency) = self.concurrency {
            validate::count("/concurrency", concurrency, CONCURRENCY_MAX)?;
        }
        if self.window_ms.is_some_and(|window| window > WINDOW_MAX_MS) {
            let message = format!("it is longer than {} days", WINDOW_MAX_MS / 86_400_000);
            return Err(Error::invalid_field("/windowMs", message));
        }
        Ok(())
    }

    /// Checks a request that starts migrations.
    pub(crate) fn check_request(&self, intent: &Intent) -> Result<()> {
        self.check()?;
        check_reason_to_start_now(self.now, intent)
    }

    pub(crate) fn window_or_default(&self, plane: &ControlPlane) -> u64 {
        let usual = plane.settings().moves.window_ms;
        self.window_ms.unwrap_or(usual)
    }

    pub(crate) fn concurrency_or_default(&self, plane: &ControlPlane) -> u64 {
        let usual = plane.settings().moves.per_shard_max;
        self.concurrency.unwrap_or(usual).clamp(1, CONCURRENCY_MAX)
    }
}

/// The running execution of a workflow whose name has this prefix; the last one if
/// there are several.
async fn find_running(
    plane: &ControlPlane,
    workflow: &str,
    prefix: &str,
) -> Result<Option<String>> {
    let query = ExecutionQuery {
        workflow: Some(workflow.to_owned()),
        status: Some(StoredStatus::Running),
        before: None,
        limit: RUNNING_MAX,
    };
    let found = engine(plane)?
        .list(&query)
        .await
        .map_err(store_unavailable)?;
    let prefix = format!("{workflow}:{prefix}");
    let ids = found.into_iter().map(|row| row.id);
    Ok(ids.filter(|id| id.starts_with(&prefix)).max())
}
