//! Shards: add, read, change weight, zones, density and state, remove.
//!
//! Every change here also updates the fleet record, so that no placement
//! commits from a stale fleet.

use ballast_domain::bounds::{SHARDS_MAX, SLICES_PER_SHARD_DEFAULT, ZONES_MAX};
use ballast_domain::error::{ErrorCode, suggest_nearest};
use ballast_domain::migration::open_migrations_tally;
use ballast_domain::registry::{CommitError, Precondition, RecordKind, pins_tally, slices_tally};
use ballast_domain::shard::{Pressure, Shard, ShardState};
use ballast_domain::text::count_noun;
use ballast_domain::{Error, RegionId, Result, ShardId, ZoneId};
use serde::{Deserialize, Serialize};

use crate::change::{Attempts, Edit, IfMatch, commit_failed};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::validate;

/// Retries after another process changed the fleet.
const ATTEMPTS: usize = 64;

/// A request to add a shard.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewShard {
    /// Its id.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Where its data is; an embedded shard under the data directory when absent.
    #[schema(max_length = 500, example = "file:shards/shard-5")]
    pub url: Option<String>,
    /// Its region; the default region when absent.
    pub region: Option<RegionId>,
    /// Its zone tags.
    #[serde(default)]
    #[schema(max_items = 32)]
    pub zones: Vec<ZoneId>,
    /// Its capacity relative to other shards; 1 when absent.
    #[schema(minimum = 0.001, maximum = 1_000_000)]
    pub weight: Option<f64>,
    /// Maximum number of slices it may hold.
    #[schema(minimum = 1, maximum = 100_000_000)]
    pub max_slices: Option<u64>,
}

/// Fields to change; absent fields stay as they are.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShardPatch {
    /// Its capacity relative to other shards.
    #[schema(minimum = 0.001, maximum = 1_000_000)]
    pub weight: Option<f64>,
    /// Its zone tags.
    #[schema(max_items = 32)]
    pub zones: Option<Vec<ZoneId>>,
    /// Whether it accepts slices.
    pub state: Option<ShardState>,
    /// Maximum number of slices it may hold.
    #[schema(minimum = 1, maximum = 100_000_000)]
    pub max_slices: Option<u64>,
}

/// A shard and its current slice count.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ShardBody {
    /// The shard.
    #[serde(flatten)]
    pub shard: Versioned<Shard>,
    /// How many slices it holds.
    pub slices: u64,
}

/// Builds and checks the shard that a caller describes.
pub fn build_shard(plane: &ControlPlane, new: &NewShard) -> Result<Shard> {
    let shard = Shard {
        shard_id: new.shard_id.clone(),
        url: new
            .url
            .clone()
            .unwrap_or_else(|| format!("file:shards/{}", new.shard_id)),
        region: new
            .region
            .clone()
            .unwrap_or_else(|| plane.settings().default_region.clone()),
        zones: new.zones.clone(),
        weight: new.weight.unwrap_or(1.0),
        state: ShardState::Active,
        max_slices: new.max_slices.unwrap_or(SLICES_PER_SHARD_DEFAULT),
        pressure: Pressure::Calm,
        created_at: plane.now(),
    };
    check(&shard)?;
    check_url(&shard.url)?;
    Ok(shard)
}

fn check(shard: &Shard) -> Result<()> {
    validate::weight("/weight", shard.weight)?;
    validate::max_slices("/maxSlices", shard.max_slices)?;
    validate::distinct("/zones", &shard.zones, ZONES_MAX)
}

/// Checks a shard's URL. Only engines that this build can open are accepted, and
/// the URL may not contain credentials.
fn check_url(url: &str) -> Result<()> {
    let bad = |message: &str| Err(Error::invalid_field("/url", message));
    validate::text("/url", url, 500)?;
    let Some(path) = url.strip_prefix("file:") else {
        return bad("this build opens file:… shards only, e.g. file:shards/shard-5");
    };
    if path.is_empty() || path.contains(['?', '#', '@']) {
        return bad("a file: URL is a path: it must not be empty or contain ?, # or @");
    }
    // Each directory has one spelling, so that no two shards share it.
    let relative = path.strip_prefix('/').unwrap_or(path);
    if relative
        .split('/')
        .any(|part| matches!(part, "" | "." | ".."))
    {
        return bad("write the path without ., .., empty parts or a trailing slash");
    }
    Ok(())
}

