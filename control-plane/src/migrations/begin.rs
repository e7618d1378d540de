//! A move is asked for: checked, priced, and written down together with its
//! claim on the slice, in one commit.

use ballast_domain::error::ErrorCode;
use ballast_domain::migration::{Asked, Figures, Migration, Price, Stage, Terms};
use ballast_domain::moving::MoveId;
use ballast_domain::placement::{Subject, explain};
use ballast_domain::registry::{CommitError, Expect, Kind, slices_on};
use ballast_domain::tenant::{SliceId, Tenant, TenantStatus};
use ballast_domain::{Error, Result, ShardId, TenantId};
use ballast_migration_engine::protocol::route;
use serde::Deserialize;
use serde_json::json;

use super::body::{self, MigrationBody};
use super::records::part;
use super::{WORKFLOW, get, left_behind, price};
use crate::change::commit_failed;
use crate::fleet::FleetSnapshot;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::workflows::engine;
use crate::{shards, slicing, tenants, validate};

/// How often it is decided anew because something changed meanwhile.
const ATTEMPTS: usize = 16;
/// A window longer than this is a mistake.
const WINDOW_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Shards that a slice passes over, at the most.
const PASSED_OVER_MAX: usize = 1_000;
/// So is a pause.
const PAUSE_MAX_MS: u64 = 60 * 60 * 1_000;

/// What a caller says of a move.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMove {
    /// The shard that the slice is to come to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// The shard that the caller believes it to be on: it is moved only from
    /// there.
    #[serde(rename = "fromShardID")]
    pub from: Option<ShardId>,
    /// Which slice of the tenant; its only one when absent.
    #[serde(default)]
    pub slice: u32,
    /// How long both sides are kept after the cutover, in milliseconds.
    #[schema(maximum = 2_592_000_000_u64)]
    pub window_ms: Option<u64>,
    /// Whether, within the window, a write is acknowledged only when both sides
    /// have it: then nothing that was acknowledged is lost with the target. Votes
    /// take a little longer, and wait while one of the two is away.
    #[serde(default)]
    pub sync: bool,
    /// How long nobody may be able to vote at the cutover, in milliseconds: it
    /// waits for a moment that promises so.
    #[schema(minimum = 1, maximum = 3_600_000)]
    pub max_pause_ms: Option<u64>,
    /// Shards that outscore the target and are to be passed over on purpose:
    /// placement does not call the slice back to them.
    #[serde(rename = "passedOverShardIDs", default)]
    #[schema(max_items = 1000)]
    pub passed_over: Vec<ShardId>,
    /// Only says what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// A tenant that was cut has no slice 0 any more: when it has one slice only,
/// that is the one that is meant.
pub(super) fn of_slice(tenant: &Tenant, new: &NewMove) -> NewMove {
    let mut new = new.clone();
    if let [only] = tenant.slices.as_slice()
        && new.slice == 0
    {
        new.slice = only.slice;
    }
    new
}

pub(super) fn slice_id(id: &TenantId, new: &NewMove) -> SliceId {
    SliceId {
        tenant_id: id.clone(),
        slice: new.slice,
    }
}

/// Asks for a move.
pub async fn begin(
    plane: &ControlPlane,
    intent: &Intent,
    tenant: &TenantId,
    new: &NewMove,
) -> Result<MigrationBody> {
    let migration = written(plane, intent, &fresh(plane), tenant, new).await?;
    start(plane, &migration.value).await;
    body::shown(plane, migration).await
}

/// Has a move worked on. What fails here is made good by the watchman.
pub(super) async fn start(plane: &ControlPlane, migration: &Migration) {
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
        tracing::warn!(%id, error, "a move could not be started, and will be");
    }
}

