//! Looks at the shards again and again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ballast_control_plane::load::now::ShardHeat;
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::{ControlPlane, tenants};
use ballast_domain::tenant::SliceId;
use ballast_domain::{Result, ShardId};
use ballast_vote_shard::ShardError;
use tokio::sync::watch;

use super::count::{Before, Fleet, Heat, Looked, count};
use super::series::{Sample, Series};
use crate::page::words::whole;

/// How often it is looked, at the most.
const EVERY: Duration = Duration::from_secs(1);
/// The share of the time that looking may take: a twentieth.
const SHARE: u32 = 20;
/// A shard without open polls would have one wait for the first.
const PATIENCE: Duration = Duration::from_millis(20);
/// Moves that are asked who owns their slice.
const MOVES_MAX: u32 = 1_000;

/// The newest figures.
pub(crate) struct Census {
    newest: watch::Sender<Arc<Fleet>>,
    series: Mutex<Series>,
}

impl Default for Census {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Arc::new(Fleet::default())),
            series: Mutex::default(),
        }
    }
}

impl Census {
    /// The newest figures.
    pub(crate) fn newest(&self) -> Arc<Fleet> {
        self.newest.borrow().clone()
    }

    /// The figures as they change.
    pub(crate) fn follow(&self) -> watch::Receiver<Arc<Fleet>> {
        self.newest.subscribe()
    }

    /// The last minutes.
    pub(crate) fn series(&self) -> Vec<Sample> {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.all()
    }

    /// Looks until it is dropped.
    pub(crate) async fn keep(&self, plane: &ControlPlane) {
        let mut before = Before::default();
        loop {
            let began = plane.now();
            match look(plane, &mut before).await {
                Ok(fleet) => {
                    let at = fleet.at.unwrap_or(began);
                    let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
                    series.add(at, &fleet);
                    drop(series);
                    self.newest.send_replace(Arc::new(fleet));
                }
                Err(error) => tracing::debug!(%error, "the fleet cannot be looked at right now"),
            }
            let took = plane.now().unix_ms() - began.unix_ms();
            let took = Duration::from_millis(u64::try_from(took).unwrap_or(0));
            tokio::time::sleep(EVERY.max(took * SHARE)).await;
        }
    }
}

async fn look(plane: &ControlPlane, before: &mut Before) -> Result<Fleet> {
    let snapshot = plane.fleet().snapshot();
    let mut looked = BTreeMap::new();
    for shard in snapshot.shards() {
        let id = &shard.value.shard_id;
        looked.insert(id.clone(), shard_now(plane, id).await);
    }
    let owners = owners(plane).await?;
    let mut fleet = count(before, plane.now(), looked, &owners);
    for (id, heat) in heats(plane) {
        if let Some(shard) = fleet.shards.get_mut(&id) {
            shard.heat = Some(heat);
        }
    }
    Ok(fleet)
}

/// How hot shards are, by the load that the control plane measures.
fn heats(plane: &ControlPlane) -> Vec<(ShardId, Heat)> {
    let Some(load) = plane.load() else {
        return Vec::new();
    };
    let heat = |(id, heat): (ShardId, ShardHeat)| {
        let told = Heat {
            percent: whole(heat.heat * 100.0),
            fullest: heat.fullest,
            votes_max: whole(heat.votes_per_second_max),
        };
        (id, told)
    };
    load.heats().into_iter().map(heat).collect()
}

async fn shard_now(plane: &ControlPlane, id: &ShardId) -> Looked {
    let away = |why: String| Looked {
        trouble: Some(why),
        ..Looked::default()
    };
    let Some(movers) = plane.movers() else {
        return away("it is starting".to_owned());
    };
    let shard = match movers.shards.shard(id) {
        Ok(shard) => shard,
        Err(error) => return away(error.to_string()),
    };
    let usage = shard.usage().await;
    let tallies = match tokio::time::timeout(PATIENCE, shard.tallies_since(0)).await {
        Ok(Ok((_, tallies))) => tallies,
        Ok(Err(error @ (ShardError::Unavailable { .. } | ShardError::Damaged { .. }))) => {
            return away(error.to_string());
        }
        // None is open.
        Ok(Err(_)) | Err(_) => Vec::new(),
    };
    Looked {
        trouble: usage.trouble.clone(),
        usage,
        tallies,
    }
}

/// Who owns the slices that are on more than one shard.
async fn owners(plane: &ControlPlane) -> Result<HashMap<SliceId, ShardId>> {
    let open = MigrationFilter {
        open: Some(true),
        ..MigrationFilter::default()
    };
    let mut owners = HashMap::new();
    if plane.workflows().is_none() {
        return Ok(owners);
    }
    for body in migrations::list(plane, &open, None, MOVES_MAX).await? {
        let moved = &body.migration.value;
        let tenant = tenants::get(plane, &moved.tenant_id).await?;
        for slice in &tenant.value.slices {
            let id = SliceId {
                tenant_id: moved.tenant_id.clone(),
                slice: slice.slice,
            };
            owners.insert(id, slice.shard_id.clone());
        }
    }
    Ok(owners)
}
