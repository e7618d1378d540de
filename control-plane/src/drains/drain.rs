//! A shard is emptied: it takes nothing new, and its slices move away, a few
//! at a time.

use ballast_domain::error::ErrorCode;
use ballast_domain::shard::ShardState;
use ballast_domain::{Error, Result, ShardId};
use serde::Serialize;
use serde_json::json;

use super::plan::{self, FleetPlan};
use super::{Manner, running};
use crate::change::IfMatch;
use crate::intent::Intent;
use crate::migrations::begin::fresh;
use crate::plane::ControlPlane;
use crate::shards::{self, ShardPatch};
use crate::workflows::executions::{self, NewExecution};

/// The workflow that empties a shard.
pub const WORKFLOW: &str = "drain-shard";
/// Slices that are named in a plan, at the most.
const NAMED_MAX: usize = 1_000;

/// How the emptying of a shard stands.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainBody {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// How it stands.
    pub status: DrainStatus,
    /// The execution that plans the moves, while there is one.
    #[serde(rename = "executionID", skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Slices that it owns.
    pub slices_left: u64,
    /// Moves away from it that are not over: until then it holds copies.
    pub leaving: u64,
    /// Which of its slices would go where.
    pub plan: FleetPlan,
}

/// How the emptying of a shard stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum DrainStatus {
    /// It is not being emptied.
    No,
    /// Its slices are moved away.
    Running,
    /// It was called off: no further moves begin, those under way go on.
    Stopping,
    /// It takes nothing new, but nobody moves its slices away.
    Idle,
    /// It is empty, and takes nothing new.
    Empty,
}

/// How the emptying of a shard stands.
#[derive(Debug, Clone)]
pub struct Standing {
    /// How it stands.
    pub status: DrainStatus,
    /// The execution that plans the moves, while there is one.
    pub execution_id: Option<String>,
    /// Slices that it owns.
    pub slices_left: u64,
    /// Moves away from it that are not over.
    pub leaving: u64,
}

/// How the emptying of a shard stands, without what would still go where: to
/// say that takes long of a shard with very many slices.
pub async fn standing(plane: &ControlPlane, id: &ShardId) -> Result<Standing> {
    let shard = shards::get(plane, id).await?;
    let execution_id = running(plane, WORKFLOW, &prefix(id)).await?;
    let leaving = plan::leaving(plane, id).await? as u64;
    let draining = shard.shard.value.state == ShardState::Draining;
    let status = match (draining, execution_id.is_some()) {
        (true, true) => DrainStatus::Running,
        (false, true) => DrainStatus::Stopping,
        (true, false) if shard.slices == 0 && leaving == 0 => DrainStatus::Empty,
        (true, false) => DrainStatus::Idle,
        (false, false) => DrainStatus::No,
    };
    Ok(Standing {
        status,
        execution_id,
        slices_left: shard.slices,
        leaving,
    })
}

/// What emptying a shard would do, or has still to do.
pub async fn planned(plane: &ControlPlane, id: &ShardId) -> Result<FleetPlan> {
    shards::get(plane, id).await?;
    let plan = plan::slices(plane, id, NAMED_MAX).await?;
    plan::priced(plane, plan).await
}

/// How the emptying of a shard stands, and what is still to be done.
pub async fn show(plane: &ControlPlane, id: &ShardId) -> Result<DrainBody> {
    let standing = standing(plane, id).await?;
    Ok(DrainBody {
        shard_id: id.clone(),
        status: standing.status,
        execution_id: standing.execution_id,
        slices_left: standing.slices_left,
        leaving: standing.leaving,
        plan: planned(plane, id).await?,
    })
}

/// What the names of the executions that empty a shard begin with.
pub(super) fn prefix(id: &ShardId) -> String {
    format!("{id}.")
}

/// Has a shard emptied.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    id: &ShardId,
    manner: &Manner,
) -> Result<DrainBody> {
    manner.check()?;
    let shard = shards::get(plane, id).await?;
    if shard.shard.value.state == ShardState::Down {
        let detail = format!("shard {id} is down: nothing can be copied from it");
        let error = Error::new(ErrorCode::MoveRefused, detail);
        return Err(error.next("Bring it back first (shard state active)."));
    }
    set_state(plane, intent, id, ShardState::Draining).await?;
    // One that still runs, called off or not, begins no further moves once
    // there is a later one: the last terms hold.
    let name = format!("{}{}", prefix(id), fresh(plane));
    let input = json!({
        "shardID": id,
        "concurrency": manner.concurrency,
        "windowMs": manner.window_ms,
        "sync": manner.sync,
        "reason": intent.reason,
    });
    let new = NewExecution {
        workflow: WORKFLOW.to_owned(),
        name: Some(name),
        input,
    };
    executions::start(plane, intent, new).await?;
    show(plane, id).await
}

/// Calls it off: the shard takes slices again, and no further moves begin.
/// Those under way go on to their end.
pub async fn cancel(plane: &ControlPlane, intent: &Intent, id: &ShardId) -> Result<DrainBody> {
    let shard = shards::get(plane, id).await?;
    if shard.shard.value.state == ShardState::Draining {
        set_state(plane, intent, id, ShardState::Active).await?;
    }
    show(plane, id).await
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
