//! What a move would do, for those who only want to know.

use ballast_domain::migration::{Price, Terms};
use ballast_domain::tenant::SliceId;
use ballast_domain::{Result, ShardId, TenantId};
use serde::Serialize;

use super::begin::{NewMove, checked, of_slice, slice_id, terms};
use super::{admit, left_behind, price};
use crate::plane::ControlPlane;
use crate::tenants;

/// What a move would do.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MovePlan {
    /// Always true: nothing was done.
    pub dry_run: bool,
    /// Whose slice.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Which slice.
    pub slice: u32,
    /// The shard that it would leave.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The shard that it would come to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// How it would be done.
    pub terms: Terms,
    /// What it would cost.
    pub price: Price,
    /// Each thing that would be done, in order.
    pub actions: Vec<PlannedAction>,
}

/// A thing that a move would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct PlannedAction {
    /// The state of the workflow that does it.
    pub phase: &'static str,
    /// What.
    pub action: String,
}

/// Says what a move would do; refuses what would be refused.
pub async fn plan(plane: &ControlPlane, id: &TenantId, new: &NewMove) -> Result<MovePlan> {
    let tenant = tenants::get(plane, id).await?;
    let new = &of_slice(&tenant.value, new);
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let from = checked(plane, &snapshot, &tenant.value, new)?;
    left_behind::check(plane, &tenant.value.tenant_id, &new.to).await?;
    let slice = slice_id(id, new);
    let price = price::price(plane, &slice, &from, &new.to).await?;
    let terms = terms(plane, new, &price);
    let settings = plane.settings();
    let waits = Waits {
        maintenance: admit::for_maintenance(&settings.moves, plane.now()).map(|(why, _)| why),
        away: away(plane, &new.to),
    };
    Ok(MovePlan {
        dry_run: true,
        tenant_id: id.clone(),
        slice: new.slice,
        actions: actions(&slice, (&from, &new.to), &terms, &price, &waits),
        from,
        to: new.to.clone(),
        terms,
        price,
    })
}

/// What a move would have to wait for if it began now.
struct Waits {
    /// The maintenance window.
    maintenance: Option<String>,
    /// Why the target cannot be reached.
    away: Option<String>,
}

/// Why a shard cannot be reached right now, if it cannot.
fn away(plane: &ControlPlane, shard: &ShardId) -> Option<String> {
    let found = plane.movers()?.shards.shard(shard);
    found.err().map(|error| error.to_string())
}

fn actions(
    slice: &SliceId,
    (from, to): (&ShardId, &ShardId),
    terms: &Terms,
    price: &Price,
    waits: &Waits,
) -> Vec<PlannedAction> {
    let say = |phase, action: String| PlannedAction { phase, action };
    let approval = terms.needs_approval.then(|| "an approval".to_owned());
    let turn = Some("a turn".to_owned());
    let wait = [approval, waits.maintenance.clone(), turn];
    let wait: Vec<String> = wait.into_iter().flatten().collect();
    let wait = format!("wait for {}", wait.join(", then for "));
    let away = match &waits.away {
        Some(why) => format!(" (it cannot be reached now: {why})"),
        None => String::new(),
    };
    let pause = match terms.max_pause_ms {
        Some(most) => format!("when a pause of at most {most} ms is to be expected, "),
        None => String::new(),
    };
    let window = match terms.window_ms.div_ceil(1_000) {
        0 => "once".to_owned(),
        seconds if seconds < 120 => format!("for {seconds} s"),
        seconds => format!("for about {} min", seconds.div_ceil(60)),
    };
    vec![
        say("PlanMove", format!("claim {slice} on {from}, and {wait}")),
        say(
            "EnsureParquetBackfill",
            format!("archive the closed polls of {slice} on {from}"),
        ),
        say(
            "CreateDataSyncTask",
            format!("prepare {to} to take {slice} in{away}"),
        ),
        say(
            "WaitForSync",
            format!(
                "copy {} rows of polls (about {} bytes) to {to} while {from} takes votes, then what changes",
                price.rows, price.bytes
            ),
        ),
        say(
            "VerifyConsistency",
            format!("read everything on {to} back and compare it with {from}"),
        ),
        say(
            "UpdateTenantRouting",
            format!(
                "{pause}seal {from}, copy the rest, compare, switch the route to {to}: about {} ms without votes",
                price.pause_ms
            ),
        ),
        say(
            "EnableDualRead",
            match terms.sync {
                true => format!("read rows from both; acknowledge votes when {from} has them, too"),
                false => format!("read rows from both; stream new votes back to {from}"),
            },
        ),
        say(
            "MonitorDualRead",
            format!("compare both sides {window}; go back if they differ"),
        ),
        say(
            "CleanupOldShard",
            format!("remove {slice} from {from}, and sign the certificate"),
        ),
    ]
}
