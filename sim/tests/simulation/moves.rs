//! Operators that move tenants back and forth, and the workers that do it: declared dead
//! while they still run, killed, paused, and replaced.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast_control_plane::calendar::CalendarSettings;
use ballast_control_plane::hotspots::HotspotSettings;
use ballast_control_plane::load::LoadSettings;
use ballast_control_plane::migrations::MigrationSettings;
use ballast_control_plane::migrations::slice_records::SliceRecords;
use ballast_control_plane::registry::typed;
use ballast_control_plane::{ControlPlane, ControlPlaneSettings};
use ballast_domain::ShardId;
use ballast_domain::migration::{LeftoverCopy, Migration};
use ballast_domain::moving::{ActiveMigration, MigrationId, MigrationPhase};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::tenant::{Epoch, Slice, SliceId, Tenant};
use ballast_migration_engine::copy::CopyProgress;
use ballast_migration_engine::worker::{
    AbandonOutcome, LeasedMigration, MigrationClaimError, MigrationError, MigrationProgress,
    MigrationWorker, WorkGoal, WorkOutcome, claim_slice,
};
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::shard::Holding;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::chance::{self, SeededEntropy};
use crate::net::{Caller, NetworkShards};
use crate::nodes::Nodes;
use crate::records::FaultyRouteStore;
use crate::registry::RemoteRegistry;
use crate::scheduler;
use crate::trace::{self, SimClock, note};

/// Starts migrations and runs their workers.
#[derive(Clone)]
pub(crate) struct MigrationDriver {
    pub(crate) registry: RemoteRegistry,
    pub(crate) nodes: Arc<Nodes>,
    /// Whether workers are killed and paused.
    pub(crate) rough: bool,
}

type Outcome = Result<WorkOutcome, MigrationError>;

/// The shard that the next worker does without, although it may be reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Abandons {
    Nothing,
    /// The target, in a window in which both sides acknowledge.
    Owner,
    /// The copy that is removed last.
    Copy,
}

impl Abandons {
    /// After a failure: the migration may end without removing its copy.
    fn after_failure(self, goals: &[WorkGoal]) -> Self {
        match self {
            Self::Nothing if goals.len() == 1 && chance::happens(150) => Self::Copy,
            Self::Copy if chance::happens(500) => Self::Nothing,
            same => same,
        }
    }
}

impl MigrationDriver {
    /// Opens a control plane, like a process that has just started.
    async fn plane(&self) -> ControlPlane {
        loop {
            let registry = Arc::new(self.registry.clone());
            let (clock, entropy) = (Arc::new(SimClock), Arc::new(SeededEntropy));
            match ControlPlane::open(registry, clock, entropy, settings()).await {
                Ok(plane) => return plane,
                Err(_) => sleep(chance::ms(10, 100)).await,
            }
        }
    }

    async fn records(&self) -> Arc<FaultyRouteStore> {
        Arc::new(FaultyRouteStore {
            whole: SliceRecords::new(self.plane().await),
            nodes: self.nodes.clone(),
        })
    }

    async fn worker(&self, caller: Caller) -> MigrationWorker {
        let network = NetworkShards {
            caller,
            nodes: self.nodes.clone(),
        };
        MigrationWorker::new(self.records().await, Arc::new(network), Arc::new(SimClock))
    }

    /// The reconciler: periodically undoes a seal that lasts too long.
    pub(crate) async fn unseal_periodically(self, slice: SliceId) {
        let worker = self.worker(Caller::Reconciler).await;
        loop {
            sleep(chance::ms(300, 1_000)).await;
            self.check_owners(&slice).await;
            let stage = *chance::pick(&["admitted", "cutOver"]);
            let migration: Migration = serde_json::from_value(json!({
                "migrationID": "looked after",
                "tenantID": slice.tenant_id,
                "slice": slice.slice,
                "fromShardID": "shard-1",
                "toShardID": "shard-2",
                "regions": [],
                "actor": { "name": "watchman" },
                "requestedAt": "2026-11-16T09:30:00Z",
                "terms": { "windowMs": 1 },
                "stage": stage,
            }))
            .unwrap();
            let seal_max_ms = settings().moves.seal_max_ms;
            if let Err(error) = worker.unseal_overdue(&migration, seal_max_ms).await {
                note!("cannot unseal {} yet: {error}", slice.tenant_id);
            }
        }
    }