/// Adds a shard. No slice moves; a preview lists the slices that would.
pub async fn add(plane: &ControlPlane, intent: &Intent, new: &NewShard) -> Result<ShardBody> {
    let shard = build_shard(plane, new)?;
    let body = ShardBody {
        shard: Versioned {
            value: shard.clone(),
            version: 1,
        },
        slices: 0,
    };
    let _turn = plane.lock_fleet().await;
    for _ in 0..ATTEMPTS {
        let snapshot = plane.fleet().refresh(plane.registry()).await?;
        if snapshot.shard(&shard.shard_id).is_some() {
            let detail = format!("there is a shard {:?} already", shard.shard_id.as_str());
            return Err(Error::new(ErrorCode::ShardExists, detail));
        }
        if let Some(other) = snapshot
            .shards()
            .iter()
            .find(|other| other.value.url == shard.url)
        {
            let detail = format!(
                "shard {} already stores its data at {}",
                other.value.shard_id, shard.url
            );
            return Err(Error::new(ErrorCode::ShardUrlTaken, detail));
        }
        if snapshot.shards().len() >= SHARDS_MAX {
            let detail = format!("a fleet has at most {SHARDS_MAX} shards");
            return Err(Error::new(ErrorCode::TooMany, detail));
        }
        let writes = vec![typed::create(&shard, Vec::new())?, snapshot.version_bump()];
        let commit = intent.create(plane, "shard.add", writes, Vec::new(), &body)?;
        match plane.registry().commit(commit).await {
            Ok(_) => {
                plane.fleet().refresh(plane.registry()).await?;
                return Ok(body);
            }
            Err(CommitError::Conflict { .. }) => {}
            Err(other) => return Err(commit_failed(other)),
        }
    }
    Err(Error::new(ErrorCode::Busy, "the fleet kept changing").retry_after(1))
}

/// Every shard, ordered by id, with current slice counts.
pub async fn list(plane: &ControlPlane) -> Result<Vec<ShardBody>> {
    let snapshot = plane.fleet().snapshot();
    let tallies = plane
        .registry()
        .tallies(RecordKind::Tenant, &slices_tally(""))
        .await?;
    let bodies = snapshot.shards().iter().map(|shard| ShardBody {
        slices: tallies
            .get(&slices_tally(shard.value.shard_id.as_str()))
            .copied()
            .unwrap_or(0),
        shard: shard.clone(),
    });
    Ok(bodies.collect())
}

/// One shard.
pub async fn get(plane: &ControlPlane, id: &ShardId) -> Result<ShardBody> {
    let Some(shard) = typed::get(plane.registry(), id.as_str()).await? else {
        return Err(not_found(plane, id));
    };
    let slices = count_slices(plane, id).await?;
    Ok(ShardBody { shard, slices })
}

async fn count_slices(plane: &ControlPlane, id: &ShardId) -> Result<u64> {
    read_tally(plane, slices_tally(id.as_str())).await
}

async fn read_tally(plane: &ControlPlane, tally: String) -> Result<u64> {
    let tallies = plane.registry().tallies(RecordKind::Tenant, &tally).await?;
    Ok(tallies.get(&tally).copied().unwrap_or(0))
}

pub(crate) fn not_found(plane: &ControlPlane, id: &ShardId) -> Error {
    let snapshot = plane.fleet().snapshot();
    let known = snapshot
        .shards()
        .iter()
        .map(|shard| shard.value.shard_id.as_str());
    let near = suggest_nearest(id.as_str(), known);
    Error::new(
        ErrorCode::ShardNotFound,
        format!("there is no shard {:?}{near}", id.as_str()),
    )
}

