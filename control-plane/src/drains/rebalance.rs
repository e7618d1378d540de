//! Rebalancing: brings every shard under its limits and every slice where it
//! belongs, following the planner, on an operator's request.

use ballast_domain::Result;
use ballast_hotspot_detector::plan::{Plan, PlannedMigration};
use serde::Serialize;

use super::MigrationOptions;
use crate::hotspots::plans::{self, NewPlan, PlanContent, relieved_shards};
use crate::hotspots::records::{PlanRecord, PlanStatus};
use crate::intent::Intent;
use crate::migrations::finish::{FinishEstimate, FinishTerms};
use crate::plane::ControlPlane;

/// What would be moved, and what is being moved.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceBody {
    /// The plan that is being carried out, if any.
    #[serde(rename = "planID", skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// Its execution, if any.
    #[serde(rename = "executionID", skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// What would be moved now: the moves, with price, schedule and predicted effect.
    #[schema(value_type = Object)]
    pub plan: Plan,
    /// When the last of them would be over.
    pub finish: FinishEstimate,
    /// The same as text.
    pub letter: String,
}

/// What would be moved now, on these terms.
pub async fn show(plane: &ControlPlane, options: &MigrationOptions) -> Result<RebalanceBody> {
    options.check()?;
    let open = find_running_plan(plane).await?;
    let options = &open
        .as_ref()
        .map_or_else(|| options.clone(), PlanRecord::options);
    let plan = plans::draft_all(plane, options).await?;
    Ok(RebalanceBody {
        execution_id: open.as_ref().and_then(|open| open.execution_id.clone()),
        plan_id: open.map(|open| open.plan_id),
        finish: finish(plane, &plan, options),
        letter: plan.to_string(),
        plan,
    })
}

/// When a plan's migrations would be over.
fn finish(plane: &ControlPlane, plan: &Plan, options: &MigrationOptions) -> FinishEstimate {
    let settings = plane.settings();
    let at_once = match plan.moves.iter().any(|it| !it.waits_for.is_empty()) {
        // They make room for each other, so they run one after the other.
        true => 1,
        false => options.concurrency_or_default(plane),
    };
    let window_ms = options.window_or_default(plane);
    let terms = FinishTerms::new(&settings.moves, at_once, window_ms, options.now);
    let lasts = |it: &PlannedMigration| it.cutover_at.unix_ms() - it.begins_at.unix_ms();
    let durations: Vec<_> = plan
        .moves
        .iter()
        .map(|it| lasts(it).unsigned_abs())
        .collect();
    let approvals = plan.moves.iter().filter(|it| it.needs_approval.is_some());
    terms.estimate(&durations, approvals.count() as u64, plane.now())
}

/// The requested plan that is still being carried out, if any.
async fn find_running_plan(plane: &ControlPlane) -> Result<Option<PlanRecord>> {
    let open = plans::list_open(plane)
        .await?
        .into_iter()
        .map(|plan| plan.value);
    let mut asked = open.filter(|plan| {
        let moves = matches!(plan.status, PlanStatus::Approved | PlanStatus::Running);
        plan.hotspot_id.is_none() && moves
    });
    Ok(asked.next())
}

/// Carries out a rebalance.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    options: &MigrationOptions,
) -> Result<RebalanceBody> {
    options.check_request(intent)?;
    if find_running_plan(plane).await?.is_some() {
        return show(plane, options).await;
    }
    let plan = plans::draft_all(plane, options).await?;
    if plan.moves.is_empty() {
        return show(plane, options).await;
    }
    let new = NewPlan {
        hotspot_id: None,
        shards: relieved_shards(&plan),
        content: PlanContent::Moves(plan.clone()),
        options: options.clone(),
        approved: true,
    };
    let made = plans::create(plane, intent, new).await?.value;
    Ok(RebalanceBody {
        execution_id: Some(plans::execution_id(&made.plan_id)),
        plan_id: Some(made.plan_id),
        finish: finish(plane, &plan, options),
        letter: plan.to_string(),
        plan,
    })
}
