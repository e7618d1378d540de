//! Tasks of the workflow `rebalance`: waits for a plan's approval, names its
//! migrations, and measures the effect at the end.

use std::collections::BTreeSet;

use ballast_domain::error::ErrorCategory;
use ballast_domain::{Error, ErrorCode};
use ballast_hotspot_detector::whatif::PlanOutcome;
use ballast_state_machines::engine::{HandlerRegistry, TaskContext, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::plan_progress::collect_measured_use;
use super::plans::{self, change};
use super::records::{PlanRecord, PlanStatus};
use crate::change::IfMatch;
use crate::intent::Intent;
use crate::migrations::begin::new_migration_id;
use crate::plane::ControlPlane;

/// Name of errors that are retried.
const UNAVAILABLE: &str = "Ballast.Unavailable";
const REFUSED: &str = "Ballast.Refused";
/// How often a plan that waits for approval is checked.
const RETRY_SECONDS: u64 = 2;

/// The workflow's input.
#[derive(Debug, Clone, Deserialize)]
struct RebalanceInput {
    #[serde(rename = "planID")]
    plan_id: String,
}

/// Registers the tasks of this workflow.
#[must_use]
pub fn register_plan_tasks(registry: HandlerRegistry, plane: &ControlPlane) -> HandlerRegistry {
    let (one, two) = (plane.clone(), plane.clone());
    registry
        .with_function(
            "PlanRebalance",
            move |input: RebalanceInput, _: TaskContext| {
                let plane = one.clone();
                async move {
                    plan_rebalance(&plane, &input.plan_id)
                        .await
                        .map_err(to_task_error)
                }
            },
        )
        .with_function(
            "MeasureEffect",
            move |input: RebalanceInput, _: TaskContext| {
                let plane = two.clone();
                async move {
                    measure_effect(&plane, &input.plan_id)
                        .await
                        .map_err(to_task_error)
                }
            },
        )
}

fn to_task_error(error: Error) -> TaskError {
    let name = match error.code().kind() {
        ErrorCategory::Unavailable | ErrorCategory::Internal | ErrorCategory::TooMany => {
            UNAVAILABLE
        }
        _ => REFUSED,
    };
    TaskError::new(name, error.to_string())
}

/// The status of a plan and, once approved, its moves.
async fn plan_rebalance(plane: &ControlPlane, id: &str) -> Result<Value, Error> {
    let plan = plans::get(plane, id).await?.value;
    let verdict = match plan.status {
        PlanStatus::Proposed => "waits",
        PlanStatus::Approved | PlanStatus::Running | PlanStatus::Judging => "approved",
        PlanStatus::Done | PlanStatus::Rejected | PlanStatus::Expired | PlanStatus::Failed => {
            "rejected"
        }
    };
    let plan = match verdict {
        "approved" => assign_migration_ids(plane, plan).await?,
        _ => plan,
    };
    Ok(json!({
        "verdict": verdict,
        "reason": plan.note.clone().unwrap_or_else(|| format!("the plan is {}", plan.status.name())),
        "moves": migration_inputs(plane, &plan),
        "atOnce": concurrency(plane, &plan),
        "askAgainSeconds": RETRY_SECONDS,
        "judgeAfterSeconds": 1,
    }))
}

/// Assigns an id to each migration of a plan. This happens once, so that a retry
/// begins no second migration.
async fn assign_migration_ids(plane: &ControlPlane, plan: PlanRecord) -> Result<PlanRecord, Error> {
    let moves = plan.plan.as_ref().map_or(0, |it| it.moves.len());
    if plan.migrations.len() == moves {
        return Ok(plan);
    }
    let names: Vec<String> = (0..moves).map(|_| new_migration_id(plane).0).collect();
    let intent = Intent::ballast("rebalance", &plan.plan_id);
    let id = plan.plan_id.clone();
    let named = change(plane, &intent, &id, &IfMatch::Any, "plan.moves", |plan| {
        if plan.migrations.is_empty() {
            plan.migrations.clone_from(&names);
        }
        Ok(())
    });
    Ok(named.await?.value)
}

fn concurrency(plane: &ControlPlane, plan: &PlanRecord) -> u64 {
    let waits = |it: &ballast_hotspot_detector::plan::PlannedMigration| !it.waits_for.is_empty();
    // Moves that make room for others run one after the other.
    if plan.plan.iter().flat_map(|it| &it.moves).any(waits) {
        return 1;
    }
    plan.options().concurrency_or_default(plane)
}

/// The inputs of a plan's migrations, in the form that the workflow starts them.
fn migration_inputs(plane: &ControlPlane, plan: &PlanRecord) -> Vec<Value> {
    let window_ms = plan.options().window_or_default(plane);
    let planned = plan.plan.iter().flat_map(|it| &it.moves);
    let awaited: BTreeSet<u32> = planned
        .clone()
        .flat_map(|it| it.waits_for.clone())
        .collect();
    let named = (0..).zip(planned.zip(&plan.migrations));
    let asked = named.map(|(at, (planned, name))| {
        json!({
            "name": name,
            "makesRoom": awaited.contains(&at),
            "input": {
                "tenantID": planned.slice.tenant_id,
                "slice": planned.slice.slice,
                "fromShardID": planned.from,
                "toShardID": planned.to,
                "passedOverShardIDs": planned.passed_over,
                "windowMs": window_ms,
                "bothAcknowledge": plan.sync,
                "now": plan.now,
                "reason": plan.plan_id,
            },
        })
    });
    asked.collect()
}

/// Compares the predicted effect with what is measured.
async fn measure_effect(plane: &ControlPlane, id: &str) -> Result<Value, Error> {
    let record = plans::get(plane, id).await?.value;
    if let Some(outcome) = &record.outcome {
        return Ok(json!({ "outcome": outcome, "status": record.status }));
    }
    let Some(plan) = &record.plan else {
        return Err(Error::new(ErrorCode::PlanNotFound, "it has no moves"));
    };
    let measured = plane
        .load_monitor()
        .map(|load| load.with_book(collect_measured_use));
    let measured = measured.unwrap_or_default();
    let outcome = PlanOutcome::compare(plan, &measured, plane.now());
    if plane.hotspot_state().is_none() {
        // No reconciler follows plans: the plan ends here.
        let intent = Intent::ballast("rebalance", id);
        change(plane, &intent, id, &IfMatch::Any, "plan.end", |plan| {
            plan.status = PlanStatus::Done;
            plan.outcome = Some(outcome.clone());
            Ok(())
        })
        .await?;
    }
    Ok(json!({ "outcome": outcome, "status": record.status }))
}
