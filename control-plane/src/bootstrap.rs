//! The first start: creates embedded shards and the first admin token in one
//! commit, so that a crash leaves either nothing or everything.

use ballast_domain::credential::Credential;
use ballast_domain::registry::{CommitError, RecordKind, RecordWrite};
use ballast_domain::{Error, ErrorCode, Result};

use crate::change::commit_failed;
use crate::fleet::VersionedFleet;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;
use crate::shards::{NewShard, build_shard};
use crate::tokens;

/// Whether this registry has never been started.
pub async fn is_needed(plane: &ControlPlane) -> Result<bool> {
    let snapshot = VersionedFleet::read(plane.registry()).await?;
    Ok(snapshot.is_new() && !tokens::any_exists(plane).await?)
}

/// Creates `count` embedded shards in the default region, and makes `secret`
/// the first admin token.
pub async fn run(plane: &ControlPlane, count: u32, secret: &Credential) -> Result<()> {
    let snapshot = VersionedFleet::read(plane.registry()).await?;
    let mut writes: Vec<RecordWrite> = vec![
        snapshot.version_bump(),
        tokens::first_token_write(plane, secret)?,
    ];
    for number in 1..=count {
        let shard_id = format!("shard-{number}")
            .parse()
            .map_err(|bad| Error::internal("name a shard", bad))?;
        let shard = NewShard {
            shard_id,
            url: None,
            region: None,
            zones: Vec::new(),
            weight: None,
            max_slices: None,
        };
        writes.push(typed::create(&build_shard(plane, &shard)?, Vec::new())?);
    }
    let commit = Intent::ballast("up", "first start").commit("fleet.create", writes, Vec::new());
    match plane.registry().commit(commit).await {
        Ok(_) => {
            plane.fleet().refresh(plane.registry()).await?;
            Ok(())
        }
        Err(CommitError::Conflict { key, .. }) if key.kind == RecordKind::Fleet => Err(Error::new(
            ErrorCode::Busy,
            "another process has just started this fleet",
        )),
        Err(other) => Err(commit_failed(other)),
    }
}