    /// Moves a slice a number of times, one after the other.
    pub(crate) async fn operate(self, slice: SliceId, moves: u64) {
        let ids = self.nodes.ids();
        // Shards with an unneeded copy, to which no migration goes.
        let full = Arc::new(Mutex::new(BTreeSet::new()));
        for number in 0..moves {
            sleep(chance::ms(0, 1_000)).await;
            let name = MigrationId(format!("{}-m{number}", slice.tenant_id));
            let to = chance::pick(&ids).clone();
            if full.lock().unwrap().contains(&to) {
                note!("{name} to {to} is refused: a copy is left there");
                continue;
            }
            let sync = chance::happens(400);
            if self.claim_until_decided(&slice, &name, (&to, sync)).await {
                note!("{name} to {to} starts, sync: {sync}");
                let left = Arc::new(Mutex::new(None));
                let moved = self.run_migration(&slice, &name, sync, &left).await;
                let left: Option<LeftoverCopy> = left.lock().unwrap().take();
                if let Some(left) = left {
                    full.lock().unwrap().insert(left.shard.clone());
                    let later = self
                        .clone()
                        .remove_copy_later(slice.clone(), name.clone(), left);
                    let full = full.clone();
                    scheduler::spawn(scheduler::WORLD, async move {
                        let shard = later.await;
                        full.lock().unwrap().remove(&shard);
                    });
                } else if sync && !moved {
                    let epoch = self.epoch(&slice).await;
                    self.remove_copy(&slice, &name, (&to, epoch)).await;
                }
                note!("{name} ended, moved: {moved}");
                trace::count(|counts| match moved {
                    true => counts.moved += 1,
                    false => counts.undone += 1,
                });
            }
        }
        while !full.lock().unwrap().is_empty() {
            sleep(chance::ms(5, 300)).await;
        }
    }

    async fn claim_until_decided(
        &self,
        slice: &SliceId,
        name: &MigrationId,
        (to, sync): (&ShardId, bool),
    ) -> bool {
        let records = self.records().await;
        loop {
            match claim_slice(&*records, slice, name, to, sync).await {
                Ok(_) => return true,
                Err(MigrationClaimError::Refused(refused)) => {
                    note!("{name} is refused: {refused}");
                    // An earlier claim may have succeeded with its answer lost. The
                    // next read shows it.
                    if refused.to_string().contains("owns the slice already") {
                        return false;
                    }
                    sleep(Duration::from_millis(100)).await;
                }
                Err(_) => sleep(chance::ms(1, 100)).await,
            }
        }
    }

    /// Runs workers until a migration ends, and returns whether the slice moved. Stores
    /// a copy that was not removed in `left`.
    async fn run_migration(
        &self,
        slice: &SliceId,
        name: &MigrationId,
        sync: bool,
        left: &Arc<Mutex<Option<LeftoverCopy>>>,
    ) -> bool {
        let mut goals: Vec<WorkGoal> = match chance::below(8) {
            0 => vec![WorkGoal::RolledBack],
            1 => vec![WorkGoal::RolledBack, WorkGoal::Prepared],
            2 | 3 => vec![WorkGoal::RolledBack, WorkGoal::CutOver],
            4 | 5 => vec![WorkGoal::Finished, WorkGoal::CutOver],
            _ => vec![WorkGoal::Finished],
        };
        let mut lease = 0;
        let mut late = Vec::new();
        let progress = Arc::new(Mutex::new(MigrationProgress::default()));
        let mut abandons = Abandons::Nothing;
        let moved = loop {
            lease += 1;
            let goal = *goals.last().unwrap();
            let job = LeasedMigration {
                migration_id: name.clone(),
                slice: slice.clone(),
                lease,
                seal_max_ms: chance::happens(700).then(|| chance::within(20, 3_000)),
            };
            note!("{name} worker {lease} to {goal:?}, abandons: {abandons:?}");
            let process = scheduler::new_process();
            let (sender, mut receiver) = oneshot::channel();
            match abandons {
                Abandons::Owner => {
                    scheduler::spawn(process, abandon_owner(self.clone(), job, sender))
                }
                Abandons::Copy => {
                    let undo = goal == WorkGoal::RolledBack;
                    let left = left.clone();
                    scheduler::spawn(process, leave_copy(self.clone(), job, undo, left, sender));
                }
                Abandons::Nothing => {
                    scheduler::spawn(
                        process,
                        work(self.clone(), job, goal, progress.clone(), sender),
                    );
                }
            }
            let outcome = self.wait(process, &mut receiver).await;
            match outcome {
                Some(Ok(WorkOutcome::Ended { moved, back })) => break moved && !back,
                Some(Ok(WorkOutcome::GoalReached)) if abandons != Abandons::Nothing => {
                    abandons = Abandons::Nothing
                }
                Some(Ok(WorkOutcome::GoalReached)) => {
                    if sync && goal == WorkGoal::CutOver && chance::happens(500) {
                        abandons = Abandons::Owner;
                    }
                    if goals.len() > 1 {
                        goals.pop();
                        sleep(chance::ms(0, 2_000)).await;
                    }
                    self.check_source_copy(slice).await;
                }
                Some(Ok(WorkOutcome::Postponed)) => sleep(chance::ms(5, 300)).await,
                Some(Ok(WorkOutcome::Unknown)) => panic!("{name} is forgotten"),
                Some(Err(MigrationError::Different { .. })) => {
                    // Copy again; if that does not help, roll back.
                    progress.lock().unwrap().copied = CopyProgress::default();
                    if chance::happens(300) {
                        goals = vec![WorkGoal::RolledBack];
                    }
                }
                Some(Err(_)) => {
                    if chance::happens(100) {
                        goals = vec![WorkGoal::RolledBack];
                    }
                    abandons = abandons.after_failure(&goals);
                    sleep(chance::ms(5, 300)).await;
                }
                // Declared dead. It is dead, or continues later.
                None => {
                    late.push(process);
                    if chance::happens(150) {
                        goals = vec![WorkGoal::RolledBack];
                    }
                    abandons = abandons.after_failure(&goals);
                }
            }
        };
        for process in late {
            if chance::happens(500) {
                scheduler::kill(process);
            } else {
                scheduler::resume(process);
            }
        }
        moved
    }

