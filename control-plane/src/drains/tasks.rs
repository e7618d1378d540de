//! Tasks of the workflow `drain-shard`: plans the next migrations, and reports the
//! result.

use std::time::Duration;

use ballast_domain::error::ErrorCategory;
use ballast_domain::shard::ShardState;
use ballast_domain::text::count_noun;
use ballast_domain::{Error, ErrorCode, ShardId};
use ballast_state_machines::engine::{HandlerRegistry, ProgressReport, TaskContext, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::drain::{WORKFLOW, execution_prefix};
use super::move_slice::with_slice_moves;
use super::plan::{self, FleetPlan};
use super::{MigrationOptions, find_running};
use crate::migrations::begin::new_migration_id;
use crate::plane::ControlPlane;
use crate::shards;

/// Name of errors that are retried.
const UNAVAILABLE: &str = "Ballast.Unavailable";
const REFUSED: &str = "Ballast.Refused";
/// Retry interval while there is nothing to move.
const RETRY_SECONDS: u64 = 5;

/// How long one task waits; its state times out after 300 s.
const TASK_WAIT_MS: i64 = 240_000;

/// The workflow's input.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DrainInput {
    #[serde(rename = "shardID")]
    shard_id: Option<ShardId>,
    concurrency: Option<u64>,
    window_ms: Option<u64>,
    #[serde(default)]
    sync: bool,
    #[serde(default)]
    now: bool,
    /// Slices that the shard owned when the drain began.
    pub(super) slices: Option<u64>,
    reason: Option<String>,
}

impl DrainInput {
    /// The terms of its migrations.
    pub(super) fn options(&self) -> MigrationOptions {
        MigrationOptions {
            concurrency: self.concurrency,
            window_ms: self.window_ms,
            sync: self.sync,
            now: self.now,
        }
    }

    fn shard(&self) -> Result<&ShardId, TaskError> {
        let missing = || TaskError::new(REFUSED, "the input has no shardID".to_owned());
        self.shard_id.as_ref().ok_or_else(missing)
    }
}

type TaskResult = Result<Value, TaskError>;

/// Registers the tasks of this workflow.
#[must_use]
pub fn register_drain_tasks(registry: HandlerRegistry, plane: &ControlPlane) -> HandlerRegistry {
    macro_rules! tasks {
        ($registry:expr, $($resource:literal $task:ident)*) => {
            $registry$(.with_function($resource, {
                let plane = plane.clone();
                move |input: DrainInput, context: TaskContext| {
                    let plane = plane.clone();
                    async move { $task(&plane, &input, &context).await }
                }
            }))*
        };
    }
    let registry = with_slice_moves(registry, plane);
    tasks!(registry,
        "PlanDrain" await_drain
        "FinishDrain" finish_drain)
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

/// The inputs of the next migrations, in the form that the workflow starts them.
fn migration_inputs(
    plane: &ControlPlane,
    plan: &FleetPlan,
    input: &DrainInput,
    most: usize,
) -> Vec<Value> {
    let window_ms = input.options().window_or_default(plane);
    let moving = plan.slices.iter().filter(|slice| slice.to.is_some());
    let asked = moving.take(most).map(|slice| {
        json!({
            "name": new_migration_id(plane),
            "input": {
                "tenantID": slice.tenant_id,
                "slice": slice.slice,
                "fromShardID": slice.from,
                "toShardID": slice.to,
                "windowMs": window_ms,
                "bothAcknowledge": input.sync,
                "now": input.now,
                "reason": input.reason,
            },
        })
    });
    asked.collect()
}

/// Plans the next migrations, and waits here while there is nothing to do: this keeps
/// the history of a drain that takes days short.
async fn await_drain(
    plane: &ControlPlane,
    input: &DrainInput,
    context: &TaskContext,
) -> TaskResult {
    let until = plane.now().unix_ms() + TASK_WAIT_MS;
    loop {
        let planned = plan_drain(plane, input, context).await?;
        let waits = planned["empty"] == false && planned["moves"] == json!([]);
        if !waits || plane.now().unix_ms() >= until {
            return Ok(planned);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(RETRY_SECONDS)) => {}
            () = context.cancelled() => return Ok(planned),
        }
        context.keep_alive();
    }
}

async fn plan_drain(plane: &ControlPlane, input: &DrainInput, context: &TaskContext) -> TaskResult {
    let id = input.shard()?;
    let shard = match shards::get(plane, id).await {
        Ok(shard) => shard,
        // The shard is gone, and therefore empty.
        Err(error) if error.code() == ErrorCode::ShardNotFound => return Ok(drained_reply()),
        Err(error) => return Err(to_task_error(error)),
    };
    // The drain was cancelled, or restarted with other options.
    let last = find_running(plane, WORKFLOW, &execution_prefix(id)).await;
    let is_last = last
        .map_err(to_task_error)?
        .is_none_or(|last| last == context.execution());
    if shard.shard.value.state != ShardState::Draining || !is_last {
        return Ok(drained_reply());
    }
    let copies = plan::held_copies(plane, id).await.map_err(to_task_error)?;
    let leaving = copies.leaving;
    if shard.slices == 0 && leaving == 0 {
        return Ok(drained_reply());
    }
    let at_once = input.options().concurrency_or_default(plane);
    let most = usize::try_from(at_once).unwrap_or(1);
    let plan = plan::plan_slices(plane, id, most)
        .await
        .map_err(to_task_error)?;
    let moves = migration_inputs(plane, &plan, input, most);
    let left = shard
        .slices
        .saturating_sub(copies.outgoing + copies.incoming);
    context.heartbeat(ProgressReport {
        done: 0,
        total: None,
        unit: "slices".to_owned(),
        note: Some(format!(
            "{} left, {} running, {} stuck",
            count_noun(left, "slice"),
            count_noun(leaving as u64, "migration"),
            plan.stuck_total
        )),
    });
    Ok(json!({
        "empty": false,
        "askAgainSeconds": if moves.is_empty() { RETRY_SECONDS } else { 1 },
        "moves": moves,
        "atOnce": at_once,
        "left": left,
        "stuck": plan.stuck_total,
    }))
}

fn drained_reply() -> Value {
    json!({"empty": true, "moves": [], "atOnce": 1, "askAgainSeconds": 1})
}

async fn finish_drain(plane: &ControlPlane, input: &DrainInput, _: &TaskContext) -> TaskResult {
    let id = input.shard()?;
    match shards::get(plane, id).await {
        Ok(shard) => Ok(json!({
            "drained": shard.slices == 0 && shard.shard.value.state == ShardState::Draining,
            "slices": shard.slices,
            "state": shard.shard.value.state.name(),
        })),
        Err(error) if error.code() == ErrorCode::ShardNotFound => {
            Ok(json!({"drained": true, "slices": 0, "state": "gone"}))
        }
        Err(error) => Err(to_task_error(error)),
    }
}
