//! Slices that are not where they belong are moved there: what placement
//! decides, not what load says.

use ballast_domain::Result;
use serde::Serialize;
use serde_json::json;

use super::plan::{self, FleetPlan, Of};
use super::{Manner, running};
use crate::intent::Intent;
use crate::migrations::begin::fresh;
use crate::plane::ControlPlane;
use crate::workflows::executions::{self, NewExecution};

/// The workflow that does it.
pub const WORKFLOW: &str = "rebalance";
/// Moves of one run, at the most: what is left is planned by the next.
pub(super) const MOVES_MAX: usize = 1_000;

/// Which slices are not where they belong, and whether they are being moved.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceBody {
    /// The execution that moves them, while there is one.
    #[serde(rename = "executionID", skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Which slices would go where.
    pub plan: FleetPlan,
}

/// Which slices are not where they belong.
pub async fn show(plane: &ControlPlane) -> Result<RebalanceBody> {
    let execution_id = running(plane, WORKFLOW, "").await?;
    let plan = plan::slices(plane, &Of::Drift, MOVES_MAX).await?;
    Ok(RebalanceBody {
        execution_id,
        plan: plan::priced(plane, plan).await?,
    })
}

/// Has them moved there.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    manner: &Manner,
) -> Result<RebalanceBody> {
    manner.check()?;
    if running(plane, WORKFLOW, "").await?.is_none() {
        let new = NewExecution {
            workflow: WORKFLOW.to_owned(),
            name: Some(fresh(plane).0),
            input: json!({
                "concurrency": manner.concurrency,
                "windowMs": manner.window_ms,
                "reason": intent.reason,
            }),
        };
        executions::start(plane, intent, new).await?;
    }
    show(plane).await
}
