//! Draining a shard: it accepts no slices, and its slices move away, a few at a
//! time.

use ballast_domain::error::ErrorCode;
use ballast_domain::shard::ShardState;
use ballast_domain::{Error, Result, ShardId, Timestamp};
use serde::Serialize;
use serde_json::json;

use super::plan::{self, FleetPlan};
use super::tasks::DrainInput;
use super::{MigrationOptions, find_running};
use crate::change::IfMatch;
use crate::intent::Intent;
use crate::migrations::begin::new_migration_id;
use crate::plane::ControlPlane;
use crate::shards::{self, ShardPatch};
use crate::workflows::executions::{self, NewExecution};
use crate::workflows::{engine, store_unavailable};

/// The workflow that drains a shard.
pub const WORKFLOW: &str = "drain-shard";
/// Maximum number of slices listed in a plan.
const SLICES_LISTED_MAX: usize = 1_000;

/// The state of a drain.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainBody {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The drain's status.
    pub status: DrainStatus,
    /// The execution that starts the migrations, while it runs.
    #[serde(rename = "executionID", skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Slices that the shard still owns.
    pub slices_left: u64,
    /// Slices that it owned when the drain began, while one runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices_at_start: Option<u64>,
    /// Running migrations away from it. Until they end, it holds copies.
    pub leaving: u64,
    /// Copies of slices that have left, kept until their windows end.
    pub copies: u64,
    /// When the last of these windows ends, if any is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_until: Option<Timestamp>,
    /// Which of its slices would move where.
    pub plan: FleetPlan,
}

/// The status of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum DrainStatus {
    /// The shard is not draining.
    No,
    /// Its slices are being moved away.
    Running,
    /// The drain was cancelled: no further migrations begin; running ones continue.
    Stopping,
    /// It accepts no slices, but no execution moves its slices away.
    Idle,
    /// It is empty and accepts no slices.
    Empty,
}

/// The state of a drain, without its plan.
#[derive(Debug, Clone)]
pub struct DrainState {
    /// The drain's status.
    pub status: DrainStatus,
    /// The execution that starts the migrations, while it runs.
    pub execution_id: Option<String>,
    /// Slices that the shard still owns.
    pub slices_left: u64,
    /// Slices that it owned when the drain began, while one runs.
    pub slices_at_start: Option<u64>,
    /// Running migrations away from it.
    pub leaving: u64,
    /// Copies of slices that have left, kept until their windows end.
    pub copies: u64,
    /// When the last of these windows ends, if any is open.
    pub copies_until: Option<Timestamp>,
}

/// The state of a drain, without the plan of what still has to move, which takes
/// long to compute for a shard with very many slices.
pub async fn drain_state(plane: &ControlPlane, id: &ShardId) -> Result<DrainState> {
    let shard = shards::get(plane, id).await?;
    let execution_id = find_running(plane, WORKFLOW, &execution_prefix(id)).await?;
    let copies = plan::held_copies(plane, id).await?;
    let leaving = copies.leaving;
    let begun_with = match &execution_id {
        Some(execution) => running_input(plane, execution).await?,
        None => None,
    };
    let slices_left = shard
        .slices
        .saturating_sub(copies.outgoing + copies.incoming);
    let slices_at_start = begun_with.and_then(|input| input.slices);
    let draining = shard.shard.value.state == ShardState::Draining;
    let status = match (draining, execution_id.is_some()) {
        (true, true) => DrainStatus::Running,
        (false, true) => DrainStatus::Stopping,
        (true, false) if shard.slices == 0 && leaving == 0 => DrainStatus::Empty,
        (true, false) => DrainStatus::Idle,
        (false, false) => DrainStatus::No,
    };
    Ok(DrainState {
        status,
        execution_id,
        slices_left,
        slices_at_start: slices_at_start.map(|began| began.max(slices_left)),
        leaving,
        copies: copies.outgoing,
        copies_until: copies.until,
    })
}