    /// The owner's epoch.
    async fn epoch(&self, slice: &SliceId) -> Epoch {
        let worker = self.worker(Caller::Worker(0)).await;
        loop {
            match worker.read_route(slice).await {
                Ok(route) => return route.epoch,
                Err(_) => sleep(chance::ms(5, 300)).await,
            }
        }
    }

    /// Removes a copy that a migration has left, while later migrations may run. Returns
    /// its shard.
    async fn remove_copy_later(
        self,
        slice: SliceId,
        name: MigrationId,
        left: LeftoverCopy,
    ) -> ShardId {
        sleep(chance::ms(0, 3_000)).await;
        self.remove_copy(&slice, &name, (&left.shard, left.epoch))
            .await;
        left.shard
    }

    /// Tells a shard that may have been abandoned, however long that takes, and removes
    /// its copy.
    async fn remove_copy(
        &self,
        slice: &SliceId,
        name: &MigrationId,
        (shard, epoch): (&ShardId, Epoch),
    ) {
        let worker = self.worker(Caller::Worker(0)).await;
        loop {
            let reply = worker
                .notify_abandoned_shard(slice, (shard, epoch), name)
                .await;
            let done = match reply {
                Ok(None | Some(Holding::Gone)) => return,
                Ok(Some(_)) => {
                    worker
                        .remove_abandoned_copy(slice, (shard, epoch), name)
                        .await
                }
                Err(error) => Err(error),
            };
            note!("{name} leaves {shard}: {done:?}");
            sleep(chance::ms(5, 300)).await;
        }
    }

    /// Checks INV-7: during the window the source keeps its copy.
    async fn check_source_copy(&self, slice: &SliceId) {
        let Some(moving) = self.window_migration(slice).await else {
            return;
        };
        let Some((shard, _)) = self.nodes.up(&moving.from) else {
            return;
        };
        let Ok(fence) = shard.fence(slice).await else {
            return;
        };
        if self.window_migration(slice).await == Some(moving) {
            let holding = fence.map(|fence| fence.holding);
            let is_kept = matches!(holding, Some(Holding::Sealed | Holding::Retired));
            assert!(is_kept, "{slice} has no way back: {holding:?}");
        }
    }

    /// Checks that no shard owns the slice at an epoch above the record's.
    async fn check_owners(&self, slice: &SliceId) {
        for id in self.nodes.ids() {
            let Some((shard, _)) = self.nodes.up(&id) else {
                continue;
            };
            let Ok(Some(fence)) = shard.fence(slice).await else {
                continue;
            };
            if let (Holding::Owner, Some(recorded)) = (fence.holding, self.read_slice(slice).await)
            {
                let (owned, recorded) = (fence.epoch, recorded.epoch);
                assert!(
                    owned <= recorded,
                    "{id} owns {slice} at {owned:?}, not {recorded:?}"
                );
            }
        }
    }

    async fn window_migration(&self, slice: &SliceId) -> Option<ActiveMigration> {
        let moving = self.read_slice(slice).await?.moving?;
        (moving.phase == MigrationPhase::Window).then_some(moving)
    }

