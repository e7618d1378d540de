//! Many moves at once: a shard is emptied, or every slice is brought where it
//! belongs.
//!
//! ```text
//!   plan      which slices go where, and what that costs: nothing is done
//!   drain     a shard that is draining is emptied, a few moves at a time
//!   rebalance every shard is brought under its limits, by the planner's word
//!   tasks     what the workflow `drain-shard` has done
//! ```
//! A drain has no record of its own. That a shard is to be emptied is its
//! state, `draining`; an execution plans moves for as long as it is so, and
//! ends by itself when it is not. Each move is a whole move, with its own
//! record and certificate.

pub mod drain;
pub mod plan;
pub mod rebalance;
pub mod tasks;

use ballast_domain::{Error, Result};
use ballast_state_machines::store::{Query, Status};
use serde::{Deserialize, Serialize};

use crate::plane::ControlPlane;
use crate::validate;
use crate::workflows::{away, engine};

/// Moves at the same time, at the most.
pub const AT_ONCE_MAX: u64 = 100;
/// A window longer than this is a mistake.
const WINDOW_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Executions of one workflow that run, looked at the most.
const RUNNING_MAX: usize = 1_000;

/// How many moves are to be made.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manner {
    /// How many moves at the same time; as many as a shard may have when
    /// absent.
    #[schema(minimum = 1, maximum = 100)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// How long both sides are kept after each cutover, in milliseconds.
    #[schema(maximum = 2_592_000_000_u64)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Whether, within these windows, a write is acknowledged only when both sides
    /// have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
}

impl Manner {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(concurrency) = self.concurrency {
            validate::count("/concurrency", concurrency, AT_ONCE_MAX)?;
        }
        if self.window_ms.is_some_and(|window| window > WINDOW_MAX_MS) {
            let message = format!("it is longer than {} days", WINDOW_MAX_MS / 86_400_000);
            return Err(Error::invalid_field("/windowMs", message));
        }
        Ok(())
    }

    pub(crate) fn at_once(&self, plane: &ControlPlane) -> u64 {
        let usual = plane.settings().moves.per_shard_max;
        self.concurrency.unwrap_or(usual).clamp(1, AT_ONCE_MAX)
    }
}

/// The execution of a workflow that runs under a name that begins so, if one
/// does; of several the last one.
async fn running(plane: &ControlPlane, workflow: &str, prefix: &str) -> Result<Option<String>> {
    let query = Query {
        workflow: Some(workflow.to_owned()),
        status: Some(Status::Running),
        before: None,
        limit: RUNNING_MAX,
    };
    let found = engine(plane)?.list(&query).await.map_err(away)?;
    let prefix = format!("{workflow}:{prefix}");
    let ids = found.into_iter().map(|row| row.id);
    Ok(ids.filter(|id| id.starts_with(&prefix)).max())
}
