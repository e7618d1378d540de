//! Shards: add, read, change weight, zones, density and state, remove.
//!
//! Every change here also changes the fleet record, so that no placement is
//! ever committed from a fleet that is no longer so.

use ballast_domain::bounds::{SHARDS_MAX, SLICES_PER_SHARD_DEFAULT, ZONES_MAX};
use ballast_domain::error::{ErrorCode, did_you_mean};
use ballast_domain::migration::open_on;
use ballast_domain::registry::{CommitError, Expect, Kind, pinned_to, slices_on};
use ballast_domain::shard::{Pressure, Shard, ShardState};
use ballast_domain::{Error, RegionId, Result, ShardId, ZoneId};
use serde::{Deserialize, Serialize};

use crate::change::{Attempts, Edit, IfMatch, commit_failed};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::validate;

/// How often one is made anew because another process changed the fleet.
const ATTEMPTS: usize = 64;

/// What a caller says of a new shard.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewShard {
    /// Its name.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Where its data is; an embedded shard under the data directory when
    /// absent.
    #[schema(max_length = 500, example = "file:shards/shard-5")]
    pub url: Option<String>,
    /// The region it stands in; the default region when absent.
    pub region: Option<RegionId>,
    /// Its tags.
    #[serde(default)]
    #[schema(max_items = 32)]
    pub zones: Vec<ZoneId>,
    /// Its capacity beside the others'; 1 when absent.
    #[schema(minimum = 0.001, maximum = 1_000_000)]
    pub weight: Option<f64>,
    /// The most slices it may hold.
    #[schema(minimum = 1, maximum = 100_000_000)]
    pub max_slices: Option<u64>,
}

/// What a caller wants changed; absent fields stay as they are.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShardPatch {
    /// Its capacity beside the others'.
    #[schema(minimum = 0.001, maximum = 1_000_000)]
    pub weight: Option<f64>,
    /// Its tags.
    #[schema(max_items = 32)]
    pub zones: Option<Vec<ZoneId>>,
    /// Whether it takes slices.
    pub state: Option<ShardState>,
    /// The most slices it may hold.
    #[schema(minimum = 1, maximum = 100_000_000)]
    pub max_slices: Option<u64>,
}

/// A shard with what is known of it now.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ShardBody {
    /// The shard.
    #[serde(flatten)]
    pub shard: Versioned<Shard>,
    /// How many slices it holds.
    pub slices: u64,
}

/// The shard that a caller describes, checked.
pub fn described(plane: &ControlPlane, new: &NewShard) -> Result<Shard> {
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

/// A shard is a URL. Only engines that this build can open are taken, and no
/// secret may be in it.
fn check_url(url: &str) -> Result<()> {
    let bad = |message: &str| Err(Error::invalid_field("/url", message));
    validate::text("/url", url, 500)?;
    let Some(path) = url.strip_prefix("file:") else {
        return bad("this build opens file:… shards only, e.g. file:shards/shard-5");
    };
    if path.is_empty() || path.contains(['?', '#', '@']) {
        return bad("a file: URL is a path: it is not empty and has none of ?, # and @ in it");
    }
    // One place has one spelling, so that no two shards share a directory.
    let relative = path.strip_prefix('/').unwrap_or(path);
    if relative
        .split('/')
        .any(|part| matches!(part, "" | "." | ".."))
    {
        return bad("write the path without ., .. and empty parts, and without a slash at its end");
    }
    Ok(())
}

/// Adds a shard. Nobody moves: who would is told by a preview.
pub async fn add(plane: &ControlPlane, intent: &Intent, new: &NewShard) -> Result<ShardBody> {
    let shard = described(plane, new)?;
    let body = ShardBody {
        shard: Versioned {
            value: shard.clone(),
            version: 1,
        },
        slices: 0,
    };
    let _turn = plane.fleet_turn().await;
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
                "shard {} stores its data at {}",
                other.value.shard_id, shard.url
            );
            return Err(Error::new(ErrorCode::ShardUrlTaken, detail));
        }
        if snapshot.shards().len() >= SHARDS_MAX {
            let detail = format!("a fleet has at most {SHARDS_MAX} shards");
            return Err(Error::new(ErrorCode::TooMany, detail));
        }
        let writes = vec![typed::create(&shard, Vec::new())?, snapshot.touched()];
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

