//! Reconciles the fleet: follows the registry's change feed, refreshes the fleet
//! cache, and records when a shard fills up or has room again.
//!
//! A pressure change is an ordinary change of the shard's record, with an event,
//! so that a placement can later be explained by what was true at the time.

use std::time::Duration;

use ballast_domain::registry::{RecordKind, RegistryResult, slices_tally};
use ballast_domain::shard::Pressure;
use ballast_domain::{Result, ShardId};

use crate::change::IfMatch;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::reconcile::{self, Reconciler};
use crate::shards;

/// Runs the fleet reconciler until the task is dropped.
pub async fn run(plane: ControlPlane) {
    let reconciler = FleetReconciler { plane, revision: 0 };
    reconcile::run(reconciler).await;
}

struct FleetReconciler {
    plane: ControlPlane,
    /// The newest revision that was processed.
    revision: u64,
}

impl Reconciler for FleetReconciler {
    const NAME: &'static str = "fleet";
    /// Handles a burst of creates in one round, not one round per tenant.
    const INTERVAL: Duration = Duration::from_millis(50);
    const RETRY_AFTER: Duration = Duration::from_secs(1);

    /// Waits for a change, then refreshes the cache, records pressure changes and
    /// deletes expired replies.
    async fn reconcile(&mut self) -> Result<()> {
        let plane = &self.plane;
        let registry = plane.registry();
        registry.wait_past(self.revision).await?;
        let newest = registry.revision().await?;
        if newest > self.revision {
            refresh_fleet(plane).await?;
            for (shard, pressure) in pressure_changes(plane) {
                record_pressure(plane, &shard, pressure).await?;
            }
            registry.forget_replies(plane.now()).await?;
        }
        self.revision = newest;
        Ok(())
    }
}

async fn refresh_fleet(plane: &ControlPlane) -> RegistryResult<()> {
    plane.fleet().refresh(plane.registry()).await?;
    let tallies = plane
        .registry()
        .tallies(RecordKind::Tenant, &slices_tally(""))
        .await?;
    plane.fleet().update_counts(&tallies);
    Ok(())
}

/// The shards whose recorded pressure is outdated, with the current one.
fn pressure_changes(plane: &ControlPlane) -> Vec<(ShardId, Pressure)> {
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

async fn record_pressure(plane: &ControlPlane, id: &ShardId, pressure: Pressure) -> Result<()> {
    let reason = match pressure {
        Pressure::Busy => "it is filling up: new tenants are placed on other shards",
        Pressure::Calm => "it has room again",
    };
    let intent = Intent::ballast("keeper", reason);
    shards::edit_shard(
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
