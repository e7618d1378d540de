//! Dry run: what a migration would do.

use ballast_domain::migration::{MigrationEstimate, MigrationTerms};
use ballast_domain::tenant::SliceId;
use ballast_domain::text::count_noun;
use ballast_domain::{Result, ShardId, TenantId};
use serde::Serialize;

use super::begin::{NewMigration, check_request, resolve_slice, resolve_terms, slice_id};
use super::finish::{FinishEstimate, FinishTerms};
use super::{admit, left_behind, price};
use crate::plane::ControlPlane;
use crate::tenants;

/// What a migration would do.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MovePlan)]
pub struct MigrationPlan {
    /// Always true: nothing was done.
    pub dry_run: bool,
    /// The tenant that owns the slice.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Which slice.
    pub slice: u32,
    /// The shard that it would leave.
    #[serde(rename = "fromShardID")]
    pub from: ShardId,
    /// The shard that it would move to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// How it would run.
    pub terms: MigrationTerms,
    /// The estimated cost.
    pub price: MigrationEstimate,
    /// When it would be over.
    pub finish: FinishEstimate,
    /// Its actions, in order.
    pub actions: Vec<MigrationAction>,
}

/// One action of a migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = PlannedAction)]
pub struct MigrationAction {
    /// The workflow state that does it.
    pub phase: &'static str,
    /// What it does.
    pub action: String,
}

/// Describes what a migration would do; rejects what would be rejected.
pub async fn plan(
    plane: &ControlPlane,
    id: &TenantId,
    new: &NewMigration,
) -> Result<MigrationPlan> {
    let tenant = tenants::get(plane, id).await?;
    let new = &resolve_slice(&tenant.value, new);
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let from = check_request(plane, &snapshot, &tenant.value, new)?;
    left_behind::check_no_copy_left(plane, &tenant.value.tenant_id, &new.to).await?;
    let slice = slice_id(id, new);
    let price = price::price(plane, &slice, &from, &new.to).await?;
    let terms = resolve_terms(plane, new, &price);
    let settings = plane.settings();
    let maintenance = admit::maintenance_wait(&settings.moves, plane.now());
    let waits = ExpectedWaits {
        maintenance: maintenance.filter(|_| !new.now).map(|(why, _)| why),
        away: unreachable_reason(plane, &new.to),
    };
    let finish = FinishTerms::new(&settings.moves, 1, terms.window_ms, new.now);
    let approvals = u64::from(terms.needs_approval);
    Ok(MigrationPlan {
        dry_run: true,
        finish: finish.estimate(&[price.duration_ms], approvals, plane.now()),
        tenant_id: id.clone(),
        slice: new.slice,
        actions: actions(&slice, (&from, &new.to), &terms, &price, &waits),
        from,
        to: new.to.clone(),
        terms,
        price,
    })
}

/// What a migration would have to wait for if it began now.
struct ExpectedWaits {
    /// The maintenance window.
    maintenance: Option<String>,
    /// Why the target cannot be reached.
    away: Option<String>,
}

/// Why a shard cannot be reached right now, if so.
fn unreachable_reason(plane: &ControlPlane, shard: &ShardId) -> Option<String> {
    let found = plane.migration_backends()?.shards.shard(shard);
    found.err().map(|error| error.to_string())
}

fn describe_waits(terms: &MigrationTerms, waits: &ExpectedWaits) -> String {
    let approval = terms.needs_approval.then(|| "an approval".to_owned());
    let slot = Some("a free slot".to_owned());
    let all = [approval, waits.maintenance.clone(), slot];
    let all: Vec<String> = all.into_iter().flatten().collect();
    format!("wait for {}", all.join(", then for "))
}

fn actions(
    slice: &SliceId,
    (from, to): (&ShardId, &ShardId),
    terms: &MigrationTerms,
    price: &MigrationEstimate,
    waits: &ExpectedWaits,
) -> Vec<MigrationAction> {
    let say = |phase, action: String| MigrationAction { phase, action };
    let slice = slice.label();
    let wait = describe_waits(terms, waits);
    let away = match &waits.away {
        Some(why) => format!(" (it cannot be reached now: {why})"),
        None => String::new(),
    };
    let pause = match terms.max_pause_ms {
        Some(most) => format!("when the expected write pause is at most {most} ms, "),
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
            format!("prepare {to} to receive {slice}{away}"),
        ),
        say(
            "WaitForSync",
            format!(
                "copy {} of polls (about {}) to {to} while {from} takes votes, then copy what changed meanwhile",
                count_noun(price.rows, "row"),
                count_noun(price.bytes, "byte")
            ),
        ),
        say(
            "VerifyConsistency",
            format!("read back everything on {to} and compare it with {from}"),
        ),
        say(
            "UpdateTenantRouting",
            format!(
                "{pause}seal {from}, copy the rest, compare, switch the route to {to}: write pause of about {} ms",
                price.pause_ms
            ),
        ),
        say(
            "EnableDualRead",
            match terms.sync {
                true => format!("read rows from both; acknowledge votes once {from} has them too"),
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