/// Changes a shard.
pub async fn update(
    plane: &ControlPlane,
    intent: &Intent,
    id: &ShardId,
    if_match: &IfMatch,
    patch: &ShardPatch,
) -> Result<ShardBody> {
    let action = match patch {
        ShardPatch {
            state: Some(_),
            weight: None,
            zones: None,
            max_slices: None,
        } => "shard.state",
        ShardPatch {
            weight: Some(_),
            state: None,
            zones: None,
            max_slices: None,
        } => "shard.weight",
        _ => "shard.update",
    };
    let shard = edit_shard(plane, intent, id, if_match, action, |shard| {
        shard.weight = patch.weight.unwrap_or(shard.weight);
        shard.zones = patch.zones.clone().unwrap_or_else(|| shard.zones.clone());
        shard.state = patch.state.unwrap_or(shard.state);
        shard.max_slices = patch.max_slices.unwrap_or(shard.max_slices);
        check(shard)
    })
    .await?;
    let slices = count_slices(plane, id).await?;
    Ok(ShardBody { shard, slices })
}

/// Changes a shard's record together with the fleet record. An edit that changes
/// nothing writes nothing.
pub(crate) async fn edit_shard(
    plane: &ControlPlane,
    intent: &Intent,
    id: &ShardId,
    if_match: &IfMatch,
    action: &'static str,
    mut edit: impl FnMut(&mut Shard) -> Result<()>,
) -> Result<Versioned<Shard>> {
    let _turn = plane.lock_fleet().await;
    let mut attempts = Attempts::new(plane, intent, action, if_match);
    loop {
        let snapshot = plane.fleet().refresh(plane.registry()).await?;
        let Some(old) = snapshot.shard(id) else {
            return Err(not_found(plane, id));
        };
        let mut value = old.value.clone();
        edit(&mut value)?;
        let writes = if value == old.value {
            Vec::new()
        } else {
            vec![typed::update(old.version, &value)?, snapshot.version_bump()]
        };
        let edit = Edit {
            old: old.version,
            value,
            writes,
            expects: Vec::new(),
        };
        if let Some(changed) = attempts.commit(edit).await? {
            plane.fleet().refresh(plane.registry()).await?;
            return Ok(changed);
        }
    }
}

/// Removes an empty shard from the fleet.
pub async fn remove(
    plane: &ControlPlane,
    intent: &Intent,
    id: &ShardId,
    if_match: &IfMatch,
) -> Result<()> {
    let _turn = plane.lock_fleet().await;
    let mut attempts = Attempts::new(plane, intent, "shard.remove", if_match);
    loop {
        let snapshot = plane.fleet().refresh(plane.registry()).await?;
        let Some(old) = snapshot.shard(id) else {
            return Err(not_found(plane, id));
        };
        let slices = count_slices(plane, id).await?;
        if slices > 0 {
            let detail = format!("shard {id} still holds {}", count_noun(slices, "slice"));
            return Err(Error::new(ErrorCode::ShardNotEmpty, detail));
        }
        let pins = read_tally(plane, pins_tally(id.as_str())).await?;
        if pins > 0 {
            let verb = if pins == 1 { "is" } else { "are" };
            let detail = format!("{} {verb} pinned to shard {id}", count_noun(pins, "tenant"));
            return Err(Error::new(ErrorCode::ShardNotEmpty, detail)
                .with_next_step("Remove the pins first (placement unpin)."));
        }
        let open = plane
            .registry()
            .tallies(RecordKind::Migration, &open_migrations_tally(id))
            .await?;
        if let Some(moves) = open.get(&open_migrations_tally(id)) {
            let verb = if *moves == 1 { "is" } else { "are" };
            let moves = count_noun(*moves, "migration");
            let detail = format!("{moves} from or to shard {id} {verb} still running");
            return Err(Error::new(ErrorCode::ShardNotEmpty, detail).with_next_step(
                "Wait for them, or end their windows (migration list, complete).",
            ));
        }
        // A slice placed here meanwhile makes the tally 1, so this commit fails;
        // a slice placed later conflicts on the fleet record.
        let writes = vec![
            typed::remove(old.version, &old.value),
            snapshot.version_bump(),
        ];
        let none = |tally| Precondition::TallyBelow(RecordKind::Tenant, tally, 1);
        let unused = vec![
            none(slices_tally(id.as_str())),
            none(pins_tally(id.as_str())),
            Precondition::TallyBelow(RecordKind::Migration, open_migrations_tally(id), 1),
        ];
        let edit = Edit {
            old: old.version,
            value: (),
            writes,
            expects: unused,
        };
        if attempts.commit(edit).await?.is_some() {
            plane.fleet().refresh(plane.registry()).await?;
            return Ok(());
        }
    }
}
