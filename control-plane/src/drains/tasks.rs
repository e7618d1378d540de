//! What the workflow `drain-shard` has done: which moves are to be made next, and
//! afterwards how things stand.

use std::time::Duration;

use ballast_domain::error::Kind;
use ballast_domain::shard::ShardState;
use ballast_domain::{Error, ErrorCode, ShardId};
use ballast_state_machines::engine::{Progress, Registry, TaskContext, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::drain::{WORKFLOW, prefix};
use super::plan::{self, FleetPlan};
use super::{Manner, running};
use crate::migrations::begin::fresh;
use crate::plane::ControlPlane;
use crate::shards;

/// What may pass: it is tried again.
const UNAVAILABLE: &str = "Ballast.Unavailable";
const REFUSED: &str = "Ballast.Refused";
/// When there is nothing to move now, it is looked again after so long.
const ASK_AGAIN_SECONDS: u64 = 5;

/// It waits for so long at a time within its state, which may take 300 s.
const STAY_MS: i64 = 240_000;

/// What the workflow is given.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    #[serde(rename = "shardID")]
    shard_id: Option<ShardId>,
    concurrency: Option<u64>,
    window_ms: Option<u64>,
    #[serde(default)]
    sync: bool,
    reason: Option<String>,
}

impl Given {
    fn at_once(&self, plane: &ControlPlane) -> u64 {
        let manner = Manner {
            concurrency: self.concurrency,
            window_ms: self.window_ms,
            sync: self.sync,
        };
        manner.at_once(plane)
    }

    fn shard(&self) -> Result<&ShardId, TaskError> {
        let missing = || TaskError::new(REFUSED, "the input names no shardID".to_owned());
        self.shard_id.as_ref().ok_or_else(missing)
    }
}

type Done = Result<Value, TaskError>;

/// With handlers for this workflow.
#[must_use]
pub fn with_drains(registry: Registry, plane: &ControlPlane) -> Registry {
    macro_rules! tasks {
        ($registry:expr, $($resource:literal $task:ident)*) => {
            $registry$(.function($resource, {
                let plane = plane.clone();
                move |given: Given, context: TaskContext| {
                    let plane = plane.clone();
                    async move { $task(&plane, &given, &context).await }
                }
            }))*
        };
    }
    tasks!(registry,
        "PlanDrain" await_drain
        "FinishDrain" finish_drain)
}

fn failed(error: Error) -> TaskError {
    let name = match error.code().kind() {
        Kind::Unavailable | Kind::Internal | Kind::TooMany => UNAVAILABLE,
        _ => REFUSED,
    };
    TaskError::new(name, error.to_string())
}

/// The moves of a plan, as the workflow starts them.
fn moves(plane: &ControlPlane, plan: &FleetPlan, given: &Given, most: usize) -> Vec<Value> {
    let window_ms = given.window_ms;
    let window_ms = window_ms.unwrap_or_else(|| plane.settings().moves.window_ms);
    let moving = plan.slices.iter().filter(|slice| slice.to.is_some());
    let asked = moving.take(most).map(|slice| {
        json!({
            "name": fresh(plane),
            "input": {
                "tenantID": slice.tenant_id,
                "slice": slice.slice,
                "fromShardID": slice.from,
                "toShardID": slice.to,
                "windowMs": window_ms,
                "bothAcknowledge": given.sync,
                "reason": given.reason,
            },
        })
    });
    asked.collect()
}

/// Plans, and waits here as long as there is nothing to do: a drain that waits for
/// days is no history of very many entries.
async fn await_drain(plane: &ControlPlane, given: &Given, context: &TaskContext) -> Done {
    let until = plane.now().unix_ms() + STAY_MS;
    loop {
        let planned = plan_drain(plane, given, context).await?;
        let waits = planned["empty"] == false && planned["moves"] == json!([]);
        if !waits || plane.now().unix_ms() >= until {
            return Ok(planned);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(ASK_AGAIN_SECONDS)) => {}
            () = context.cancelled() => return Ok(planned),
        }
        context.alive();
    }
}

async fn plan_drain(plane: &ControlPlane, given: &Given, context: &TaskContext) -> Done {
    let id = given.shard()?;
    let shard = match shards::get(plane, id).await {
        Ok(shard) => shard,
        // It is gone, so it is empty.
        Err(error) if error.code() == ErrorCode::ShardNotFound => return Ok(over()),
        Err(error) => return Err(failed(error)),
    };
    // Somebody called it off, or wants it on other terms.
    let last = running(plane, WORKFLOW, &prefix(id)).await;
    let is_last = last
        .map_err(failed)?
        .is_none_or(|last| last == context.execution());
    if shard.shard.value.state != ShardState::Draining || !is_last {
        return Ok(over());
    }
    let leaving = plan::leaving(plane, id).await.map_err(failed)?;
    if shard.slices == 0 && leaving == 0 {
        return Ok(over());
    }
    let at_once = given.at_once(plane);
    let most = usize::try_from(at_once).unwrap_or(1);
    let plan = plan::slices(plane, id, most).await.map_err(failed)?;
    let moves = moves(plane, &plan, given, most);
    let left = shard.slices;
    context.heartbeat(Progress {
        done: 0,
        total: None,
        unit: "slices".to_owned(),
        note: Some(format!(
            "{left} slices left, {leaving} moves not over, {} stuck",
            plan.stuck_total
        )),
    });
    Ok(json!({
        "empty": false,
        "askAgainSeconds": if moves.is_empty() { ASK_AGAIN_SECONDS } else { 1 },
        "moves": moves,
        "atOnce": at_once,
        "left": left,
        "stuck": plan.stuck_total,
    }))
}

fn over() -> Value {
    json!({"empty": true, "moves": [], "atOnce": 1, "askAgainSeconds": 1})
}

async fn finish_drain(plane: &ControlPlane, given: &Given, _: &TaskContext) -> Done {
    let id = given.shard()?;
    match shards::get(plane, id).await {
        Ok(shard) => Ok(json!({
            "drained": shard.slices == 0 && shard.shard.value.state == ShardState::Draining,
            "slices": shard.slices,
            "state": shard.shard.value.state.name(),
        })),
        Err(error) if error.code() == ErrorCode::ShardNotFound => {
            Ok(json!({"drained": true, "slices": 0, "state": "gone"}))
        }
        Err(error) => Err(failed(error)),
    }
}
