//! The keeper of the fleet: follows the registry's feed, keeps the snapshot
//! in memory fresh, and notes when a shard fills up or empties again.
//!
//! It takes no orders: it finds its work in the registry. What it notes is an
//! ordinary change of a shard's record, with an event, so that a placement
//! can be explained later by what was true then.

use std::time::Duration;

use ballast_domain::registry::{Kind, StoreResult, slices_on};
use ballast_domain::shard::Pressure;
use ballast_domain::{Result, ShardId};

use crate::change::IfMatch;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::shards;

/// A burst of creates is taken in once per this interval, not once per tenant.
const BREATH: Duration = Duration::from_millis(50);
/// How long to wait after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Keeps the fleet until the task is dropped.
pub async fn keep(plane: ControlPlane) {
    let mut revision = 0;
    loop {
        match round(&plane, revision).await {
            Ok(seen) => {
                revision = seen;
                tokio::time::sleep(BREATH).await;
            }
            Err(error) => {
                tracing::warn!(%error, "keeping the fleet failed, trying again");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

/// Waits for a change, takes it in, and notes pressures that changed.
async fn round(plane: &ControlPlane, revision: u64) -> Result<u64> {
    let registry = plane.registry();
    registry.wait_past(revision).await?;
    let seen = registry.revision().await?;
    if seen > revision {
        take_in(plane).await?;
        for (shard, pressure) in overdue(plane) {
            note(plane, &shard, pressure).await?;
        }
        registry.forget_replies(plane.now()).await?;
    }
    Ok(seen)
}

async fn take_in(plane: &ControlPlane) -> StoreResult<()> {
    plane.fleet().refresh(plane.registry()).await?;
    let tallies = plane
        .registry()
        .tallies(Kind::Tenant, &slices_on(""))
        .await?;
    plane.fleet().recount(&tallies);
    Ok(())
}

/// The shards whose noted pressure is no longer right.
fn overdue(plane: &ControlPlane) -> Vec<(ShardId, Pressure)> {
    let thresholds = plane.settings().pressure;
    let snapshot = plane.fleet().snapshot();
    snapshot
        .fleet
        .shards()
        .iter()
        .map(|shard| (shard, shard.pressure.after(shard.utilisation(), thresholds)))
        .filter(|(shard, pressure)| *pressure != shard.pressure)
        .map(|(shard, pressure)| (shard.id.clone(), pressure))
        .collect()
}

async fn note(plane: &ControlPlane, id: &ShardId, pressure: Pressure) -> Result<()> {
    let reason = match pressure {
        Pressure::Busy => "it is filling up: new tenants prefer other shards",
        Pressure::Calm => "it has room again",
    };
    let intent = Intent::ballast("keeper", reason);
    shards::edit(
        plane,
        &intent,
        id,
        &IfMatch::Any,
        "shard.pressure",
        |shard| {
            shard.pressure = pressure;
            Ok(())
        },
    )
    .await?;
    tracing::info!(shard = %id, pressure = pressure.name(), "shard pressure changed");
    Ok(())
}