/// Whether a new move may be called so. Ways back and later executions of a move
/// are called after it: nothing else may look like one.
fn named(id: &MoveId) -> Result<()> {
    body::move_id(&id.0).map_err(|_| {
        refused_name(
            id,
            "letters, digits, '-', '_' and '.' make a name, 80 at the most",
        )
    })?;
    let is_run = |(_, run): (&str, &str)| run.bytes().all(|byte| byte.is_ascii_digit());
    if id.is_back() || id.0.rsplit_once('.').is_some_and(is_run) {
        return Err(refused_name(
            id,
            "names that end in -back or in .NUMBER are taken",
        ));
    }
    Ok(())
}

fn refused_name(id: &MoveId, why: &str) -> Error {
    let detail = format!("a move cannot be called {:?}: {why}", id.0);
    Error::new(ErrorCode::InvalidField, detail)
}

/// Writes a move down and claims its slice, unless it is there.
pub(super) async fn written(
    plane: &ControlPlane,
    intent: &Intent,
    id: &MoveId,
    tenant_id: &TenantId,
    new: &NewMove,
) -> Result<Versioned<Migration>> {
    if let Some(there) = typed::get::<Migration>(plane.registry(), &id.0).await? {
        // 0 also stands for the only slice that there was.
        let slice = [0, there.value.slice].contains(&new.slice);
        let same = there.value.tenant_id == *tenant_id && slice && there.value.to == new.to;
        return match same {
            true => Ok(there),
            false => Err(Error::new(
                ErrorCode::IdempotencyMismatch,
                "this name was used for another move",
            )),
        };
    }
    named(id)?;
    let _turn = plane.turn(tenant_id.as_str()).await;
    for _ in 0..ATTEMPTS {
        let mut tenant = tenants::get(plane, tenant_id).await?;
        let new = &of_slice(&tenant.value, new);
        let snapshot = plane.fleet().refresh(plane.registry()).await?;
        let from = checked(plane, &snapshot, &tenant.value, new)?;
        left_behind::check(plane, tenant_id, &new.to).await?;
        let slice = slice_id(tenant_id, new);
        let price = price::price(plane, &slice, &from, &new.to).await?;
        let now = plane.now();
        let part = part(&mut tenant.value, new.slice).ok_or_else(|| no_slice(&slice))?;
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
            terms: terms(plane, new, &price),
            stage: Stage::Asked,
            asked: Asked::default(),
            waiting_for: None,
            run: 0,
            price: Some(price),
            figures: Figures::default(),
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
        let answer = body::at_first(migration, plane.now());
        let commit = intent.create(plane, "migration.begin", writes, expects, &answer)?;
        match plane.registry().commit(commit).await {
            Ok(_) => return get(plane, id).await,
            Err(CommitError::Conflict { .. } | CommitError::LimitReached { .. }) => {}
            Err(other) => return Err(commit_failed(other)),
        }
    }
    Err(Error::new(ErrorCode::Busy, "the tenant or the fleet kept changing").retry_after(1))
}

fn expectations(snapshot: &FleetSnapshot, new: &NewMove) -> Vec<Expect> {
    let mut expects = vec![snapshot.unchanged()];
    if let Some(shard) = snapshot.fleet.get(&new.to) {
        let tally = slices_on(shard.id.as_str());
        expects.push(Expect::TallyBelow(Kind::Tenant, tally, shard.max_slices));
    }
    expects
}

fn regions(snapshot: &FleetSnapshot, shards: [&ShardId; 2]) -> Vec<ballast_domain::RegionId> {
    let known = shards.into_iter().filter_map(|shard| snapshot.shard(shard));
    let mut regions: Vec<_> = known.map(|shard| shard.value.region.clone()).collect();
    regions.sort();
    regions.dedup();
    regions
}

