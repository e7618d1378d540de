//! What the workflow `rebalance` has done: a plan is waited for, its moves are
//! named, and at the end it is said what came of it.

use ballast_domain::error::Kind;
use ballast_domain::{Error, ErrorCode};
use ballast_hotspot_detector::whatif::Outcome;
use ballast_state_machines::engine::{Registry, TaskContext, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::follow::measured;
use super::plans::{self, change};
use super::records::{PlanRecord, PlanStatus};
use crate::change::IfMatch;
use crate::drains::Manner;
use crate::intent::Intent;
use crate::migrations::begin::fresh;
use crate::plane::ControlPlane;

/// What may pass: it is tried again.
const UNAVAILABLE: &str = "Ballast.Unavailable";
const REFUSED: &str = "Ballast.Refused";
/// A plan that waits for somebody's word is looked at again after so long.
const ASK_AGAIN_SECONDS: u64 = 2;

/// What the workflow is given.
#[derive(Debug, Clone, Deserialize)]
struct Given {
    #[serde(rename = "planID")]
    plan_id: String,
}

/// With handlers for this workflow.
#[must_use]
pub fn with_plans(registry: Registry, plane: &ControlPlane) -> Registry {
    let (one, two) = (plane.clone(), plane.clone());
    registry
        .function("PlanRebalance", move |given: Given, _: TaskContext| {
            let plane = one.clone();
            async move { plan_rebalance(&plane, &given.plan_id).await.map_err(failed) }
        })
        .function("MeasureEffect", move |given: Given, _: TaskContext| {
            let plane = two.clone();
            async move { measure_effect(&plane, &given.plan_id).await.map_err(failed) }
        })
}

fn failed(error: Error) -> TaskError {
    let name = match error.code().kind() {
        Kind::Unavailable | Kind::Internal | Kind::TooMany => UNAVAILABLE,
        _ => REFUSED,
    };
    TaskError::new(name, error.to_string())
}

/// How a plan stands, and once it may begin, its moves.
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
        "approved" => named(plane, plan).await?,
        _ => plan,
    };
    Ok(json!({
        "verdict": verdict,
        "reason": plan.note.clone().unwrap_or_else(|| format!("the plan is {}", plan.status.name())),
        "moves": moves(plane, &plan),
        "atOnce": at_once(plane, &plan),
        "askAgainSeconds": ASK_AGAIN_SECONDS,
        "judgeAfterSeconds": 1,
    }))
}

/// The plan with a name for each of its moves: made once, so that what is tried
/// again begins no second move.
async fn named(plane: &ControlPlane, plan: PlanRecord) -> Result<PlanRecord, Error> {
    let moves = plan.plan.as_ref().map_or(0, |it| it.moves.len());
    if plan.migrations.len() == moves {
        return Ok(plan);
    }
    let names: Vec<String> = (0..moves).map(|_| fresh(plane).0).collect();
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

fn at_once(plane: &ControlPlane, plan: &PlanRecord) -> u64 {
    let waits = |it: &ballast_hotspot_detector::plan::Move| !it.waits_for.is_empty();
    // Where one move makes room for another they go one after the other.
    if plan.plan.iter().flat_map(|it| &it.moves).any(waits) {
        return 1;
    }
    let manner = Manner {
        concurrency: plan.concurrency,
        window_ms: plan.window_ms,
        sync: plan.sync,
    };
    manner.at_once(plane)
}

/// The moves of a plan, as the workflow starts them.
fn moves(plane: &ControlPlane, plan: &PlanRecord) -> Vec<Value> {
    let window_ms = plan
        .window_ms
        .unwrap_or_else(|| plane.settings().moves.window_ms);
    let planned = plan.plan.iter().flat_map(|it| &it.moves);
    let named = planned.zip(&plan.migrations);
    let asked = named.map(|(planned, name)| {
        json!({
            "name": name,
            "input": {
                "tenantID": planned.slice.tenant_id,
                "slice": planned.slice.slice,
                "fromShardID": planned.from,
                "toShardID": planned.to,
                "passedOverShardIDs": planned.passed_over,
                "windowMs": window_ms,
                "bothAcknowledge": plan.sync,
                "reason": plan.plan_id,
            },
        })
    });
    asked.collect()
}

/// What was predicted beside what is measured.
async fn measure_effect(plane: &ControlPlane, id: &str) -> Result<Value, Error> {
    let record = plans::get(plane, id).await?.value;
    if let Some(outcome) = &record.outcome {
        return Ok(json!({ "outcome": outcome, "status": record.status }));
    }
    let Some(plan) = &record.plan else {
        return Err(Error::new(ErrorCode::PlanNotFound, "it has no moves"));
    };
    let measured = plane.load().map(|load| load.with_book(measured));
    let measured = measured.unwrap_or_default();
    let outcome = Outcome::of(plan, &measured, plane.now());
    if plane.mind().is_none() {
        // Nobody watches plans: this is its end.
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
