//! Creates a migration: checks and prices it, and writes its record and its claim
//! on the slice in one commit.

use ballast_domain::error::ErrorCode;
use ballast_domain::migration::{
    Migration, MigrationEstimate, MigrationFigures, MigrationRequests, MigrationStage,
    MigrationTerms, OperatorRequest,
};
use ballast_domain::moving::MigrationId;
use ballast_domain::placement::{PlacementSubject, explain};
use ballast_domain::registry::{CommitError, Precondition, RecordKind, slices_tally};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::{Error, Result, ShardId, TenantId};
use ballast_migration_engine::protocol::route;
use serde::Deserialize;
use serde_json::json;

use super::body::{self, MigrationBody};
use super::slice_records::find_slice_mut;
use super::{WORKFLOW, get, left_behind, price};
use crate::change::commit_failed;
use crate::fleet::VersionedFleet;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::workflows::engine;
use crate::{shards, slicing, tenants, validate};

/// Retries after a concurrent change.
const ATTEMPTS: usize = 16;
/// Longest dual-read window; anything longer is considered a mistake.
const WINDOW_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Maximum number of shards that a slice passes over.
const PASSED_OVER_MAX: usize = 1_000;
/// Longest write pause that may be requested.
const PAUSE_MAX_MS: u64 = 60 * 60 * 1_000;

/// A request to move a slice.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewMove)]
pub struct NewMigration {
    /// The shard to move the slice to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// The shard that the caller believes the slice is on. The request is rejected
    /// if it is elsewhere.
    #[serde(rename = "fromShardID")]
    pub from: Option<ShardId>,
    /// Which slice of the tenant; its only one when absent.
    #[serde(default)]
    pub slice: u32,
    /// How long both copies are kept after the cutover, in milliseconds.
    #[schema(maximum = 2_592_000_000_u64)]
    pub window_ms: Option<u64>,
    /// Whether writes within the window are acknowledged only when both copies have
    /// them, so that losing the target loses no acknowledged vote. Votes take a
    /// little longer, and wait while one of the two shards is unreachable.
    #[serde(default)]
    pub sync: bool,
    /// Maximum write pause at the cutover, in milliseconds. The cutover waits for a
    /// moment when a pause this short is expected.
    #[schema(minimum = 1, maximum = 3_600_000)]
    pub max_pause_ms: Option<u64>,
    /// Shards that outscore the target and are deliberately passed over, so that
    /// placement does not move the slice back to them.
    #[serde(rename = "passedOverShardIDs", default)]
    #[schema(max_items = 1000)]
    pub passed_over: Vec<ShardId>,
    /// Whether it begins outside of the maintenance windows, too. Requires a reason.
    #[serde(default)]
    pub now: bool,
    /// Only report what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// Resolves slice 0 to the tenant's only slice: a tenant that was split has no
/// slice 0 any more.
pub(super) fn resolve_slice(tenant: &Tenant, new: &NewMigration) -> NewMigration {
    let mut new = new.clone();
    if let [only] = tenant.slices.as_slice()
        && new.slice == 0
    {
        new.slice = only.slice;
    }
    new
}

pub(super) fn slice_id(id: &TenantId, new: &NewMigration) -> SliceId {
    SliceId {
        tenant_id: id.clone(),
        slice: new.slice,
    }
}

/// Requests a migration.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    tenant: &TenantId,
    new: &NewMigration,
) -> Result<MigrationBody> {
    let migration = create_record(plane, intent, &new_migration_id(plane), tenant, new).await?;
    start_execution(plane, &migration.value).await;
    body::load_body(plane, migration).await
}