/// Whether the move may be, and from where.
pub(super) fn checked(
    plane: &ControlPlane,
    snapshot: &FleetSnapshot,
    tenant: &Tenant,
    new: &NewMove,
) -> Result<ShardId> {
    if let Some(window) = new.window_ms
        && window > WINDOW_MAX_MS
    {
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
    if tenant.status == TenantStatus::Closed {
        let detail = format!("tenant {:?} is closed", tenant.tenant_id.as_str());
        return Err(Error::new(ErrorCode::TenantClosed, detail));
    }
    let slice = slice_id(&tenant.tenant_id, new);
    let part = tenant.slices.iter().find(|part| part.slice == new.slice);
    let part = part.ok_or_else(|| {
        let slices = tenant.slices.iter().map(|slice| slice.slice.to_string());
        let slices: Vec<String> = slices.collect();
        let detail = format!(
            "tenant {:?} has no slice {}: it has {}",
            tenant.tenant_id.as_str(),
            new.slice,
            slices.join(", ")
        );
        let next = format!("Name one of its slices (--slice): {}.", slices.join(", "));
        Error::new(ErrorCode::NotFound, detail).next(next)
    })?;
    if snapshot.shard(&new.to).is_none() {
        return Err(shards::not_found(plane, &new.to));
    }
    if slicing::is_to_be_cut(tenant, new.slice) {
        let detail = format!("{slice} is being cut");
        let error = Error::new(ErrorCode::MoveInProgress, detail);
        return Err(error.next("Wait until it is done (tenant show)."));
    }
    if let Some(moving) = &part.moving {
        let refused = route::Refused::Busy(moving.move_id.clone());
        return Err(claim_refused(&slice, refused));
    }
    if part.shard_id == new.to {
        return Err(claim_refused(&slice, route::Refused::There));
    }
    if let Some(from) = &new.from
        && *from != part.shard_id
    {
        let here = &part.shard_id;
        let detail = format!("{slice} is on {here}, not on {from}");
        let next =
            format!("Look whether it is still to be moved; then say --from {here}, or nothing.");
        return Err(Error::new(ErrorCode::MoveRefused, detail).next(next));
    }
    if let Some(pin) = &tenant.pin
        && pin.shard_id != new.to
    {
        let detail = format!("the tenant is pinned to {}", pin.shard_id);
        let error = Error::new(ErrorCode::MoveRefused, detail);
        return Err(error.next("Take the pin away first (placement unpin)."));
    }
    let vetoes = vetoes(snapshot, tenant, new);
    if !vetoes.is_empty() {
        let detail = format!("{} {}", new.to, vetoes.join(" and "));
        return Err(Error::new(ErrorCode::MoveRefused, detail));
    }
    Ok(part.shard_id.clone())
}

fn vetoes(snapshot: &FleetSnapshot, tenant: &Tenant, new: &NewMove) -> Vec<String> {
    let Some(subject) = Subject::of(tenant, new.slice) else {
        return Vec::new();
    };
    let told = explain(&snapshot.fleet, &subject);
    let about = told
        .shards
        .into_iter()
        .filter(|shard| shard.shard_id == new.to);
    about
        .flat_map(|shard| shard.vetoes)
        .map(|veto| veto.message)
        .collect()
}

pub(super) fn terms(plane: &ControlPlane, new: &NewMove, price: &Price) -> Terms {
    let settings = plane.settings();
    let moves = &settings.moves;
    Terms {
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

fn claim_refused(slice: &SliceId, refused: route::Refused) -> Error {
    match refused {
        route::Refused::Busy(other) => {
            let detail = format!("move {other} is at work on {slice}");
            let next = format!("Wait for it (migration watch {other}), or cancel it first.");
            Error::new(ErrorCode::MoveInProgress, detail).next(next)
        }
        route::Refused::There => Error::new(
            ErrorCode::AlreadyThere,
            format!("{slice} is on that shard already"),
        ),
        other => Error::new(ErrorCode::MoveRefused, other.to_string()),
    }
}

/// A name that nobody else comes upon; later ones sort behind earlier ones.
pub(crate) fn fresh(plane: &ControlPlane) -> MoveId {
    fresh_of(plane, "mv")
}

/// The same for another kind of thing.
pub(crate) fn fresh_of(plane: &ControlPlane, kind: &str) -> MoveId {
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
    MoveId(format!("{kind}-{time}-{chance}"))
}
