//! The census task: polls the shards at an interval.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ballast_control_plane::load::current::{LoadFilter, ShardHeat};
use ballast_control_plane::load::history::{self, TimeRange};
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::{ControlPlane, tenants};
use ballast_domain::tenant::SliceId;
use ballast_domain::{Result, ShardId, Timestamp};
use ballast_vote_shard::ShardError;
use tokio::sync::watch;

use super::count::{FleetFigures, Heat, PreviousRound, ShardReading, count};
use super::series::{RateSample, SPAN_MS, Series};
use crate::page::format::whole;

/// The shortest interval between rounds.
const EVERY: Duration = Duration::from_secs(1);
/// Rounds may take at most one twentieth of the time.
const SHARE: u32 = 20;
/// How long to wait for a shard's counts. A shard without open polls never answers.
const COUNTS_TIMEOUT: Duration = Duration::from_millis(20);
/// Running migrations whose slices' owners are looked up.
const MOVES_MAX: u32 = 1_000;

/// The newest figures.
pub(crate) struct Census {
    newest: watch::Sender<Arc<FleetFigures>>,
    series: Mutex<Series>,
}

impl Default for Census {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Arc::new(FleetFigures::default())),
            series: Mutex::default(),
        }
    }
}

impl Census {
    /// The newest figures.
    pub(crate) fn newest(&self) -> Arc<FleetFigures> {
        self.newest.borrow().clone()
    }

    /// Follows the figures as they change.
    pub(crate) fn follow(&self) -> watch::Receiver<Arc<FleetFigures>> {
        self.newest.subscribe()
    }

    /// The rates of the last minutes.
    pub(crate) fn series(&self) -> Vec<RateSample> {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.all()
    }

    /// Reads the load that was recorded before this process started, so that charts
    /// are not empty after a restart.
    async fn load_recorded(&self, plane: &ControlPlane) {
        let from = Timestamp::from_unix_ms(plane.now().unix_ms() - SPAN_MS);
        let read = async {
            let range = TimeRange::new(plane, Some(from), None)?;
            history::show(plane, range, None, LoadFilter::default()).await
        };
        match read.await {
            Ok(recorded) => {
                let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
                series.prepend_recorded(&recorded.shards);
            }
            // Charts then begin with this process.
            Err(error) => tracing::debug!(%error, "cannot read recorded load for charts"),
        }
    }

    /// Runs rounds until it is aborted.
    pub(crate) async fn run(&self, plane: &ControlPlane) {
        self.load_recorded(plane).await;
        let mut before = PreviousRound::default();
        // A rate needs two rounds.
        let mut has_rates = false;
        loop {
            let began = plane.now();
            match take_census(plane, &mut before).await {
                Ok(fleet) => {
                    let at = fleet.at.unwrap_or(began);
                    if std::mem::replace(&mut has_rates, true) {
                        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
                        series.add(at, &fleet);
                    }
                    self.newest.send_replace(Arc::new(fleet));
                }
                Err(error) => tracing::debug!(%error, "census failed, retrying"),
            }
            let took = plane.now().unix_ms() - began.unix_ms();
            let took = Duration::from_millis(u64::try_from(took).unwrap_or(0));
            tokio::time::sleep(EVERY.max(took * SHARE)).await;
        }
    }
}

async fn take_census(plane: &ControlPlane, before: &mut PreviousRound) -> Result<FleetFigures> {
    let snapshot = plane.fleet().snapshot();
    let mut readings = BTreeMap::new();
    for shard in snapshot.shards() {
        let id = &shard.value.shard_id;
        readings.insert(id.clone(), read_shard(plane, id).await);
    }
    let owners = owners(plane).await?;
    let mut fleet = count(before, plane.now(), readings, &owners);
    for (id, heat) in heats(plane) {
        if let Some(shard) = fleet.shards.get_mut(&id) {
            shard.heat = Some(heat);
        }
    }
    Ok(fleet)
}

/// Each shard's heat, from the control plane's load measurements.
fn heats(plane: &ControlPlane) -> Vec<(ShardId, Heat)> {
    let Some(load) = plane.load_monitor() else {
        return Vec::new();
    };
    let heat = |(id, heat): (ShardId, ShardHeat)| {
        let shard_heat = Heat {
            percent: whole(heat.heat * 100.0),
            fullest: heat.fullest,
            votes_max: whole(heat.votes_per_second_max),
        };
        (id, shard_heat)
    };
    load.shard_heats().into_iter().map(heat).collect()
}

async fn read_shard(plane: &ControlPlane, id: &ShardId) -> ShardReading {
    let away = |why: String| ShardReading {
        trouble: Some(why),
        ..ShardReading::default()
    };
    let Some(movers) = plane.migration_backends() else {
        return away("the server is starting".to_owned());
    };
    let shard = match movers.shards.shard(id) {
        Ok(shard) => shard,
        Err(error) => return away(error.to_string()),
    };
    let usage = shard.usage().await;
    let tallies = match tokio::time::timeout(COUNTS_TIMEOUT, shard.tallies_since(0)).await {
        Ok(Ok((_, tallies))) => tallies,
        Ok(Err(error @ (ShardError::Unavailable { .. } | ShardError::Damaged { .. }))) => {
            return away(error.to_string());
        }
        // No poll is open.
        Ok(Err(_)) | Err(_) => Vec::new(),
    };
    ShardReading {
        trouble: usage.trouble.clone(),
        usage,
        tallies,
    }
}

/// The owners of slices that are on more than one shard because they are migrating.
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