/// Every shard, in the order of their ids, with counts as of now.
pub async fn list(plane: &ControlPlane) -> Result<Vec<ShardBody>> {
    let snapshot = plane.fleet().snapshot();
    let tallies = plane
        .registry()
        .tallies(Kind::Tenant, &slices_on(""))
        .await?;
    let bodies = snapshot.shards().iter().map(|shard| ShardBody {
        slices: tallies
            .get(&slices_on(shard.value.shard_id.as_str()))
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
    let slices = slices_of(plane, id).await?;
    Ok(ShardBody { shard, slices })
}

async fn slices_of(plane: &ControlPlane, id: &ShardId) -> Result<u64> {
    tally(plane, slices_on(id.as_str())).await
}

async fn tally(plane: &ControlPlane, tally: String) -> Result<u64> {
    let tallies = plane.registry().tallies(Kind::Tenant, &tally).await?;
    Ok(tallies.get(&tally).copied().unwrap_or(0))
}

pub(crate) fn not_found(plane: &ControlPlane, id: &ShardId) -> Error {
    let snapshot = plane.fleet().snapshot();
    let known = snapshot
        .shards()
        .iter()
        .map(|shard| shard.value.shard_id.as_str());
    let near = did_you_mean(id.as_str(), known);
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
    let shard = edit(plane, intent, id, if_match, action, |shard| {
        shard.weight = patch.weight.unwrap_or(shard.weight);
        shard.zones = patch.zones.clone().unwrap_or_else(|| shard.zones.clone());
        shard.state = patch.state.unwrap_or(shard.state);
        shard.max_slices = patch.max_slices.unwrap_or(shard.max_slices);
        check(shard)
    })
    .await?;
    let slices = slices_of(plane, id).await?;
    Ok(ShardBody { shard, slices })
}

/// Changes a shard's record and the fleet record with it; an edit that
/// changes nothing writes nothing.
pub(crate) async fn edit(
    plane: &ControlPlane,
    intent: &Intent,
    id: &ShardId,
    if_match: &IfMatch,
    action: &'static str,
    mut edit: impl FnMut(&mut Shard) -> Result<()>,
) -> Result<Versioned<Shard>> {
    let _turn = plane.fleet_turn().await;
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
            vec![typed::update(old.version, &value)?, snapshot.touched()]
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

/// Takes an empty shard out of the fleet.
pub async fn remove(
    plane: &ControlPlane,
    intent: &Intent,
    id: &ShardId,
    if_match: &IfMatch,
) -> Result<()> {
    let _turn = plane.fleet_turn().await;
    let mut attempts = Attempts::new(plane, intent, "shard.remove", if_match);
    loop {
        let snapshot = plane.fleet().refresh(plane.registry()).await?;
        let Some(old) = snapshot.shard(id) else {
            return Err(not_found(plane, id));
        };
        let slices = slices_of(plane, id).await?;
        if slices > 0 {
            let detail = format!("shard {id} still holds {slices} slices");
            return Err(Error::new(ErrorCode::ShardNotEmpty, detail));
        }
        let pins = tally(plane, pinned_to(id.as_str())).await?;
        if pins > 0 {
            let detail = format!("{pins} tenants are pinned to shard {id}");
            return Err(Error::new(ErrorCode::ShardNotEmpty, detail)
                .next("Take the pins away first (placement unpin)."));
        }
        let open = plane
            .registry()
            .tallies(Kind::Migration, &open_on(id))
            .await?;
        if let Some(moves) = open.get(&open_on(id)) {
            let detail = format!("{moves} moves from or to shard {id} are not over");
            return Err(Error::new(ErrorCode::ShardNotEmpty, detail)
                .next("Wait for them, or end their windows (migration list, complete)."));
        }
        // A slice placed here meanwhile makes the tally 1 and this commit fail;
        // one placed from now on finds the fleet record changed.
        let writes = vec![typed::remove(old.version, &old.value), snapshot.touched()];
        let none = |tally| Expect::TallyBelow(Kind::Tenant, tally, 1);
        let unused = vec![
            none(slices_on(id.as_str())),
            none(pinned_to(id.as_str())),
            Expect::TallyBelow(Kind::Migration, open_on(id), 1),
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