    /// Reads a slice from the registry, unless that is unreachable.
    async fn read_slice(&self, slice: &SliceId) -> Option<Slice> {
        let near = self.registry.direct().ok()?;
        let tenant = typed::get::<Tenant>(&near, slice.tenant_id.as_str()).await;
        let mut slices = tenant.ok()??.value.slices.into_iter();
        slices.find(|one| one.slice == slice.slice)
    }

    /// Waits for a worker until its lease expires.
    async fn wait(
        &self,
        process: scheduler::ProcessId,
        receiver: &mut oneshot::Receiver<Outcome>,
    ) -> Option<Outcome> {
        if !self.rough || !crate::weather::is_stormy() {
            return receiver.await.ok();
        }
        let lease = match chance::happens(600) {
            true => chance::ms(1, 400),
            false => chance::ms(400, 8_000),
        };
        if let Ok(outcome) = timeout(lease, &mut *receiver).await {
            return outcome.ok();
        }
        match chance::below(3) {
            0 => scheduler::kill(process),
            1 => {
                scheduler::halt(process);
                let pause = chance::ms(10, 15_000);
                scheduler::spawn(scheduler::WORLD, async move {
                    sleep(pause).await;
                    scheduler::resume(process);
                });
            }
            _ => {}
        }
        None
    }
}

async fn work(
    driver: MigrationDriver,
    job: LeasedMigration,
    goal: WorkGoal,
    progress: Arc<Mutex<MigrationProgress>>,
    reply: oneshot::Sender<Outcome>,
) {
    let worker = driver.worker(Caller::Worker(job.lease)).await;
    let mut own = progress.lock().unwrap().clone();
    let outcome = worker.work(&job, goal, &mut own).await;
    note!(
        "{} worker {}: {}",
        job.migration_id,
        job.lease,
        describe_outcome(&outcome)
    );
    if reply.send(outcome).is_ok() {
        *progress.lock().unwrap() = own;
    }
}

/// Takes a slice back without its target, although routers may still vote on it.
async fn abandon_owner(
    driver: MigrationDriver,
    job: LeasedMigration,
    reply: oneshot::Sender<Outcome>,
) {
    let worker = driver.worker(Caller::Worker(job.lease)).await;
    let leaving = async {
        match worker.take_back_without_owner(&job, false).await? {
            AbandonOutcome::NotApplicable => Ok(WorkOutcome::GoalReached),
            AbandonOutcome::Abandoned { synced, .. } => {
                assert!(synced, "{} loses what was acknowledged", job.migration_id);
                trace::count(|counts| counts.left_behind += 1);
                worker.release_abandoned(&job).await?;
                Ok(WorkOutcome::GoalReached)
            }
        }
    };
    let outcome = leaving.await;
    note!(
        "{} worker {} leaves: {}",
        job.migration_id,
        job.lease,
        describe_outcome(&outcome)
    );
    let _ = reply.send(outcome);
}

/// Ends a migration without removing its copy, which is removed later. Stores the copy
/// before it frees the record.
async fn leave_copy(
    driver: MigrationDriver,
    job: LeasedMigration,
    undo: bool,
    noted: Arc<Mutex<Option<LeftoverCopy>>>,
    reply: oneshot::Sender<Outcome>,
) {
    let worker = driver.worker(Caller::Worker(job.lease)).await;
    let leaving = async {
        let Some(leaving) = worker.finish_without_copy(&job, undo).await? else {
            return Ok(WorkOutcome::GoalReached);
        };
        noted.lock().unwrap().get_or_insert(leaving.left);
        worker.release(&job).await?;
        trace::count(|counts| counts.left_copies += 1);
        Ok(WorkOutcome::Ended {
            moved: !leaving.undone,
            back: leaving.back,
        })
    };
    let outcome = leaving.await;
    let (name, lease) = (&job.migration_id, job.lease);
    note!(
        "{name} worker {lease} leaves a copy: {}",
        describe_outcome(&outcome)
    );
    let _ = reply.send(outcome);
}

fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Ok(reached) => format!("{reached:?}"),
        Err(error) => error.to_string(),
    }
}

/// The settings of the control plane.
pub(crate) fn settings() -> ControlPlaneSettings {
    ControlPlaneSettings {
        default_region: "local".parse().unwrap(),
        pressure: PressureThresholds::default(),
        rotate_overlap_seconds: 60,
        moves: MigrationSettings::default(),
        load: LoadSettings::default(),
        hotspots: HotspotSettings::default(),
        calendar: CalendarSettings::default(),
    }
}