/// Starts the execution of a migration. If that fails, the reconciler retries it.
pub(super) async fn start_execution(plane: &ControlPlane, migration: &Migration) {
    let input = json!({
        "migrationID": migration.migration_id,
        "tenantID": migration.tenant_id,
        "slice": migration.slice,
        "toShardID": migration.to,
    });
    let started = match engine(plane) {
        Ok(engine) => engine
            .start(WORKFLOW, &migration.execution(), input)
            .await
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = started {
        let id = &migration.migration_id;
        tracing::warn!(%id, error, "failed to start the migration's execution; the reconciler will retry");
    }
}

/// Checks the id of a new migration. Ids of reversals and of later runs derive
/// from it, so no other id may look like one.
fn check_name(id: &MigrationId) -> Result<()> {
    body::parse_migration_id(&id.0)
        .map_err(|_| refused_name(id, "use letters, digits, '-', '_' and '.', 80 at most"))?;
    let is_run = |(_, run): (&str, &str)| run.bytes().all(|byte| byte.is_ascii_digit());
    if id.is_back() || id.0.rsplit_once('.').is_some_and(is_run) {
        return Err(refused_name(
            id,
            "names that end in -back or .NUMBER are reserved",
        ));
    }
    Ok(())
}

fn refused_name(id: &MigrationId, why: &str) -> Error {
    let detail = format!("a migration cannot be called {:?}: {why}", id.0);
    Error::new(ErrorCode::InvalidField, detail)
}

/// Starting outside of the maintenance windows needs a reason.
pub(crate) fn check_reason_to_start_now(now: bool, intent: &Intent) -> Result<()> {
    if !now || intent.reason.is_some() {
        return Ok(());
    }
    let message = "required: this does not wait for a maintenance window";
    let error = Error::invalid_field("?reason", message);
    Err(error.with_next_step("Say why, for the audit log (--reason)."))
}

fn is_same_request(existing: &Migration, tenant_id: &TenantId, new: &NewMigration) -> bool {
    // 0 also denotes the tenant's only slice.
    let same_slice = [0, existing.slice].contains(&new.slice);
    existing.tenant_id == *tenant_id && same_slice && existing.to == new.to
}

/// Writes the record of a migration and claims its slice, unless the record exists.
pub(super) async fn create_record(
    plane: &ControlPlane,
    intent: &Intent,
    id: &MigrationId,
    tenant_id: &TenantId,
    new: &NewMigration,
) -> Result<Versioned<Migration>> {
    if let Some(existing) = typed::get::<Migration>(plane.registry(), &id.0).await? {
        return match is_same_request(&existing.value, tenant_id, new) {
            true => Ok(existing),
            false => Err(Error::new(
                ErrorCode::IdempotencyMismatch,
                "this name was used for another migration",
            )),
        };
    }
    check_name(id)?;
    check_reason_to_start_now(new.now, intent)?;
    let _turn = plane.lock_subject(tenant_id.as_str()).await;
    for _ in 0..ATTEMPTS {
        if try_create_record(plane, intent, id, tenant_id, new).await? {
            return get(plane, id).await;
        }
    }
    Err(Error::new(ErrorCode::Busy, "the tenant or the fleet kept changing").retry_after(1))
}

/// One attempt; `false` after a concurrent change. The caller holds the tenant's lock.
async fn try_create_record(
    plane: &ControlPlane,
    intent: &Intent,
    id: &MigrationId,
    tenant_id: &TenantId,
    new: &NewMigration,
) -> Result<bool> {
    let mut tenant = tenants::get(plane, tenant_id).await?;
    let new = &resolve_slice(&tenant.value, new);
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let from = check_request(plane, &snapshot, &tenant.value, new)?;
    left_behind::check_no_copy_left(plane, tenant_id, &new.to).await?;
    let slice = slice_id(tenant_id, new);
    let price = price::price(plane, &slice, &from, &new.to).await?;
    let now = plane.now();
    let start_now = new.now.then(|| OperatorRequest {
        actor: intent.actor.clone(),
        reason: intent.reason.clone(),
        at: now,
    });
    let part = find_slice_mut(&mut tenant.value, new.slice).ok_or_else(|| no_slice(&slice))?;
    let claimed = route::claim(&part.route(), id, new.to.clone(), new.sync);
    let claimed = claimed.map_err(|refused| claim_refused(&slice, refused))?;
    part.set_route(claimed, now);
    part.passes_over.clone_from(&new.passed_over);
    let migration = Migration {
        migration_id: id.clone(),
        tenant_id: tenant_id.clone(),
        slice: new.slice,
        regions: regions(&snapshot, [&from, &new.to]),
        from,
        to: new.to.clone(),
        actor: intent.actor.clone(),
        reason: intent.reason.clone(),
        requested_at: now,
        terms: resolve_terms(plane, new, &price),
        stage: MigrationStage::Asked,
        asked: MigrationRequests {
            start_now,
            ..MigrationRequests::default()
        },
        waiting_for: None,
        run: 0,
        price: Some(price),
        figures: MigrationFigures::default(),
        findings: Vec::new(),
        proved: None,
        proved_back: None,
        given_up: None,
        left: None,
        left_behind: None,
        ended: None,
        certificate: None,
    };
    let writes = vec![
        typed::update(tenant.version, &tenant.value)?,
        typed::create(&migration, Vec::new())?,
    ];
    let expects = expectations(&snapshot, new);
    let answer = body::initial_body(migration, plane.now());
    let commit = intent.create(plane, "migration.begin", writes, expects, &answer)?;
    match plane.registry().commit(commit).await {
        Ok(_) => Ok(true),
        Err(CommitError::Conflict { .. } | CommitError::LimitReached { .. }) => Ok(false),
        Err(other) => Err(commit_failed(other)),
    }
}

fn expectations(snapshot: &VersionedFleet, new: &NewMigration) -> Vec<Precondition> {
    let mut expects = vec![snapshot.expect_unchanged()];
    if let Some(shard) = snapshot.fleet.get(&new.to) {
        let tally = slices_tally(shard.id.as_str());
        expects.push(Precondition::TallyBelow(
            RecordKind::Tenant,
            tally,
            shard.max_slices,
        ));
    }
    expects
}

fn regions(snapshot: &VersionedFleet, shards: [&ShardId; 2]) -> Vec<ballast_domain::RegionId> {
    let known = shards.into_iter().filter_map(|shard| snapshot.shard(shard));
    let mut regions: Vec<_> = known.map(|shard| shard.value.region.clone()).collect();
    regions.sort();
    regions.dedup();
    regions
}

fn check_fields(new: &NewMigration) -> Result<()> {
    if new.window_ms.is_some_and(|window| window > WINDOW_MAX_MS) {
        let message = format!("it is longer than {} days", WINDOW_MAX_MS / 86_400_000);
        return Err(Error::invalid_field("/windowMs", message));
    }
    if let Some(pause) = new.max_pause_ms {
        validate::count("/maxPauseMs", pause, PAUSE_MAX_MS)?;
    }
    if new.passed_over.len() > PASSED_OVER_MAX {
        let message = format!("it names more than {PASSED_OVER_MAX} shards");
        return Err(Error::invalid_field("/passedOverShardIDs", message));
    }
    Ok(())
}

fn unknown_slice(tenant: &Tenant, slice: u32) -> Error {
    let slices = tenant.slices.iter().map(|slice| slice.slice.to_string());
    let slices = slices.collect::<Vec<_>>().join(", ");
    let id = tenant.tenant_id.as_str();
    let detail = format!("tenant {id:?} has no slice {slice}: it has {slices}");
    let next = format!("Name one of its slices (--slice): {slices}.");
    Error::new(ErrorCode::NotFound, detail).with_next_step(next)
}

/// Checks whether the slice may move to the target; returns the shard it is on.
pub(super) fn check_request(
    plane: &ControlPlane,
    snapshot: &VersionedFleet,
    tenant: &Tenant,
    new: &NewMigration,
) -> Result<ShardId> {
    check_fields(new)?;
    if tenant.status == TenantStatus::Closed {
        let detail = format!("tenant {:?} is closed", tenant.tenant_id.as_str());
        return Err(Error::new(ErrorCode::TenantClosed, detail));
    }
    let slice = slice_id(&tenant.tenant_id, new);
    let part = tenant.slices.iter().find(|part| part.slice == new.slice);
    let part = part.ok_or_else(|| unknown_slice(tenant, new.slice))?;
    if snapshot.shard(&new.to).is_none() {
        return Err(shards::not_found(plane, &new.to));
    }
    if slicing::is_to_be_cut(tenant, new.slice) {
        let detail = format!("{} is being split or merged", slice.label());
        let error = Error::new(ErrorCode::MoveInProgress, detail);
        return Err(error.with_next_step("Wait until it is done (tenant show)."));
    }
    if let Some(moving) = &part.moving {
        let refused = route::TransitionError::Busy(moving.migration_id.clone());
        return Err(claim_refused(&slice, refused));
    }
    if part.shard_id == new.to {
        return Err(claim_refused(&slice, route::TransitionError::AlreadyOwner));
    }
    if let Some(from) = &new.from
        && *from != part.shard_id
    {
        let here = &part.shard_id;
        let detail = format!("{} is on {here}, not on {from}", slice.label());
        let next = format!("If it should still move, repeat with --from {here} or without --from.");
        return Err(Error::new(ErrorCode::MoveRefused, detail).with_next_step(next));
    }
    if let Some(pin) = &tenant.pin
        && pin.shard_id != new.to
    {
        let detail = format!("the tenant is pinned to {}", pin.shard_id);
        let error = Error::new(ErrorCode::MoveRefused, detail);
        return Err(error.with_next_step("Remove the pin first (placement unpin)."));
    }
    let vetoes = vetoes(snapshot, tenant, new);
    if !vetoes.is_empty() {
        let detail = format!("{} {}", new.to, vetoes.join(" and "));
        return Err(Error::new(ErrorCode::MoveRefused, detail));
    }
    Ok(part.shard_id.clone())
}

fn vetoes(snapshot: &VersionedFleet, tenant: &Tenant, new: &NewMigration) -> Vec<String> {
    let Some(subject) = PlacementSubject::from_slice(tenant, new.slice) else {
        return Vec::new();
    };
    let explanation = explain(&snapshot.fleet, &subject);
    let about = explanation
        .shards
        .into_iter()
        .filter(|shard| shard.shard_id == new.to);
    about
        .flat_map(|shard| shard.vetoes)
        .map(|veto| veto.message)
        .collect()
}

pub(super) fn resolve_terms(
    plane: &ControlPlane,
    new: &NewMigration,
    price: &MigrationEstimate,
) -> MigrationTerms {
    let settings = plane.settings();
    let moves = &settings.moves;
    MigrationTerms {
        window_ms: new.window_ms.unwrap_or(moves.window_ms),
        sync: new.sync,
        max_pause_ms: new.max_pause_ms.or(moves.max_pause_ms),
        needs_approval: moves
            .approval_above_rows
            .is_some_and(|most| price.rows > most),
    }
}

fn no_slice(slice: &SliceId) -> Error {
    let detail = format!(
        "tenant {:?} has no slice {}",
        slice.tenant_id.as_str(),
        slice.slice
    );
    Error::new(ErrorCode::NotFound, detail)
}

fn claim_refused(slice: &SliceId, refused: route::TransitionError) -> Error {
    match refused {
        route::TransitionError::Busy(other) => {
            let detail = format!("migration {other} already moves {}", slice.label());
            let next = format!("Wait for it (migration watch {other}) or cancel it first.");
            Error::new(ErrorCode::MoveInProgress, detail).with_next_step(next)
        }
        route::TransitionError::AlreadyOwner => Error::new(
            ErrorCode::AlreadyThere,
            format!("{} is on that shard already", slice.label()),
        ),
        other => Error::new(ErrorCode::MoveRefused, other.to_string()),
    }
}

/// A new unique migration id. Later ids sort after earlier ones.
pub(crate) fn new_migration_id(plane: &ControlPlane) -> MigrationId {
    new_record_id(plane, "mv")
}

/// The same for another kind of record.
pub(crate) fn new_record_id(plane: &ControlPlane, kind: &str) -> MigrationId {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bytes = [0; 4];
    plane.entropy().fill(&mut bytes);
    let time = u64::try_from(plane.now().unix_ms()).unwrap_or(0);
    let digit = |number: u64, place: u32| {
        let five = (number >> (5 * place)) & 31;
        DIGITS[usize::try_from(five).unwrap_or(0)] as char
    };
    let chance = u64::from(u32::from_be_bytes(bytes));
    let time: String = (0..9).rev().map(|place| digit(time, place)).collect();
    let chance: String = (0..5).rev().map(|place| digit(chance, place)).collect();
    MigrationId(format!("{kind}-{time}-{chance}"))
}
