//! Every shard is brought under its limits, and every slice where it belongs:
//! the planner's word, over all shards, carried out when somebody asks for it.

use ballast_domain::Result;
use ballast_hotspot_detector::plan::Plan;
use serde::Serialize;

use super::Manner;
use crate::hotspots::plans::{self, Content, NewPlan, relieved};
use crate::hotspots::records::{PlanRecord, PlanStatus};
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// What would be moved, and what is being moved.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceBody {
    /// The plan that is being carried out, while there is one.
    #[serde(rename = "planID", skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// The execution that moves them, while there is one.
    #[serde(rename = "executionID", skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// What would be moved now: the moves with price, schedule and predicted
    /// effect.
    #[schema(value_type = Object)]
    pub plan: Plan,
    /// The same as a letter.
    pub letter: String,
}

/// What would be moved now.
pub async fn show(plane: &ControlPlane) -> Result<RebalanceBody> {
    let open = under_way(plane).await?;
    let plan = plans::draft_all(plane).await?;
    Ok(RebalanceBody {
        execution_id: open.as_ref().and_then(|open| open.execution_id.clone()),
        plan_id: open.map(|open| open.plan_id),
        letter: plan.to_string(),
        plan,
    })
}

/// The plan that somebody asked for and that is not over.
async fn under_way(plane: &ControlPlane) -> Result<Option<PlanRecord>> {
    let open = plans::open(plane).await?.into_iter().map(|plan| plan.value);
    let mut asked = open.filter(|plan| {
        let moves = matches!(plan.status, PlanStatus::Approved | PlanStatus::Running);
        plan.hotspot_id.is_none() && moves
    });
    Ok(asked.next())
}

/// Has it carried out.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    manner: &Manner,
) -> Result<RebalanceBody> {
    manner.check()?;
    if under_way(plane).await?.is_some() {
        return show(plane).await;
    }
    let plan = plans::draft_all(plane).await?;
    if plan.moves.is_empty() {
        return show(plane).await;
    }
    let new = NewPlan {
        hotspot_id: None,
        shards: relieved(&plan),
        content: Content::Moves(plan.clone()),
        manner: manner.clone(),
        approved: true,
    };
    let made = plans::make(plane, intent, new).await?.value;
    Ok(RebalanceBody {
        execution_id: Some(plans::execution(&made.plan_id)),
        plan_id: Some(made.plan_id),
        letter: plan.to_string(),
        plan,
    })
}