/// What draining a shard on these terms would do, or still has to do. A running drain
/// has its own terms.
pub async fn plan_drain(
    plane: &ControlPlane,
    id: &ShardId,
    options: &MigrationOptions,
) -> Result<FleetPlan> {
    options.check()?;
    shards::get(plane, id).await?;
    let running = find_running(plane, WORKFLOW, &execution_prefix(id)).await?;
    let running = match running {
        Some(execution) => running_input(plane, &execution).await?,
        None => None,
    };
    let options = &running.map_or_else(|| options.clone(), |input| input.options());
    let plan = plan::plan_slices(plane, id, SLICES_LISTED_MAX).await?;
    plan::add_price(plane, plan, options).await
}

/// What a running drain began with.
async fn running_input(plane: &ControlPlane, execution: &str) -> Result<Option<DrainInput>> {
    let found = engine(plane)?.get(execution).await;
    let input = found.map_err(store_unavailable)?.map(|found| found.input);
    Ok(input.and_then(|input| serde_json::from_value(input).ok()))
}

/// The state of a drain, and what still has to move, on these terms if none is running.
pub async fn show(
    plane: &ControlPlane,
    id: &ShardId,
    options: &MigrationOptions,
) -> Result<DrainBody> {
    let plan = plan_drain(plane, id, options).await?;
    let standing = drain_state(plane, id).await?;
    Ok(DrainBody {
        shard_id: id.clone(),
        status: standing.status,
        execution_id: standing.execution_id,
        slices_left: standing.slices_left,
        slices_at_start: standing.slices_at_start,
        leaving: standing.leaving,
        copies: standing.copies,
        copies_until: standing.copies_until,
        plan,
    })
}

/// Name prefix of the executions that drain a shard.
pub(super) fn execution_prefix(id: &ShardId) -> String {
    format!("{id}.")
}

/// Drains a shard.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    id: &ShardId,
    options: &MigrationOptions,
) -> Result<DrainBody> {
    options.check_request(intent)?;
    let shard = shards::get(plane, id).await?;
    if shard.shard.value.state == ShardState::Down {
        let detail = format!("shard {id} is down: nothing can be copied from it");
        let error = Error::new(ErrorCode::MoveRefused, detail);
        return Err(error.with_next_step("Bring it back first (shard state active)."));
    }
    set_state(plane, intent, id, ShardState::Draining).await?;
    let slices = drain_state(plane, id).await?.slices_left;
    // An earlier execution, even a cancelled one, begins no further migrations once
    // a later one runs: the latest options apply.
    let name = format!("{}{}", execution_prefix(id), new_migration_id(plane));
    let input = json!({
        "shardID": id,
        "concurrency": options.concurrency,
        "windowMs": options.window_ms,
        "sync": options.sync,
        "now": options.now,
        "slices": slices,
        "reason": intent.reason,
    });
    let new = NewExecution {
        workflow: WORKFLOW.to_owned(),
        name: Some(name),
        input,
    };
    executions::start(plane, intent, new).await?;
    show(plane, id, options).await
}

/// Cancels a drain: the shard accepts tenants again, and no further migrations
/// begin. Running ones continue to their end.
pub async fn cancel(plane: &ControlPlane, intent: &Intent, id: &ShardId) -> Result<DrainBody> {
    let shard = shards::get(plane, id).await?;
    if shard.shard.value.state == ShardState::Draining {
        set_state(plane, intent, id, ShardState::Active).await?;
    }
    show(plane, id, &MigrationOptions::default()).await
}

async fn set_state(
    plane: &ControlPlane,
    intent: &Intent,
    id: &ShardId,
    state: ShardState,
) -> Result<()> {
    let patch = ShardPatch {
        state: Some(state),
        ..ShardPatch::default()
    };
    shards::update(plane, intent, id, &IfMatch::Any, &patch).await?;
    Ok(())
}
